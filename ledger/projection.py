"""The typed columns of an observation, for counting without reading whole entries."""

from collections.abc import Mapping
from typing import NamedTuple

from ledger.errors import EntryRefusedError


class ObservationRow(NamedTuple):
    """The facts of an observation that are columns; times are microseconds."""

    seq: int
    """The entry that it was read from."""
    trial: int
    block: int
    condition: int
    attempt: int
    seed: int
    worker: str
    ending: str
    code: int | None
    started_us: int
    duration_us: int


def observation_row(seq: int, body: Mapping[str, object]) -> ObservationRow:
    """The columns of the observation with that body.

    Raises:
        EntryRefusedError: the body lacks one of them, or holds another type.
    """
    return ObservationRow(
        seq,
        _integer(body, "trial"),
        _integer(body, "block"),
        _integer(body, "condition"),
        _integer(body, "attempt"),
        _integer(body, "seed"),
        _text(body, "worker"),
        _text(body, "ending"),
        None if body.get("code", 0) is None else _integer(body, "code"),
        _integer(body, "started_us"),
        _integer(body, "duration_us"),
    )


def _integer(body: Mapping[str, object], name: str) -> int:
    value = body.get(name)
    if type(value) is not int:
        raise EntryRefusedError(
            f"the observation holds no integer `{name}`", hint="its fields are in `Observation`"
        )
    return value


def _text(body: Mapping[str, object], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise EntryRefusedError(
            f"the observation holds no text `{name}`", hint="its fields are in `Observation`"
        )
    return str(value)
