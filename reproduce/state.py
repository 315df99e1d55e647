"""The state folder beside an investigation file: where it is, and who holds an investigation."""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from reproduce.errors import InfrastructureError

FOLDER = ".reproduce"


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
        """Makes the folder, which keeps itself out of version control.

        Raises:
            InfrastructureError: the folder cannot be made.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            ignore = self.root / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
        except OSError as error:
            message = f"cannot write: {error.strerror}"
            hint = "make room or choose a folder that you may write to"
            raise InfrastructureError(message, place=str(self.root), hint=hint) from error
        return self


def state_of(folder: Path) -> State:
    """The state folder for investigation files in `folder`."""
    return State(folder.resolve() / FOLDER)


def nearest_state(start: Path) -> State:
    """The state folder in `start` or the nearest folder above it that has one, else in `start`."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / FOLDER / "ledger.sqlite").is_file():
            return State(folder / FOLDER)
    return State(start / FOLDER)


@contextmanager
def held(state: State, investigation: str) -> Iterator[None]:
    """Holds an investigation against other drivers; the kernel lets go of it if this one dies.

    Raises:
        InfrastructureError: another driver holds it; the message names that driver.
    """
    folder = state.root / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{investigation}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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


def _holder(descriptor: int) -> str:
    try:
        who = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {who['pid']} on {who['host']}"
    except (ValueError, KeyError):
        return "another process"
