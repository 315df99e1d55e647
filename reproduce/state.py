"""The state folder beside an investigation file: where it is, and who holds an investigation."""

import fcntl
import json
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from reproduce.errors import InfrastructureError, IntegrityError

FOLDER = ".reproduce"

_CHILDREN = (
    ".gitignore",
    "blobs",
    "environments",
    "ledger.sqlite",
    "ledger.sqlite-shm",
    "ledger.sqlite-wal",
    "locks",
    "spools",
    "trees",
    "world",
)
"""What is read or written in the folder by name."""


class State(NamedTuple):
    """The state folder and what stands in it."""

    root: Path

    @property
    def ledger(self) -> Path:
        """The default ledger."""
        return self.root / "ledger.sqlite"

    @property
    def trees(self) -> Path:
        """Stored source trees, by content."""
        return self.root / "trees"

    @property
    def environments(self) -> Path:
        """Built environments, by content."""
        return self.root / "environments"

    @property
    def world(self) -> Path:
        """Where a slot makes the world of its trial; the same path for every slot."""
        return self.root / "world"

    def spools(self, investigation: str) -> Path:
        """The spools of an investigation, one folder a session."""
        return self.root / "spools" / investigation

    def make(self) -> "State":
        """Makes the folder, which keeps itself out of version control and from other users.

        Raises:
            InfrastructureError: the folder cannot be made.
            IntegrityError: somebody else prepared it.
        """
        try:
            self.check()
            self.root.parent.mkdir(parents=True, exist_ok=True)
            self.root.mkdir(exist_ok=True, mode=0o700)
            found = self.root.stat()
            if found.st_mode & 0o077 and found.st_uid == os.geteuid():
                self.root.chmod(0o700)
            with suppress(FileExistsError):
                _write_new(self.root / ".gitignore", b"*\n")
        except OSError as error:
            message = f"cannot write: {error.strerror}"
            hint = "make room or choose a folder that you may write to"
            raise InfrastructureError(message, place=str(self.root), hint=hint) from error
        return self

    def check(self) -> None:
        """Refuses a folder that is somebody else's, or in which links lead elsewhere.

        Raises:
            IntegrityError: says which.
        """
        try:
            found = self.root.lstat()
        except FileNotFoundError:
            return
        if stat.S_ISLNK(found.st_mode):
            raise _refused(self.root, "the state folder is a link")
        if found.st_uid not in {os.geteuid(), 0}:
            raise _refused(self.root, "the state folder belongs to another user")
        for name in _CHILDREN:
            if (self.root / name).is_symlink():
                raise _refused(self.root / name, "a link stands in the state folder")


def _refused(path: Path, why: str) -> IntegrityError:
    hint = "look where it comes from, and remove it; the folder is made anew"
    return IntegrityError(f"{why}, so it may lead elsewhere", place=str(path), hint=hint)


def _write_new(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)


def state_of(folder: Path) -> State:
    """The state folder for investigation files in `folder`."""
    return State(folder.resolve() / FOLDER)


def nearest_state(start: Path) -> State:
    """The state folder in `start` or the nearest folder above it that has one, else in `start`.

    Raises:
        IntegrityError: the nearest one is somebody else's, or links in it lead elsewhere.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        state = State(folder / FOLDER)
        # A folder that may not be read cannot be used, and is passed over.
        if os.path.lexists(state.ledger):
            state.check()
            return state
    return State(start / FOLDER)


@contextmanager
def held(state: State, investigation: str) -> Iterator[None]:
    """Holds an investigation against other drivers; the kernel lets go of it if this one dies.

    Raises:
        InfrastructureError: another driver holds it; the message names that driver.
        IntegrityError: somebody prepared a link where its lock or its spools belong.
    """
    state.check()
    descriptor = _opened_lock(state, investigation)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _holder(descriptor)
            message = f"`{investigation}` is being run by {holder}"
            hint = "wait for it, or end it; `reproduce status` shows how far it is"
            raise InfrastructureError(message, hint=hint) from error
        os.ftruncate(descriptor, 0)
        who = {"pid": os.getpid(), "host": socket.gethostname()}
        os.pwrite(descriptor, json.dumps(who).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _opened_lock(state: State, investigation: str) -> int:
    folder = state.root / "locks"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{investigation}.lock"
    for prepared in (path, state.spools(investigation)):
        if prepared.is_symlink():
            raise _refused(prepared, "a link stands in the state folder")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _holder(descriptor: int) -> str:
    try:
        who = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {who['pid']} on {who['host']}"
    except (ValueError, KeyError):
        return "another process"
