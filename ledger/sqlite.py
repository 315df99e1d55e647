"""The ledger in one SQLite file, with large blobs in a folder beside it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Self

from sqlalchemy import Connection

from ledger.audit import Audited, EntryReader
from ledger.batch import Drafted, blobs_of, check_fence, check_same_plan, draft, plan_item
from ledger.blobs import compress, decompress
from ledger.canonical import decode, encode
from ledger.content import ContentFolder
from ledger.errors import TamperedError
from ledger.projection import ObservationRow, observation_row
from ledger.records import EntryKind
from ledger.sqlite_file import SqliteFile
from ledger.sqlite_rows import (
    PAGE,
    State,
    add_blobs,
    add_drafted,
    add_investigation,
    add_observations,
    blob_page,
    check_readable,
    drop_observations,
    entry_page,
    find_blob,
    find_state,
    known_blobs,
    list_investigations,
    lookup,
    observation_page,
    raise_fence,
    read_state,
    stream_entries,
    stream_observations,
)
from ledger.store import (
    Appended,
    Head,
    InvestigationRow,
    Item,
    StoredEntry,
    check_investigation_name,
    name_matches,
)
from matrices import Plan

MAX_PACKED = 64 * 1024
"""Compressed bytes that still go into the database; larger blobs go into the folder."""

BUSY_TIMEOUT_MS = 15_000
"""How long to wait for another writer; a group commit of the largest size takes far less."""


class SqliteStore:
    """A `LedgerStore` in a file; one process writes to it at a time, any number reads."""

    def __init__(
        self, path: Path, *, busy_timeout_ms: int = BUSY_TIMEOUT_MS, for_audit: bool = False
    ) -> None:
        """Opens the ledger, making it where it is missing; its folder must exist.

        `for_audit` reads a file whose triggers were altered, and writes nothing.

        Raises:
            StoreUnavailableError: the file cannot be opened in the durable mode.
            SchemaAlteredError: its tables or triggers are not those that guard a ledger.
            FormatTooNewError: a newer version wrote it.
        """
        self._file = SqliteFile(path, busy_timeout_ms=busy_timeout_ms, for_audit=for_audit)
        self._folder = ContentFolder(path.parent / "blobs")
        if for_audit:
            self._check_readable(path)

    def __enter__(self) -> Self:
        """The store, closed at the end of the `with` block."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Closes the store."""
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def open_investigation(self, investigation: str, plan: Plan, *, recorded_us: int) -> Head:
        """Writes entry 0, the plan; see `LedgerStore`."""
        check_investigation_name(investigation)
        with self._writing() as connection:
            state = find_state(connection, investigation)
            if state is None:
                state = add_investigation(connection, investigation, plan, opened_us=recorded_us)
                drafted = _draft(connection, state, [plan_item(plan)], recorded_us)
                add_drafted(connection, state, drafted)
            else:
                check_same_plan(investigation, plan, state.plan.hex())
        return self.head(investigation)

    def lease(self, investigation: str) -> int:
        """A new fence; see `LedgerStore`."""
        with self._writing() as connection:
            state = read_state(connection, investigation)
            raise_fence(connection, state.n)
        return state.fence + 1

    def append(
        self,
        investigation: str,
        items: Sequence[Item],
        *,
        recorded_us: int,
        fence: int | None = None,
    ) -> Appended:
        """Writes a batch; see `LedgerStore`."""
        packed = self._pack(blobs_of(items))
        with self._writing() as connection:
            state = read_state(connection, investigation)
            check_fence(investigation, state.fence, fence)
            drafted = _draft(connection, state, items, recorded_us)
            add_blobs(connection, packed)
            if drafted.entries:
                add_drafted(connection, state, drafted)
        return drafted.appended

    def entries(self, investigation: str, *, start: int = 0) -> Iterator[StoredEntry]:
        """The entries from `start` in order; see `LedgerStore`."""
        with self._file.read() as connection:
            inv = read_state(connection, investigation).n
        return self._entries(inv, start)

    def observations(self, investigation: str, *, start: int = 0) -> Iterator[ObservationRow]:
        """The typed columns of the observations with a `seq` from `start`, in order."""
        with self._file.read() as connection:
            inv = read_state(connection, investigation).n
        return self._observations(inv, start)

    def head(self, investigation: str) -> Head:
        """Its size, root, fence and whether it is closed."""
        with self._file.read() as connection:
            return read_state(connection, investigation).head()

    def investigations(self) -> tuple[InvestigationRow, ...]:
        """All investigations, in the order in which they were opened."""
        with self._file.read() as connection:
            return list_investigations(connection)

    def find(self, prefix: str) -> tuple[InvestigationRow, ...]:
        """Those whose name begins with `prefix`, with or without `iv_`."""
        return tuple(row for row in self.investigations() if name_matches(row.id, prefix))

    def plan_bytes(self, investigation: str) -> bytes:
        """The canonical bytes of its plan."""
        first = next(self.entries(investigation), None)
        if first is None or first.seq:
            raise TamperedError(
                "entry 0 is missing",
                rule="dense",
                seq=0,
                place=investigation,
                hint="restore the file from a backup or a bundle",
            )
        return encode(decode(first.body)["body"])

    def blob(self, sha256: str) -> bytes | None:
        """The bytes with that digest, checked against it; `None` if they are not stored."""
        with self._file.read() as connection:
            found = find_blob(connection, sha256)
        if found is None:
            return None
        size, packed = found
        if packed is None:
            packed = self._folder.get(sha256)
        return None if packed is None else decompress(packed, sha256=sha256, size=size)

    def blob_digests(self, *, after: str = "") -> list[str]:
        """Digests of stored blobs beyond `after`, in order, a page at a time."""
        with self._file.read() as connection:
            return blob_page(connection, after=after, limit=PAGE)

    def rebuild(self, investigation: str) -> int:
        """Makes the projection anew from verified entries; see `LedgerStore`."""
        with self._writing() as connection:
            state = read_state(connection, investigation)
            drop_observations(connection, state.n)
            rows: list[ObservationRow] = []
            reader = EntryReader(investigation, state.head(), plan=state.plan.hex())
            for row in _projected(connection, state, reader):
                rows.append(row)
                if len(rows) == PAGE:
                    add_observations(connection, state.n, rows)
                    rows.clear()
            add_observations(connection, state.n, rows)
            return reader.finish().observations

    def audit(self, investigation: str) -> Audited:
        """What the stored entries show, if they keep every rule; compares the projection too.

        Works on one commit, whatever is written meanwhile.

        Raises:
            TamperedError: names the first entry that breaks a rule, and the rule.
        """
        with self._file.snapshot() as connection:
            state = read_state(connection, investigation)
            reader = EntryReader(investigation, state.head(), plan=state.plan.hex())
            stored = stream_observations(connection, state.n)
            for row in _projected(connection, state, reader):
                if next(stored, None) != row:
                    raise _projection_broken(investigation, row.seq)
            audited = reader.finish()
            extra = next(stored, None)
            if extra is not None:
                raise _projection_broken(investigation, extra.seq)
            return audited

    def _check_readable(self, path: Path) -> None:
        """Refuses a file whose tables are not tables; triggers do nothing to a reader."""
        try:
            with self._file.read() as connection:
                check_readable(connection, place=str(path))
        except BaseException:
            self._file.close()
            raise

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._file.write(self._commit) as connection:
            yield connection

    def _commit(self, connection: Connection) -> None:
        """Makes a transaction take effect; tests break it before and after."""
        connection.exec_driver_sql("COMMIT")

    def _pack(self, blobs: Mapping[str, bytes]) -> list[tuple[str, int, bytes | None]]:
        """The rows of those blobs that are new; the large ones are already in the folder."""
        if not blobs:
            return []
        with self._file.read() as connection:
            known = known_blobs(connection, list(blobs))
        rows: list[tuple[str, int, bytes | None]] = []
        for sha256, data in blobs.items():
            if sha256 in known:
                continue
            packed = compress(data)
            if len(packed) > MAX_PACKED:
                self._folder.put(sha256, packed)
                rows.append((sha256, len(data), None))
            else:
                rows.append((sha256, len(data), packed))
        return rows

    def _entries(self, inv: int, start: int) -> Iterator[StoredEntry]:
        while True:
            with self._file.read() as connection:
                page = entry_page(connection, inv, start=start, limit=PAGE)
            yield from page
            if len(page) < PAGE:
                return
            start = page[-1].seq + 1

    def _observations(self, inv: int, start: int) -> Iterator[ObservationRow]:
        while True:
            with self._file.read() as connection:
                page = observation_page(connection, inv, start=start, limit=PAGE)
            yield from page
            if len(page) < PAGE:
                return
            start = page[-1].seq + 1


def _draft(
    connection: Connection, state: State, items: Sequence[Item], recorded_us: int
) -> Drafted:
    return draft(
        state.id,
        items,
        tree=state.tree(),
        closed=bool(state.closed),
        lookup=partial(lookup, connection, state.n),
        recorded_us=recorded_us,
    )


def _projected(
    connection: Connection, state: State, reader: EntryReader
) -> Iterator[ObservationRow]:
    """The projection of all entries, each checked by the reader."""
    for entry in stream_entries(connection, state.n):
        body = reader.take(entry)["body"]
        if entry.kind == EntryKind.OBSERVATION and isinstance(body, dict):
            yield observation_row(entry.seq, body)


def _projection_broken(investigation: str, seq: int) -> TamperedError:
    return TamperedError(
        "the typed columns are not those of the entry",
        rule="projection",
        seq=seq,
        place=f"{investigation} entry {seq}",
        hint="`reproduce ledger rebuild` makes them anew from the entries",
    )
