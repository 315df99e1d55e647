"""Stores trees under the digest of their content."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from matrices import domain_digest
from reproduce.errors import InfrastructureError, IntegrityError, UsageError
from reproduce.trees import revisions
from reproduce.trees.listing import (
    FOLDER,
    LINK,
    PROGRAM,
    Node,
    every_node,
    is_versioned,
    located,
    source_nodes,
    unreadable,
)

DOMAIN = "reproduce-tree-v1"

MAX_FILES = 200_000
MAX_BYTES = 2 * 1024**3
"""More than these is rarely meant: a data set, or a folder of environments."""

MTIME_NS = 1_000_000_000 * 10**9
"""The time of every stored file: what depends on it is the same on every machine."""

_FILE_MODE = 0o644
_PROGRAM_MODE = _FOLDER_MODE = 0o755

_CHUNK_BYTES = 1024 * 1024


class Tree(NamedTuple):
    """A stored tree."""

    digest: str
    path: Path
    files: int
    size: int
    """Bytes of all files."""
    revision: str | None
    """The commit that was read, or on which the folder stands."""
    modified: bool
    """Whether the content differs from that commit, if only by a file that is not tracked."""


class _Line(NamedTuple):
    """One entry of a tree as it is digested."""

    path: bytes
    mode: str
    sha256: str


def snapshot(folder: Path, *, store: Path, place: str = "run.source") -> Tree:
    """Stores what is in a folder: tracked files, and untracked ones that git does not ignore.

    Without git, or where git ignores the whole folder, these are all files. Never `.git` or
    `.reproduce`; links stay links; pipes, sockets and devices have no content and are left out.

    Raises:
        UsageError: something cannot be read, or there is too much of it.
        InfrastructureError: the copy cannot be written.
    """
    if not folder.is_dir():
        hint = 'name a folder, or use `source = "none"`'
        raise UsageError(f"`{folder}` is not a folder", place=place, hint=hint)
    nodes = _links_last(source_nodes(folder, place=place))
    _check_limits(nodes, place=place)
    with _new_folder(store) as fresh:
        lines = [_copied(folder, node, fresh, place=place) for node in nodes]
        revision = revisions.head_of(folder) if is_versioned(folder) else None
        modified = revision is not None and revisions.differs(folder, revision, fresh, nodes)
        return _kept(fresh, lines, nodes, store=store, revision=revision, modified=modified)


def snapshot_revision(
    repository: Path, revision: str, *, store: Path, place: str = "run.source"
) -> Tree:
    """Stores what a git revision holds of a folder, without any history.

    The content is the committed one to the byte: no filter, line ending or export rule of the
    repository is applied. Submodules are left out.

    Raises:
        UsageError: there is no such revision, or nothing in it, or too much.
        InfrastructureError: the copy cannot be written.
    """
    commit = revisions.commit_of(repository, revision, place=place)
    entries = revisions.entries_of(repository, commit, place=place)
    nodes = [Node(entry.path, entry.mode, entry.size) for entry in entries]
    _check_limits(nodes, place=place)
    entries = [entry for entry in entries if entry.mode != LINK] + [
        entry for entry in entries if entry.mode == LINK
    ]
    with _new_folder(store) as fresh:
        lines = []
        for entry, content in revisions.contents(repository, entries, place=place):
            _write(fresh, entry.path, entry.mode, [content])
            lines.append(_Line(entry.path, entry.mode, hashlib.sha256(content).hexdigest()))
        return _kept(fresh, lines, nodes, store=store, revision=commit, modified=False)


def tree_path(store: Path, digest: str) -> Path:
    """Where the tree with this digest is stored."""
    return store / digest


def verify_tree(path: Path, digest: str) -> None:
    """Returns if the folder holds what the digest names.

    Raises:
        IntegrityError: the tree is missing, cannot be read, or has changed.
    """
    hint = "seal the plan again, or bring the stored tree back"
    if not path.is_dir():
        message = f"the stored tree `{digest[:12]}` is missing"
        raise IntegrityError(message, place=str(path), hint=hint)
    try:
        found = tree_digest(path)
    except UsageError as error:
        message = f"the stored tree `{digest[:12]}` cannot be read: {error}"
        raise IntegrityError(message, place=str(path), hint=hint) from error
    if found != digest:
        message = f"the stored tree `{digest[:12]}` has changed; it is `{found[:12]}` now"
        raise IntegrityError(message, place=str(path), hint=hint)


def tree_digest(folder: Path) -> str:
    """The digest of everything in a folder.

    Raises:
        UsageError: something in it cannot be read.
    """
    place = str(folder)
    lines = []
    for node in every_node(folder, place=place):
        digest = hashlib.sha256()
        for chunk in _chunks(folder, node, place=place):
            digest.update(chunk)
        lines.append(_Line(node.path, node.mode, digest.hexdigest()))
    return _digest(lines)


def _digest(lines: Sequence[_Line]) -> str:
    body = b"".join(
        f"{line.mode} {line.sha256} ".encode("ascii") + line.path + b"\0" for line in sorted(lines)
    )
    return domain_digest(DOMAIN, body)


def _links_last(nodes: Sequence[Node]) -> list[Node]:
    # Nothing is ever written through a link: no link exists yet when a file is written.
    return sorted(nodes, key=lambda node: node.mode == LINK)


def _check_limits(nodes: Sequence[Node], *, place: str) -> None:
    size = sum(node.size for node in nodes)
    if len(nodes) <= MAX_FILES and size <= MAX_BYTES:
        return
    message = (
        f"the source has {len(nodes)} files and {size} bytes; "
        f"at most {MAX_FILES} and {MAX_BYTES} are taken"
    )
    hint = 'have git ignore what is not needed, or use `source = "none"`'
    raise UsageError(message, place=place, hint=hint)


@contextmanager
def _new_folder(store: Path) -> Iterator[Path]:
    with _writing(store):
        store.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".new-", dir=store))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"the tree cannot be stored: {error.strerror or error}"
        hint = "make room, or permission to write, for the state folder"
        raise InfrastructureError(message, place=str(place), hint=hint) from error


def _copied(folder: Path, node: Node, fresh: Path, *, place: str) -> _Line:
    """Copies one entry, and digests what was copied whatever becomes of the original."""
    digest = hashlib.sha256()

    def chunks() -> Iterator[bytes]:
        for chunk in _chunks(folder, node, place=place):
            digest.update(chunk)
            yield chunk

    _write(fresh, node.path, node.mode, chunks())
    return _Line(node.path, node.mode, digest.hexdigest())


def _chunks(folder: Path, node: Node, *, place: str) -> Iterator[bytes]:
    """The content of an entry: a file's bytes, the target of a link, nothing of a folder."""
    source = located(folder, node.path)
    try:
        if node.mode == LINK:
            # As bytes: a `Path` would tidy the target.
            yield os.readlink(os.fsencode(source))  # noqa: PTH115
        elif node.mode != FOLDER:
            # Neither a link nor a pipe that has taken the file's place since it was listed.
            opened = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(opened, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor
                while chunk := file.read(_CHUNK_BYTES):
                    yield chunk
    except OSError as error:
        raise unreadable(node.path, error, place=place) from error


def _write(fresh: Path, path: bytes, mode: str, chunks: Iterable[bytes]) -> None:
    target = located(fresh, path)
    with _writing(fresh):
        if mode == FOLDER:
            target.mkdir(parents=True, exist_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if mode == LINK:
            os.symlink(b"".join(chunks), os.fsencode(target))  # noqa: PTH211 - as bytes
            return
        with target.open("xb") as file:
            file.writelines(chunks)
            os.fchmod(file.fileno(), _PROGRAM_MODE if mode == PROGRAM else _FILE_MODE)


def _kept(
    fresh: Path,
    lines: Sequence[_Line],
    nodes: Sequence[Node],
    *,
    store: Path,
    revision: str | None,
    modified: bool,
) -> Tree:
    """Moves the finished folder to its name; one that is there already has the same content."""
    digest = _digest(lines)
    target = tree_path(store, digest)
    with _writing(store):
        _settle(fresh)
        if not target.exists():
            try:
                fresh.rename(target)
            except OSError:
                # Somebody else stored the same tree at this moment.
                if not target.is_dir():
                    raise
    return Tree(
        digest=digest,
        path=target,
        files=sum(node.mode != FOLDER for node in nodes),
        size=sum(node.size for node in nodes),
        revision=revision,
        modified=modified,
    )


def _settle(fresh: Path) -> None:
    """Gives everything the permissions and the time that do not depend on who stored it."""
    for folder, folders, files in os.walk(fresh, topdown=False):
        here = Path(folder)
        for path in (here, *(here / name for name in (*files, *folders))):
            if path.is_dir() and not path.is_symlink():
                path.chmod(_FOLDER_MODE)
            os.utime(path, ns=(MTIME_NS, MTIME_NS), follow_symlinks=False)
