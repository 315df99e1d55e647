"""Hand-made plans, items and faults for everything that is shown on a ledger store."""
# ruff: noqa: S101, SLF001
# `check_chain` asserts, and `break_next_commit` reaches inside a store: both are parts of tests.

import hashlib
from typing import Any, Literal

from ledger import (
    Blob,
    Closed,
    EntryKind,
    Item,
    LedgerStore,
    Note,
    StopReason,
    decode,
    observation_key,
    observation_row,
    verify_entries,
)
from matrices import (
    Budget,
    Choice,
    Condition,
    Contrast,
    ExitCodeSymptom,
    Plan,
    PolicyRef,
    Role,
    Source,
    SourceKind,
)

INVESTIGATION = f"iv_{1:032x}"
OTHER = f"iv_{2:032x}"
NOW_US = 1_764_000_000_000_000


def sample_plan(title: str = "loses a chunk") -> Plan:
    """A plan of two conditions."""
    return Plan(
        title=title,
        source=Source(kind=SourceKind.NONE),
        symptoms=(ExitCodeSymptom(name="exit", matched=(1,), clean=(0,)),),
        primary="exit",
        conditions=(_condition("eight", Role.TREATMENT), _condition("one", Role.CONTROL)),
        contrasts=(Contrast(stratum="", treatment=0, control=1),),
        budget=Budget(trials=60, parallel=1),
        policy=PolicyRef(name="strict/1"),
        seed=42,
    )


def _condition(name: str, role: Role) -> Condition:
    return Condition(
        name=name,
        choices=(Choice(factor="workers", level=name),),
        role=role,
        stratum="",
        cmd=("true",),
        timeout_us=1_000_000,
    )


def blob_of(data: bytes) -> Blob:
    """The blob of these bytes."""
    return Blob(hashlib.sha256(data).hexdigest(), data)


def observation_body(trial: int, *, output: bytes = b"", code: int = 0) -> dict[str, object]:
    """What a driver hands to a store: a plain dict in the canonical profile."""
    stream: dict[str, object] = {
        "sha256": hashlib.sha256(output).hexdigest(),
        "size": len(output),
        "stored": len(output),
        "truncated": False,
    }
    return {
        "trial": trial,
        "block": trial // 2,
        "condition": trial % 2,
        "attempt": 0,
        "seed": 2**53 - 1 - trial,
        "worker": "host/0",
        "ending": "exited",
        "code": code,
        "started_us": NOW_US + trial,
        "duration_us": 1500,
        "cpu_us": 900,
        "max_rss_kb": None,
        "leftovers": 0,
        "stdout": stream,
        "stderr": dict(stream),
        "files": [],
        "findings": [],
        "knobs": [],
        "knobs_not_applied": [],
        "detail": "",
    }


def observation(trial: int, *, output: bytes = b"", code: int = 0) -> Item:
    """One observation with its output."""
    body = observation_body(trial, output=output, code=code)
    return Item(EntryKind.OBSERVATION, observation_key(trial, 0), body, (blob_of(output),))


def note(key: str, text: str) -> Item:
    """One entry that no policy reads."""
    return Item(EntryKind.NOTE, key, Note(by="someone", text=text).model_dump(mode="json"))


def closing(reason: StopReason = StopReason.BUDGET) -> Item:
    """The entry that closes an investigation."""
    return Item(EntryKind.CLOSED, "closed", Closed(reason=reason).model_dump(mode="json"))


def check_chain(store: LedgerStore) -> None:
    """Verifies every entry, the tree and the projection of every investigation."""
    for row in store.investigations():
        entries = list(store.entries(row.id))
        audited = verify_entries(row.id, entries, store.head(row.id), plan=row.plan)
        projected = [
            observation_row(entry.seq, body_of(entry.body))
            for entry in entries
            if entry.kind == EntryKind.OBSERVATION
        ]
        assert audited.size == row.size == len(entries)
        assert list(store.observations(row.id)) == projected


def body_of(entry: bytes) -> dict[str, object]:
    """The body in the bytes of an entry."""
    body = decode(entry)["body"]
    assert isinstance(body, dict)
    return body


def break_next_commit(
    store: LedgerStore,
    when: Literal["before", "after"],
    error: BaseException,
) -> None:
    """Makes the next write raise before it takes effect, or after, and the later ones work."""
    anything: Any = store
    original = anything._commit

    def broken(*args: object) -> None:
        anything._commit = original
        if when == "before":
            raise error
        original(*args)
        raise error

    anything._commit = broken
