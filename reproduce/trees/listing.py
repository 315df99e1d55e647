"""What belongs to a source tree."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reproduce.errors import UsageError
from reproduce.trees.git import git, git_program

FILE = "100644"
PROGRAM = "100755"
LINK = "120000"
FOLDER = "040000"
"""Modes as git writes them; folders are listed where they are empty."""

LEFT_OUT = frozenset({b".git", b".reproduce"})
"""Names that are never part of a tree: history may hold the fix, the state folder holds us."""


class Node(NamedTuple):
    """One entry of a tree: its path within it, its mode, its size in bytes."""

    path: bytes
    mode: str
    size: int


def is_versioned(folder: Path) -> bool:
    """Whether git, if there is one, tracks files in the folder or would.

    Raises:
        UsageError: there is a repository, and git cannot read it.
    """
    if git_program() is None:
        return False
    inside = git(folder, ["rev-parse", "--is-inside-work-tree"])
    if inside.code != 0 or inside.stdout.strip() != b"true":
        return False
    return git(folder, ["check-ignore", "--quiet", "."]).code != 0


def source_nodes(folder: Path, *, place: str) -> list[Node]:
    """The entries of a source folder: what git tracks or does not ignore, without git all.

    Raises:
        UsageError: a file or folder cannot be read; names it.
    """
    if not is_versioned(folder):
        return list(_all_nodes(folder, b"", LEFT_OUT, place=place))
    return list(_versioned_nodes(folder, b"", place=place))


def every_node(folder: Path, *, place: str) -> list[Node]:
    """All entries of a folder, nothing left out.

    Raises:
        UsageError: a file or folder cannot be read; names it.
    """
    return list(_all_nodes(folder, b"", frozenset(), place=place))


def belongs(path: bytes) -> bool:
    """Whether a path stays inside the tree and is not left out of it."""
    parts = path.split(b"/")
    return not any(part in {b"", b".", b".."} or part in LEFT_OUT for part in parts)


def located(folder: Path, path: bytes) -> Path:
    """Where an entry of a tree is."""
    return folder / os.fsdecode(path)


def unreadable(path: bytes, error: OSError, *, place: str) -> UsageError:
    """The error for something that cannot be read."""
    message = f"`{os.fsdecode(path)}` cannot be read: {error.strerror or error}"
    return UsageError(message, place=place, hint="make it readable, or have git ignore it")


def _versioned_nodes(folder: Path, prefix: bytes, *, place: str) -> Iterator[Node]:
    folders: dict[bytes, bool] = {b"": True}
    for path in sorted(_listed(folder, place=place)):
        parent = path.rpartition(b"/")[0]
        # Git still lists what it knew below a folder that has become a link to somewhere else.
        if not belongs(path) or not _is_real(folder, parent, folders):
            continue
        full = located(folder, path)
        if full.is_dir() and not full.is_symlink():
            yield from _nested_nodes(folder, path, prefix, place=place)
            continue
        node = _node(full, prefix + path, place=place)
        if node is not None:
            yield node


def _listed(folder: Path, *, place: str) -> set[bytes]:
    answer = git(folder, ["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
    # Git only warns of a folder that it cannot open, and goes on without it.
    if answer.code != 0 or "ermission denied" in answer.stderr:
        said = (answer.stderr.strip().splitlines() or ["no reason given"])[0]
        hint = "make the source readable, or have git ignore what is not needed"
        raise UsageError(f"git cannot list `{folder}`: {said}", place=place, hint=hint)
    return {path.rstrip(b"/") for path in answer.stdout.split(b"\0") if path}


def _nested_nodes(folder: Path, path: bytes, prefix: bytes, *, place: str) -> Iterator[Node]:
    """A submodule, or another repository within this one: its files, or an empty folder."""
    nested = located(folder, path)
    if (nested / ".git").exists():
        yield from _versioned_nodes(nested, prefix + path + b"/", place=place)
    else:
        yield Node(prefix + path, FOLDER, 0)


def _is_real(root: Path, folder: bytes, known: dict[bytes, bool]) -> bool:
    """Whether a folder and all above it, up to the root, are folders and not links."""
    found = known.get(folder)
    if found is None:
        above = folder.rpartition(b"/")[0]
        found = _is_real(root, above, known) and not located(root, folder).is_symlink()
        known[folder] = found
    return found


def _all_nodes(
    root: Path, prefix: bytes, left_out: frozenset[bytes], *, place: str
) -> Iterator[Node]:
    folder = located(root, prefix)
    try:
        # Names as bytes: a name need not be text.
        with os.scandir(os.fsencode(folder)) as entries:
            found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except OSError as error:
        raise unreadable(prefix.rstrip(b"/") or os.fsencode(folder), error, place=place) from error
    kept = [(name, is_folder) for name, is_folder in found if name not in left_out]
    if prefix and not kept:
        yield Node(prefix.rstrip(b"/"), FOLDER, 0)
    for name, is_folder in kept:
        if is_folder:
            yield from _all_nodes(root, prefix + name + b"/", left_out, place=place)
            continue
        node = _node(located(folder, name), prefix + name, place=place)
        if node is not None:
            yield node


def _node(full: Path, path: bytes, *, place: str) -> Node | None:
    """The entry at a path; `None` for what is gone and for what has no content."""
    try:
        status = full.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unreadable(path, error, place=place) from error
    if stat.S_ISLNK(status.st_mode):
        return Node(path, LINK, status.st_size)
    if not stat.S_ISREG(status.st_mode):
        return None
    mode = PROGRAM if status.st_mode & stat.S_IXUSR else FILE
    return Node(path, mode, status.st_size)
