"""Git on a repository that may be a stranger's: it reads objects and runs nothing of theirs."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from reproduce.errors import UsageError

_HARDENED = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "protocol.allow=never",
    "-c",
    # Reading another user's repository is what we are asked for; nothing in it is run.
    "safe.directory=*",
    "-c",
    "core.quotePath=false",
    "--no-pager",
)


class GitAnswer(NamedTuple):
    """What git printed, and how it ended."""

    code: int
    stdout: bytes
    stderr: str


def git(folder: Path, arguments: Sequence[str], *, given: bytes | None = None) -> GitAnswer:
    """Runs a git command in a folder, with no configuration but the repository's own.

    Callers use commands that read objects and the index; none that filters, checks out or diffs,
    since those run programs which the repository names.

    Raises:
        UsageError: git is not installed.
    """
    try:
        ended = subprocess.run(  # noqa: S603 - arguments are ours, names come after `--`
            ["git", *_HARDENED, *arguments],  # noqa: S607 - the user's git
            cwd=folder,
            env=_environment(),
            input=given if given is not None else b"",
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        hint = "install git, or give the tree as a folder"
        raise UsageError("git is not installed", place=str(folder), hint=hint) from error
    return GitAnswer(ended.returncode, ended.stdout, ended.stderr.decode("utf-8", "replace"))


def _environment() -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
