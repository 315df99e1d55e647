"""The statements of a ledger in SQLite: rows in, rows out, inside the caller's transaction."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select as core_select
from sqlmodel import col, select

from ledger.batch import Drafted
from ledger.errors import TamperedError, UnknownInvestigationError
from ledger.projection import ObservationRow
from ledger.sqlite_schema import OBJECTS, check_tables
from ledger.store import Head, InvestigationRow, StoredEntry
from ledger.tables import BlobTable, HeadTable, InvestigationTable, LedgerTable
from ledger.tree import Tree
from matrices import Plan

# Building a select costs more than a small commit's own work, so the statements of an append are
# text. The keys travel as one JSON parameter, so that the statement is the same for every batch.
_STATE = (
    "SELECT n, plan, size, frontier, fence, closed FROM investigation"
    " JOIN ledger_head ON inv = n WHERE id = ?"
)
_LOOKUP = (
    "SELECT key, body FROM ledger_entry WHERE inv = ? AND key IN (SELECT value FROM json_each(?))"
)
_ADD_INVESTIGATION = (
    "INSERT INTO investigation (id, plan, title, issue, opened_us)"
    " VALUES (?, ?, ?, ?, ?) RETURNING n"
)
_ADD_HEAD = "INSERT INTO ledger_head (inv, size, frontier) VALUES (?, 0, x'')"
_MOVE_HEAD = (
    "UPDATE ledger_head SET size = ?, frontier = ?, closed = ?"
    " WHERE inv = ? AND size = ? AND fence = ?"
)
_RAISE_FENCE = "UPDATE ledger_head SET fence = fence + 1 WHERE inv = ?"
_ADD_ENTRY = "INSERT INTO ledger_entry (inv, seq, kind, key, body, leaf) VALUES (?, ?, ?, ?, ?, ?)"
_ADD_OBSERVATION = "INSERT INTO observation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DROP_OBSERVATIONS = "DELETE FROM observation WHERE inv = ?"
# Another writer may have brought the same blob since it was looked up.
_ADD_BLOB = (
    "INSERT INTO blob (sha256, size, packed) SELECT ?1, ?2, ?3"
    " WHERE NOT EXISTS (SELECT 1 FROM blob WHERE sha256 = ?1)"
)
_BLOBS = "SELECT sha256 FROM blob WHERE sha256 > ? ORDER BY sha256 LIMIT ?"

# Core columns: a mapped class would make an object of every row.
_ENTRY = LedgerTable.metadata.tables["ledger_entry"].c
_OBSERVATION = LedgerTable.metadata.tables["observation"].c
_ENTRIES = core_select(*(_ENTRY[name] for name in StoredEntry._fields)).order_by(_ENTRY.seq)
_OBSERVATIONS = core_select(*(_OBSERVATION[name] for name in ObservationRow._fields)).order_by(
    _OBSERVATION.seq
)

_MAX_PARAMETERS = 10_000
"""Of one statement; SQLite takes 32,766."""

PAGE = 1000
"""Rows that a reader takes at a time: about 1 MB, and no cursor stays open between them."""


class State(NamedTuple):
    """An investigation and its head, as they are in the file."""

    id: str
    n: int
    plan: bytes
    size: int
    frontier: bytes
    fence: int
    closed: int

    def tree(self) -> Tree:
        """The tree of its entries.

        Raises:
            TamperedError: the head is damaged.
        """
        try:
            return Tree.from_frontier(self.size, self.frontier)
        except ValueError as error:
            raise TamperedError(
                f"the head is damaged: {error}",
                rule="head",
                place=self.id,
                hint="restore the file from a backup or a bundle",
            ) from error

    def head(self) -> Head:
        """The head in the words of the contract."""
        return Head(self.size, self.tree().root().hex(), self.fence, bool(self.closed))


def check_readable(connection: Connection, *, place: str) -> None:
    """Refuses a file whose tables are not tables.

    Raises:
        SchemaAlteredError: names the first object that differs.
    """
    check_tables([tuple(row) for row in connection.exec_driver_sql(OBJECTS)], place=place)


def find_state(connection: Connection, investigation: str) -> State | None:
    """The investigation with that name, or `None`."""
    row = connection.exec_driver_sql(_STATE, (investigation,)).first()
    return None if row is None else State(investigation, *row)


def read_state(connection: Connection, investigation: str) -> State:
    """The investigation with that name.

    Raises:
        UnknownInvestigationError: there is none.
    """
    state = find_state(connection, investigation)
    if state is None:
        raise UnknownInvestigationError(
            f"no investigation is called `{investigation}`",
            hint="`reproduce ledger list` names them",
        )
    return state


def list_investigations(connection: Connection) -> tuple[InvestigationRow, ...]:
    """All investigations, in the order in which they were opened."""
    statement = (
        select(InvestigationTable, col(HeadTable.size), col(HeadTable.closed))
        .join(HeadTable, col(HeadTable.inv) == col(InvestigationTable.n))
        .order_by(col(InvestigationTable.n))
    )
    return tuple(
        InvestigationRow(
            row.id, row.plan.hex(), row.title, row.issue, row.opened_us, row.size, bool(row.closed)
        )
        for row in connection.execute(statement)
    )


def add_investigation(
    connection: Connection, investigation: str, plan: Plan, *, opened_us: int
) -> State:
    """Lists an investigation, without entries so far."""
    digest = plan.digest()
    row = (investigation, bytes.fromhex(digest), plan.title, plan.issue, opened_us)
    n: int = connection.exec_driver_sql(_ADD_INVESTIGATION, row).scalar_one()
    connection.exec_driver_sql(_ADD_HEAD, (n,))
    return State(investigation, n, row[1], size=0, frontier=b"", fence=0, closed=0)


def raise_fence(connection: Connection, inv: int) -> None:
    """Makes the current lease old."""
    connection.exec_driver_sql(_RAISE_FENCE, (inv,))


def lookup(connection: Connection, inv: int, keys: Sequence[str]) -> Mapping[str, bytes]:
    """The bytes of those entries that have one of the keys."""
    rows = connection.exec_driver_sql(_LOOKUP, (inv, json.dumps(keys)))
    return {row.key: row.body for row in rows}


def add_drafted(connection: Connection, state: State, drafted: Drafted) -> None:
    """Writes entries, their projection and the head that belongs to them."""
    inv, tree = state.n, drafted.tree
    connection.exec_driver_sql(_ADD_ENTRY, [(inv, *entry) for entry in drafted.entries])
    add_observations(connection, inv, drafted.observations)
    head = (tree.size, tree.frontier(), int(drafted.closed), inv, state.size, state.fence)
    moved = connection.exec_driver_sql(_MOVE_HEAD, head)
    if moved.rowcount != 1:
        raise TamperedError(
            "the head moved inside a transaction",
            rule="head",
            place=state.id,
            hint="another program wrote to the file: run `reproduce ledger audit`",
        )


def add_observations(connection: Connection, inv: int, rows: Iterable[ObservationRow]) -> None:
    """Writes rows of the projection."""
    if values := [(inv, *row) for row in rows]:
        connection.exec_driver_sql(_ADD_OBSERVATION, values)


def drop_observations(connection: Connection, inv: int) -> None:
    """Empties the projection of an investigation."""
    connection.exec_driver_sql(_DROP_OBSERVATIONS, (inv,))


def known_blobs(connection: Connection, digests: Sequence[str]) -> set[str]:
    """Those of the digests under which a blob is stored."""
    found: set[str] = set()
    for start in range(0, len(digests), _MAX_PARAMETERS):
        wanted = [bytes.fromhex(digest) for digest in digests[start : start + _MAX_PARAMETERS]]
        marks = ", ".join("?" * len(wanted))
        statement = f"SELECT sha256 FROM blob WHERE sha256 IN ({marks})"  # noqa: S608 - only marks
        rows = connection.exec_driver_sql(statement, tuple(wanted))
        found.update(digest.hex() for (digest,) in rows)
    return found


def add_blobs(connection: Connection, rows: Sequence[tuple[str, int, bytes | None]]) -> None:
    """Writes blobs, given as digest, size and compressed bytes, that are not there."""
    if values := [(bytes.fromhex(digest), size, packed) for digest, size, packed in rows]:
        connection.exec_driver_sql(_ADD_BLOB, values)


def find_blob(connection: Connection, digest: str) -> tuple[int, bytes | None] | None:
    """The size and the compressed bytes under that digest, or `None`."""
    row = connection.execute(
        select(col(BlobTable.size), col(BlobTable.packed)).where(
            col(BlobTable.sha256) == bytes.fromhex(digest)
        )
    ).first()
    return None if row is None else (row.size, row.packed)


def blob_page(connection: Connection, *, after: str, limit: int) -> list[str]:
    """At most `limit` digests of blobs beyond `after`, in order."""
    rows = connection.exec_driver_sql(_BLOBS, (bytes.fromhex(after), limit))
    return [digest.hex() for (digest,) in rows]


def entry_page(connection: Connection, inv: int, *, start: int, limit: int) -> list[StoredEntry]:
    """At most `limit` entries from `start`, in order."""
    statement = _ENTRIES.where(_ENTRY.inv == inv, _ENTRY.seq >= start).limit(limit)
    return [StoredEntry(*row) for row in connection.execute(statement)]


def stream_entries(connection: Connection, inv: int) -> Iterator[StoredEntry]:
    """All entries in order, a page at a time, from the caller's transaction."""
    rows = connection.execute(
        _ENTRIES.where(_ENTRY.inv == inv), execution_options={"yield_per": PAGE}
    )
    return (StoredEntry(*row) for row in rows)


def observation_page(
    connection: Connection, inv: int, *, start: int, limit: int
) -> list[ObservationRow]:
    """At most `limit` rows of the projection from `start`, in order."""
    statement = _OBSERVATIONS.where(_OBSERVATION.inv == inv, _OBSERVATION.seq >= start)
    return [ObservationRow(*row) for row in connection.execute(statement.limit(limit))]


def stream_observations(connection: Connection, inv: int) -> Iterator[ObservationRow]:
    """The whole projection in order, a page at a time, from the caller's transaction."""
    rows = connection.execute(
        _OBSERVATIONS.where(_OBSERVATION.inv == inv), execution_options={"yield_per": PAGE}
    )
    return (ObservationRow(*row) for row in rows)
