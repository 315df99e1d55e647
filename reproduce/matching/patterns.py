"""Patterns that a stranger may write: RE2, so that no output makes a search slow."""

import re
from collections.abc import Iterable
from typing import NamedTuple

import re2

from reproduce.errors import UsageError
from reproduce.matching.streams import Stretch, stretches

MAX_PATTERN_BYTES = 1024
"""Longer patterns are lists of cases that belong into several symptoms."""

MAX_MEMORY_BYTES = 8 * 1024 * 1024
"""What RE2 may use for one pattern; beyond it a search is slower, not wrong."""

_LACKS = (
    (r"\(\?<?[=!]", "RE2 has no look-around: match the text around it as well"),
    (r"\(\?>", "RE2 has no atomic groups, and never needs them: write `(?:…)`"),
    (r"\(\?#", "RE2 has no comments in patterns"),
    (r"\(\?(?:P$|P?[(&=|R0-9])", "RE2 has no back-references, conditions or recursion"),
    (r"escape sequence: \\[1-9kg]", "RE2 has no back-references: write the repeated text out"),
    (r"escape sequence: \\Z", r"the end of the output is `\z` in RE2"),
    (r"escape sequence: \\", "RE2 does not know this escape sequence"),
    (r"repetition operator: .*\+$", "RE2 has no possessive repeats, and never needs them"),
    (r"repetition size", "RE2 repeats at most 1000 times, the smaller number first"),
    (r"too large", "RE2 compiles patterns into 8 MiB: repeat fewer times"),
)
"""What people write that RE2 refuses, by its message, and the way out."""


class Pattern(NamedTuple):
    r"""A compiled pattern; `^` and `$` match at lines, `\A` and `\z` at the ends of the output."""

    source: str
    program: "re2._Regexp"

    def seen_in(self, parts: Iterable[Stretch]) -> bool:
        """Whether the pattern matches within one of the parts."""
        search = self.program.search
        return any(search(part.text, part.start, part.end) is not None for part in parts)

    def seen(self, stored: bytes) -> bool:
        """Whether the pattern matches in a stream as it is stored."""
        return self.seen_in(stretches(stored))


def compile_pattern(pattern: str, *, place: str) -> Pattern:
    """The pattern, ready to search.

    Raises:
        UsageError: RE2 refuses it, or it is too long, or it matches whatever there is.
    """
    try:
        source = pattern.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError("the pattern is not valid text", place=place) from error
    if len(source) > MAX_PATTERN_BYTES:
        message = f"the pattern has {len(source)} bytes; at most {MAX_PATTERN_BYTES} are taken"
        raise UsageError(message, place=place, hint="match one telling line")
    try:
        # `(?m)`: what people call the end of the output is nearly always the end of a line.
        program = re2.compile(b"(?m)" + source, _options())
    except re2.error as error:
        said = _text(error).replace("(?m)", "")
        raise UsageError(f"bad pattern: {said}", place=place, hint=_hint(said)) from error
    if program.search(b"") is not None and program.search(b"\x01") is not None:
        message = f"the pattern `{pattern}` matches any output, even none"
        raise UsageError(message, place=place, hint="require at least one character that tells")
    return Pattern(pattern, program)


def _options() -> "re2.Options":
    options = re2.Options()
    options.max_mem = MAX_MEMORY_BYTES
    options.log_errors = False
    options.never_capture = True
    return options


def _text(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _hint(said: str) -> str:
    for sign, hint in _LACKS:
        if re.search(sign, said):
            return hint
    return "patterns are RE2; in TOML, single quotes keep backslashes as they are"
