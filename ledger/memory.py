"""A store in memory: the double for tests and simulations, with every promise but durability."""

from collections.abc import Callable, Iterator, Sequence
from typing import Self

from ledger.audit import verify_entries
from ledger.batch import Drafted, blobs_of, check_fence, check_same_plan, draft, plan_item
from ledger.canonical import decode, encode
from ledger.errors import UnknownInvestigationError
from ledger.projection import ObservationRow, observation_row
from ledger.records import EntryKind
from ledger.store import (
    Appended,
    Head,
    InvestigationRow,
    Item,
    StoredEntry,
    check_investigation_name,
    name_matches,
)
from ledger.tree import Tree
from matrices import Plan


class _Shelf:
    """All that is held of one investigation."""

    def __init__(self, row: InvestigationRow) -> None:
        self.row = row
        self.entries: list[StoredEntry] = []
        self.by_key: dict[str, bytes] = {}
        self.observations: list[ObservationRow] = []
        self.tree = Tree()
        self.fence = 0
        self.closed = False

    def head(self) -> Head:
        return Head(self.tree.size, self.tree.root().hex(), self.fence, self.closed)

    def lookup(self, keys: Sequence[str]) -> dict[str, bytes]:
        return {key: self.by_key[key] for key in keys if key in self.by_key}

    def draft(self, items: Sequence[Item], recorded_us: int) -> Drafted:
        return draft(
            self.row.id,
            items,
            tree=Tree.from_frontier(self.tree.size, self.tree.frontier()),
            closed=self.closed,
            lookup=self.lookup,
            recorded_us=recorded_us,
        )

    def take(self, drafted: Drafted) -> None:
        self.entries += drafted.entries
        self.by_key |= {entry.key: entry.body for entry in drafted.entries}
        self.observations += drafted.observations
        self.tree = drafted.tree
        self.closed = drafted.closed


class MemoryStore:
    """A `LedgerStore` that forgets everything with its process. Not for several threads."""

    def __init__(self) -> None:
        """Makes an empty store."""
        self._shelves: dict[str, _Shelf] = {}
        self._blobs: dict[str, bytes] = {}

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Does nothing: there is nothing to let go."""

    def open_investigation(self, investigation: str, plan: Plan, *, recorded_us: int) -> Head:
        """Writes entry 0, the plan; see `LedgerStore`."""
        check_investigation_name(investigation)
        if investigation in self._shelves:
            check_same_plan(investigation, plan, self._shelves[investigation].row.plan)
            return self.head(investigation)
        row = InvestigationRow(
            investigation, plan.digest(), plan.title, plan.issue, recorded_us, size=0, closed=False
        )
        shelf = _Shelf(row)
        drafted = shelf.draft([plan_item(plan)], recorded_us)

        def change() -> None:
            self._shelves[investigation] = shelf
            shelf.take(drafted)

        self._commit(change)
        return shelf.head()

    def lease(self, investigation: str) -> int:
        """A new fence; see `LedgerStore`."""
        shelf = self._shelf(investigation)

        def change() -> None:
            shelf.fence += 1

        self._commit(change)
        return shelf.fence

    def append(
        self,
        investigation: str,
        items: Sequence[Item],
        *,
        recorded_us: int,
        fence: int | None = None,
    ) -> Appended:
        """Writes a batch; see `LedgerStore`."""
        shelf = self._shelf(investigation)
        check_fence(investigation, shelf.fence, fence)
        blobs = blobs_of(items)
        drafted = shelf.draft(items, recorded_us)

        def change() -> None:
            shelf.take(drafted)
            self._blobs |= blobs

        self._commit(change)
        return drafted.appended

    def _commit(self, change: Callable[[], None]) -> None:
        """Makes a change take effect; tests break it before and after."""
        change()

    def entries(self, investigation: str, *, start: int = 0) -> Iterator[StoredEntry]:
        """The entries from `start` in order."""
        return iter(self._shelf(investigation).entries[start:])

    def observations(self, investigation: str, *, start: int = 0) -> Iterator[ObservationRow]:
        """The typed columns of the observations with a `seq` from `start`."""
        return (row for row in self._shelf(investigation).observations if row.seq >= start)

    def head(self, investigation: str) -> Head:
        """Its size, root, fence and whether it is closed."""
        return self._shelf(investigation).head()

    def investigations(self) -> tuple[InvestigationRow, ...]:
        """All investigations, in the order in which they were opened."""
        return tuple(
            shelf.row._replace(size=shelf.tree.size, closed=shelf.closed)
            for shelf in self._shelves.values()
        )

    def find(self, prefix: str) -> tuple[InvestigationRow, ...]:
        """Those whose name begins with `prefix`, with or without `iv_`."""
        return tuple(row for row in self.investigations() if name_matches(row.id, prefix))

    def plan_bytes(self, investigation: str) -> bytes:
        """The canonical bytes of its plan."""
        return encode(decode(self._shelf(investigation).entries[0].body)["body"])

    def blob(self, sha256: str) -> bytes | None:
        """The bytes with that digest; `None` if they are not stored."""
        return self._blobs.get(sha256)

    def rebuild(self, investigation: str) -> int:
        """Makes the typed columns anew from verified entries."""
        shelf = self._shelf(investigation)
        verify_entries(investigation, shelf.entries, shelf.head(), plan=shelf.row.plan)
        shelf.observations = [
            observation_row(entry.seq, body)
            for entry in shelf.entries
            if entry.kind == EntryKind.OBSERVATION
            and isinstance(body := decode(entry.body)["body"], dict)
        ]
        return len(shelf.observations)

    def close(self) -> None:
        """Does nothing: there is nothing to let go."""

    def _shelf(self, investigation: str) -> _Shelf:
        if investigation not in self._shelves:
            raise UnknownInvestigationError(
                f"no investigation is called `{investigation}`",
                hint="`reproduce ledger list` names them",
            )
        return self._shelves[investigation]
