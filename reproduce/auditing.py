"""What a ledger must be besides consistent: bodies of their kinds, honest sizes, and whole blobs.

Every function says what is wrong in words that name the entry, or nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError

from ledger.canonical import decode
from ledger.errors import LedgerError
from ledger.records import (
    Approval,
    Closed,
    Conflict,
    EntryKind,
    Intent,
    LateResult,
    NeverStarted,
    Note,
    Observation,
    Unsealed,
    VerdictIssued,
    observation_key,
)
from ledger.sqlite import SqliteStore
from ledger.store import InvestigationRow, LedgerStore, StoredEntry
from ledger.tree import Tree, leaf_hash
from matrices import Plan, Record

MODELS: Mapping[str, type[Record]] = {
    EntryKind.PLAN: Plan,
    EntryKind.APPROVAL: Approval,
    EntryKind.INTENT: Intent,
    EntryKind.ATTEMPT_NEVER_STARTED: NeverStarted,
    EntryKind.OBSERVATION: Observation,
    EntryKind.LATE_RESULT: LateResult,
    EntryKind.CONFLICT: Conflict,
    EntryKind.UNSEALED: Unsealed,
    EntryKind.VERDICT: VerdictIssued,
    EntryKind.NOTE: Note,
    EntryKind.CLOSED: Closed,
}
"""By kind of entry. A kind that is not here is reserved: nothing writes it yet."""


class Audit(NamedTuple):
    """What a look at one part of a ledger file showed."""

    holds: bool
    detail: str


def wrong_body(entry: StoredEntry) -> str | None:
    """How the body of an entry breaks the rules of its kind."""
    model = MODELS.get(entry.kind)
    if model is None:
        return f"entry {entry.seq} is of the kind `{entry.kind}`, which nothing writes"
    body = decode(entry.body)["body"]
    try:
        record = model.model_validate_json(orjson.dumps(body))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "body"
        return f"entry {entry.seq} is no {entry.kind}: {place}: {first['msg']}"
    if isinstance(record, Observation):
        expected = observation_key(record.trial, record.attempt)
        if entry.key != expected:
            return f"entry {entry.seq} has the key `{entry.key}`, and records `{expected}`"
    return None


def wrong_stream(seq: int, name: str, facts: Mapping[str, Any], data: bytes) -> str | None:
    """How the recorded sizes of a stream differ from what is stored of it."""
    stored, size, truncated = facts["stored"], facts["size"], facts["truncated"]
    if len(data) != stored:
        return f"entry {seq} says {stored} bytes of {name} are stored, and {len(data)} are"
    if not truncated and size != stored:
        return f"entry {seq} says {name} is stored whole, and {stored} of {size} bytes are"
    return None


def wrong_roots(read: Callable[[], Iterable[StoredEntry]]) -> str | None:
    """Which issued verdict names a size and a root that the entries before it do not have.

    Reads all entries twice.
    """
    claims: dict[int, list[tuple[int, str]]] = {}
    for entry in read():
        if entry.kind == EntryKind.VERDICT:
            body = orjson.loads(entry.body)["body"]
            if body["size"] > entry.seq:
                return f"entry {entry.seq} is a verdict over entries that do not stand before it"
            claims.setdefault(body["size"], []).append((entry.seq, body["root"]))
    tree = Tree()
    for entry in read():
        for seq, root in claims.pop(tree.size, ()):
            if tree.root().hex() != root:
                return f"entry {seq} is a verdict over another root than that of its entries"
        tree.append(leaf_hash(entry.body))
    return None


def projection_of(store: LedgerStore, row: InvestigationRow) -> Audit | None:
    """Whether the query tables are those of the entries; `None` where a store has none."""
    if not isinstance(store, SqliteStore):
        return None
    try:
        found = store.audit(row.id)
    except LedgerError as error:
        return Audit(holds=False, detail=str(error))
    except (ValueError, KeyError, TypeError) as error:
        return Audit(holds=False, detail=f"cannot be read: {error!r}")
    return Audit(holds=True, detail=f"{found.observations} rows are those of the entries")


def blobs_of(store: LedgerStore) -> Audit | None:
    """Whether all stored bytes have the digests they are stored under; `None` as above."""
    if not isinstance(store, SqliteStore):
        return None
    count = 0
    try:
        for sha256 in _digests(store):
            if store.blob(sha256) is None:
                return Audit(holds=False, detail=f"the bytes of blob {sha256} are missing")
            count += 1
    except LedgerError as error:
        return Audit(holds=False, detail=f"{error.place}: {error}" if error.place else str(error))
    return Audit(holds=True, detail=f"{count} stored outputs have their digests")


def _digests(store: SqliteStore) -> Iterator[str]:
    last = ""
    while page := store.blob_digests(after=last):
        yield from page
        last = page[-1]
