"""What goes to stdout and what to stderr."""

import json
import os
import sys
from collections.abc import Mapping

import typer

from reproduce.errors import ReproduceError
from reproduce.report.text import Drawn, printable

PROBLEM = "urn:reproduce:problem:"
"""Prefix of problem types (RFC 9457), the same on the command line and in the API."""


def emit(text: str) -> None:
    """Writes data to stdout, ending in one line feed; a reader that left is nobody's error."""
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError as error:
        # What is left in the buffer goes nowhere, so that the interpreter can flush at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from error


def emit_json(document: Mapping[str, object]) -> None:
    """Writes one JSON document to stdout, in ASCII, so that no text in it can move a cursor."""
    emit(json.dumps(document, ensure_ascii=True, indent=2))


def say(text: str) -> None:
    """Writes a remark to stderr, without what moves the cursor; colours only where we drew them."""
    if not isinstance(text, Drawn):
        text = printable(text, lines=True)
    sys.stderr.write(text if text.endswith("\n") else text + "\n")
    sys.stderr.flush()


def report_error(error: ReproduceError, *, as_json: bool) -> None:
    """Says what was found, where, and the way out; as a problem document on stdout for `--json`."""
    if as_json:
        kind = type(error).__name__.removesuffix("Error")
        document = {
            "type": PROBLEM + "".join(_dashed(kind)),
            "title": error.message,
            "detail": str(error),
            "exit_code": int(error.exit_code),
            "hint": error.hint or None,
        }
        emit_json(document)
        return
    say(_visible(str(error)))
    if error.hint:
        say(f"hint: {_visible(error.hint)}")
    if os.environ.get("REPRODUCE_DEBUG"):
        import traceback

        say("".join(traceback.format_exception(error)))


def _dashed(name: str) -> list[str]:
    return [
        f"-{char.lower()}" if char.isupper() and i else char.lower() for i, char in enumerate(name)
    ]


def _visible(text: str) -> str:
    """The text with marks for control characters: an error quotes what strangers wrote.

    Further lines stand to the right, so that none of them passes for a line of ours.
    """
    shown = "".join(char if char.isprintable() or char == "\n" else "�" for char in text)
    return shown.rstrip("\n").replace("\n", "\n  ")
