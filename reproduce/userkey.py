"""The secret of the person at this machine, which tells their approvals from anyone else's."""

import os
import stat
from functools import cache
from pathlib import Path

from reproduce import clock
from reproduce.errors import IntegrityError

SIZE = 32
"""Bytes, as many as the digest that is made with it."""


def key_path() -> Path | None:
    """Where the key is kept; `None` where this user has no home.

    `$XDG_STATE_HOME` counts only where it is absolute, as the XDG specification demands.
    """
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    if named.is_absolute():
        return named / "reproduce" / "approval.key"
    try:
        return Path.home() / ".local" / "state" / "reproduce" / "approval.key"
    except RuntimeError:
        return None


def known_keys() -> tuple[bytes, ...]:
    """The keys whose seals are this user's: the kept one, or one that this process made.

    Raises:
        IntegrityError: somebody else can read or choose the kept key.
    """
    kept = _read()
    passing = (_passing_key(),) if _passing_key.cache_info().currsize else ()
    return passing if kept is None else (kept, *passing)


def sealing_key() -> bytes:
    """The key to seal with, made and kept where there is none.

    Where it cannot be kept it is good for this process only.

    Raises:
        IntegrityError: somebody else can read or choose the kept key.
    """
    kept = _read()
    if kept is None:
        _keep(clock.new_secret(SIZE))
        kept = _read()
    return _passing_key() if kept is None else kept


def is_kept() -> bool:
    """Whether a later process of this user will find the key."""
    return _read() is not None


@cache
def _passing_key() -> bytes:
    return clock.new_secret(SIZE)


def _read() -> bytes | None:
    path = key_path()
    if path is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        if path.is_symlink():
            raise _refused(path, "it is a link") from None
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _refused(path, "it is no file")
        if found.st_uid != os.geteuid():
            raise _refused(path, "it belongs to another user")
        if found.st_mode & 0o077:
            raise _refused(path, "other users may read or write it")
        key = os.read(descriptor, SIZE + 1)
    finally:
        os.close(descriptor)
    if len(key) != SIZE:
        raise _refused(path, f"it does not hold {SIZE} bytes")
    return key


def _refused(path: Path, why: str) -> IntegrityError:
    message = f"the key that seals approvals cannot be trusted: {why}"
    hint = "set HOME or XDG_STATE_HOME to a folder of your own, or remove the key if it is yours"
    return IntegrityError(message, place=str(path), hint=hint)


def _keep(key: bytes) -> None:
    """Writes the key whole or not at all; of two processes the first one's stays."""
    path = key_path()
    if path is None:
        return
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(
            part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
    except OSError:
        return
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
        os.link(part, path)
    except OSError:
        return
    finally:
        part.unlink(missing_ok=True)
