"""What a plan says of an environment."""

from pathlib import Path

from matrices import Environment
from reproduce.errors import UsageError


def requirements_text(path: Path, *, place: str) -> str:
    """The text of a requirements file, which becomes part of the plan.

    Raises:
        UsageError: it cannot be read, or refers to what would not be part of the plan.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
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
