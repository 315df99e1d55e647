"""Git on a repository that may be a stranger's: it reads objects and runs nothing of theirs."""

import functools
import os
import re
import shutil
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

_NO_REPOSITORY = re.compile(r"^fatal: not a git repository \(or any ", re.MULTILINE)


class GitAnswer(NamedTuple):
    """What git printed, and how it ended: 0, 1 for no, or another code outside a repository."""

    code: int
    stdout: bytes
    stderr: str


def git(folder: Path, arguments: Sequence[str], *, given: bytes | None = None) -> GitAnswer:
    """Runs a git command in a folder, with no configuration but the repository's own.

    Callers use commands that read objects and the index; none that filters, checks out or diffs,
    since those run programs which the repository names.

    Raises:
        UsageError: git is not installed, or cannot read the repository.
    """
    program, path = git_program(), _absolute_path()
    if program is None:
        hint = "install git, or give the tree as a folder"
        raise UsageError("git is not installed", place=str(folder), hint=hint)
    ended = subprocess.run(  # noqa: S603 - arguments are ours, names come after `--`
        [program, *_HARDENED, *arguments],
        cwd=folder,
        env=_environment(path),
        input=given if given is not None else b"",
        capture_output=True,
        check=False,
    )
    said = ended.stderr.decode("utf-8", "replace")
    # A damaged repository must not pass for a folder without one: ignored files would count.
    if ended.returncode not in {0, 1} and not _NO_REPOSITORY.search(said):
        last = (said.strip().splitlines() or [f"it ended with {ended.returncode}"])[-1]
        hint = "run `git fsck` there, and mend `.git/config` if git names it"
        raise UsageError(f"git cannot read `{folder}`: {last}", place=str(folder), hint=hint)
    return GitAnswer(ended.returncode, ended.stdout, said)


def git_program() -> str | None:
    """The absolute path of git; never one that the folder we stand in brings."""
    return _found(_absolute_path())


@functools.cache
def _found(path: str) -> str | None:
    return shutil.which("git", path=path) if path else None


def _absolute_path() -> str:
    """`PATH` without what depends on the folder that we stand in."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if Path(folder).is_absolute())


def _environment(path: str) -> dict[str, str]:
    return {
        "PATH": path,
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        # The repository's `protocol.NAME.allow` beats our `protocol.allow`, and nothing beats this:
        # a git that fetches missing objects by itself finds no way to.
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_ASKPASS": "false",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_SSH_COMMAND": "false",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
