"""What git holds of a revision, read object by object."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from reproduce.errors import UsageError
from reproduce.trees.git import git
from reproduce.trees.listing import FILE, FOLDER, LINK, PROGRAM, Node, belongs, located

_BATCH_BYTES = 64 * 1024 * 1024
_BATCH_ENTRIES = 5000
"""Read at once, so that a large revision does not stand in memory as a whole."""

_MODES = {"100644": FILE, "100664": FILE, "100755": PROGRAM, "120000": LINK}
"""Old repositories have group-writable files; submodules (160000) have no content here."""


class Entry(NamedTuple):
    """A file of a revision."""

    path: bytes
    mode: str
    size: int
    blob: str


def commit_of(repository: Path, revision: str, *, place: str) -> str:
    """The full name of the commit that a revision means.

    Raises:
        UsageError: there is no repository, or no such revision in it.
    """
    if not repository.is_dir():
        raise UsageError(f"`{repository}` is not a folder", place=place, hint="name a repository")
    asked = f"{revision}^{{commit}}"
    answer = git(repository, ["rev-parse", "--verify", "--quiet", "--end-of-options", asked])
    if answer.code == 0:
        return answer.stdout.decode("ascii").strip()
    hint = "fetch it first, or name a commit, tag or branch that `git log` knows"
    message = f"`{repository}` has no revision `{revision}`"
    raise UsageError(message, place=place, hint=hint)


def head_of(folder: Path) -> str | None:
    """The commit that a versioned folder stands on; `None` before the first one."""
    answer = git(folder, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
    return answer.stdout.decode("ascii").strip() if answer.code == 0 else None


def entries_of(folder: Path, commit: str, *, place: str) -> list[Entry]:
    """The files that a commit holds of a folder, sorted by path.

    Raises:
        UsageError: there are none, or the repository lacks one.
    """
    answer = git(folder, ["ls-tree", "-r", "-l", "-z", commit])
    found = []
    for line in answer.stdout.split(b"\0"):
        head, _, path = line.partition(b"\t")
        fields = head.decode("ascii").split()
        if fields and fields[0] in _MODES and belongs(path):
            if not fields[3].isdecimal():
                # Git writes `BAD` for the size of an object that it does not have.
                raise _lacking(path, place=place)
            found.append(Entry(path, _MODES[fields[0]], int(fields[3]), fields[2]))
    if answer.code != 0 or not found:
        message = f"revision `{commit[:12]}` holds no files of `{folder}`"
        hint = "name a folder that the revision has"
        raise UsageError(message, place=place, hint=hint)
    return sorted(found)


def contents(
    folder: Path, entries: Sequence[Entry], *, place: str
) -> Iterator[tuple[Entry, bytes]]:
    """Every entry with its content as it was committed, in order.

    Raises:
        UsageError: the repository lacks an object, as partial clones do.
    """
    for batch in _batches(entries):
        asked = "".join(f"{entry.blob}\n" for entry in batch).encode("ascii")
        output = git(folder, ["cat-file", "--batch"], given=asked).stdout
        start = 0
        for entry in batch:
            end = output.find(b"\n", start)
            expected = f"{entry.blob} blob {entry.size}".encode("ascii")
            if end < 0 or output[start:end] != expected:
                raise _lacking(entry.path, place=place)
            start = end + 1 + entry.size + 1
            yield entry, output[end + 1 : end + 1 + entry.size]


def _lacking(path: bytes, *, place: str) -> UsageError:
    message = f"the repository lacks the content of `{os.fsdecode(path)}`"
    hint = "fetch the whole revision; partial clones hold only part of it"
    return UsageError(message, place=place, hint=hint)


def differs(folder: Path, commit: str, copy: Path, nodes: Sequence[Node]) -> bool:
    """Whether the copied nodes of a folder differ from what a commit holds of it.

    Compares contents, and asks no filter of the repository: a file whose filter changes it on
    check-out differs. So do the files of submodules, which the commit names by their commit only.
    """
    try:
        entries = entries_of(folder, commit, place=str(folder))
    except UsageError:
        return True
    committed = {(entry.path, entry.mode): entry for entry in entries}
    present = {(node.path, node.mode): node for node in nodes if node.mode != FOLDER}
    if committed.keys() != present.keys():
        return True
    known = git(folder, ["rev-parse", "--show-object-format"]).stdout.decode("ascii").strip()
    return any(
        (entry.mode != LINK and entry.size != present[key].size)
        or _blob_name(copy, entry, kind=known or "sha1") != entry.blob
        for key, entry in committed.items()
    )


def _blob_name(copy: Path, entry: Entry, *, kind: str) -> str:
    path = located(copy, entry.path)
    content = os.fsencode(path.readlink()) if entry.mode == LINK else path.read_bytes()
    digest = hashlib.new(kind, b"blob %d\0" % len(content), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()


def _batches(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        if batch and (size + entry.size > _BATCH_BYTES or len(batch) == _BATCH_ENTRIES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield batch
