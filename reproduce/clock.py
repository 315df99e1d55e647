"""The only reader of time and entropy."""

import secrets
import time

import uuid_utils


def now_us() -> int:
    """Microseconds since the epoch, for records; never for order or durations."""
    return time.time_ns() // 1000


def monotonic_us() -> int:
    """Microseconds from an arbitrary start that never go backwards, for durations."""
    return time.monotonic_ns() // 1000


def new_investigation_id() -> str:
    """A fresh name for an investigation, sortable by the time of its making."""
    return f"iv_{uuid_utils.uuid7().hex}"


def new_secret(size: int) -> bytes:
    """Bytes that nobody can guess."""
    return secrets.token_bytes(size)


def new_session_id() -> str:
    """A fresh name for one start of the driver."""
    return str(uuid_utils.uuid7().hex)
