"""What a plan says of an environment."""

import os
import stat
from pathlib import Path

from matrices import Environment
from reproduce.errors import UsageError

_MAX_BYTES = 1024 * 1024
"""A thousand times a long list; the text becomes part of a plan that a person reads."""


def requirements_text(path: Path, *, place: str, folder: Path | None = None) -> str:
    """The text of a requirements file, which becomes part of the plan.

    The file lies below `folder`, the one of the investigation file, links followed; by default
    below the first folder of `path` that `..` does not leave again.

    Raises:
        UsageError: it lies elsewhere, cannot be read, or refers to what would not be part of the
            plan.
    """
    _check_inside(path, folder, place=place)
    try:
        text = _content(path).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        if isinstance(error, UnicodeDecodeError):
            said = "it is not UTF-8"
        message = f"`{path}` cannot be read: {said}"
        raise UsageError(message, place=place, hint="name a requirements file") from error
    for number, line in enumerate(text.splitlines(), start=1):
        _check_line(line.strip(), number, path, place=place)
    return text


def installs_something(environment: Environment) -> bool:
    """Whether the requirements have a line that is not a comment."""
    return any(line and not line.startswith("#") for line in _lines(environment))


def uses_tree(environment: Environment) -> bool:
    """Whether building reads the source tree: by a set-up command, or by a local requirement."""
    if environment.setup:
        return True
    return any(
        line.startswith(".") or "file:" in line or "@ ." in line for line in _lines(environment)
    )


def _check_inside(path: Path, folder: Path | None, *, place: str) -> None:
    try:
        inside = (path.parent if folder is None else folder).resolve()
        is_inside = path.resolve().is_relative_to(inside)
    except (OSError, RuntimeError, ValueError):
        # Not there, or a loop: reading it says so.
        return
    if not is_inside or (folder is None and ".." in path.parts):
        message = f"`{path}` leads out of the folder of the investigation file"
        hint = "copy the requirements file there: a plan takes in what a person can see beside it"
        raise UsageError(message, place=place, hint=hint)


def _content(path: Path) -> bytes:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(opened, "rb", closefd=True) as file:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise ValueError("it is not a regular file")
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError(f"it has more than {_MAX_BYTES} bytes")
    return data


def _lines(environment: Environment) -> list[str]:
    return [line.strip() for line in (environment.requirements or "").splitlines()]


def _check_line(line: str, number: int, path: Path, *, place: str) -> None:
    # `-rother.txt`, `-r other.txt`, `--requirement=other.txt`
    if line.startswith(("-r", "--requirement", "-c", "--constraint")):
        message = f"line {number} of `{path}` includes another file"
        hint = "write its lines here: what was approved is what is installed"
        raise UsageError(message, place=place, hint=hint)
    if line.startswith(("-e", "--editable")):
        message = f"line {number} of `{path}` installs a project in place"
        hint = "every trial gets a fresh tree of its own: run from there, or install a copy"
        raise UsageError(message, place=place, hint=hint)
