"""Whether an interpreter could not even load the probe."""

import re

_TAIL_BYTES = 8 * 1024
"""Enough for the last frames of a traceback, and cheap for a flood."""

_LAST_LINE = re.compile(
    rb"(?:ImportError|ModuleNotFoundError|SyntaxError|IndentationError|TabError)(?::.*)?"
)
_FRAME = re.compile(rb"^  File \"[^\n]+\", line [0-9]+", re.MULTILINE)
_NO_MODULE = re.compile(rb"\S*python\S*: No module named \S+|\S*python\S*: Error while finding .*")


def ends_unloaded(stored: bytes) -> bool:
    """Whether a stream ends as Python ends when it cannot import or compile what it should run.

    That is a traceback whose last line is an ImportError, a ModuleNotFoundError or a SyntaxError,
    or the line of `python -m` without the module. A message of several lines is not recognised.
    """
    if not stored:
        return False
    tail = stored[-_TAIL_BYTES:].rstrip()
    above, _, last = tail.rpartition(b"\n")
    last = last.rstrip(b"\r")
    if _LAST_LINE.fullmatch(last):
        # A syntax error in the script itself has a frame and no heading.
        return _FRAME.search(above) is not None
    return _NO_MODULE.fullmatch(last) is not None
