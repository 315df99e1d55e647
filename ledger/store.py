"""The contract of a ledger store, and the values that go in and come out.

What every store promises; `reproduce.testing.stores` checks it:

- **Durable.** A write that returned survives a crash of the process and of the machine.
- **Whole.** A batch is written whole or not at all. When a write raises `StoreUnavailableError`
  either may have happened; the same call again is always right.
- **Once.** A key is stored once in an investigation. The same key, kind and body again is a no-op.
  Another kind or body under that key is written as a `conflict` entry (itself once), and the
  earlier entry stays as it is. `recorded_us` is no part of that comparison.
- **In order.** Entries are numbered by `seq` from 0 without gaps, and entry 0 is the plan. Time
  is never used for order.
- **Append-only.** Nothing is changed or removed. The root over all entries is that of the
  RFC 6962 tree of their bytes.
- **Fenced.** `lease` makes the fence of every earlier driver old, and a batch with an old fence
  is refused whole. A batch without a fence is not checked (an approval, a note).
- **Closed.** After a `closed` entry nothing is added: `ClosedError`. Closing again is a no-op,
  also for another reason, and so is repeating what is there.
- **Flat.** No store keeps the entries or their keys in memory, except the in-memory double.

A store reads no clock and makes no names: both are handed in.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, Self

from ledger.errors import EntryRefusedError
from ledger.projection import ObservationRow
from ledger.records import EntryKind
from matrices import Plan

INVESTIGATION = re.compile(r"iv_[0-9a-f]{32}")
"""How an investigation is named: `Entry.investigation` of `ledger.records`."""

PLAN_KEY = "plan"
"""The key of entry 0."""


class Blob(NamedTuple):
    """Captured bytes, named by their digest."""

    sha256: str
    """In hexadecimal, over `data`."""
    data: bytes


class Item(NamedTuple):
    """What becomes one entry."""

    kind: EntryKind
    key: str
    """What makes it unique within its investigation; 1 to 200 characters."""
    body: dict[str, object]
    """The canonical form of the record that `kind` names; the store does not parse it."""
    blobs: tuple[Blob, ...] = ()
    """Bytes that the body names by their digest, stored with it or not at all."""


class Appended(NamedTuple):
    """What became of a batch."""

    size: int
    """Entries of the investigation afterwards."""
    written: int
    """Entries that this call added, conflicts among them."""
    repeated: int
    """Items that were there already."""
    conflicts: tuple[str, ...]
    """Keys that held something else; each conflict is on record, now or from an earlier call."""


class Head(NamedTuple):
    """Where an investigation stands."""

    size: int
    root: str
    """The root of the tree over all entries in hexadecimal: the `canonicalSha256`."""
    fence: int
    """The lease that may write; 0 before the first."""
    closed: bool


class StoredEntry(NamedTuple):
    """One entry as it lies in the store: the columns beside the bytes that were hashed."""

    seq: int
    kind: str
    """Text and not `EntryKind`, so that an altered one can be read and named."""
    key: str
    body: bytes
    """The canonical bytes of the whole entry (`ledger.records.Entry`)."""
    leaf: bytes


class InvestigationRow(NamedTuple):
    """One line of the list of investigations."""

    id: str
    plan: str
    """The digest of its plan."""
    title: str
    issue: str | None
    opened_us: int
    size: int
    closed: bool


class LedgerStore(Protocol):
    """Where entries are kept. The promises are at the head of this module.

    Every method may raise `StoreUnavailableError` and, where it meets damage, `TamperedError`.
    Every method that takes an investigation raises `UnknownInvestigationError` for one that is
    not there, except `open_investigation`.
    """

    def open_investigation(self, investigation: str, plan: Plan, *, recorded_us: int) -> Head:
        """Writes entry 0, the plan; the same again is a no-op.

        Raises:
            OtherPlanError: the investigation exists with another plan.
        """
        ...

    def lease(self, investigation: str) -> int:
        """A new fence, higher than every earlier one, which it makes old."""
        ...

    def append(
        self,
        investigation: str,
        items: Sequence[Item],
        *,
        recorded_us: int,
        fence: int | None = None,
    ) -> Appended:
        """Writes a batch in one durable commit, in its order.

        Raises:
            FencedError: `fence` is not the current one; nothing was written.
            ClosedError: the investigation is closed; nothing was written.
            EntryRefusedError: an item breaks a rule of the records; nothing was written.
            CanonicalError: a body is outside the canonical profile; nothing was written.
        """
        ...

    def entries(self, investigation: str, *, start: int = 0) -> Iterator[StoredEntry]:
        """The entries from `start` in order; one that is added meanwhile may be among them."""
        ...

    def observations(self, investigation: str, *, start: int = 0) -> Iterator[ObservationRow]:
        """The typed columns of the observations with a `seq` from `start`, in order."""
        ...

    def head(self, investigation: str) -> Head:
        """Its size, root, fence and whether it is closed."""
        ...

    def investigations(self) -> tuple[InvestigationRow, ...]:
        """All investigations, in the order in which they were opened."""
        ...

    def find(self, prefix: str) -> tuple[InvestigationRow, ...]:
        """Those whose name begins with `prefix`, with or without `iv_`, in order of opening."""
        ...

    def plan_bytes(self, investigation: str) -> bytes:
        """The canonical bytes of its plan: read them with `Plan.from_canonical`."""
        ...

    def blob(self, sha256: str) -> bytes | None:
        """The bytes with that digest, checked against it; `None` if they are not stored."""
        ...

    def rebuild(self, investigation: str) -> int:
        """Makes the projections anew from verified entries; returns the observations written.

        Raises:
            TamperedError: the entries are not what was recorded; nothing was changed.
        """
        ...

    def close(self) -> None:
        """Lets go of files and connections; the store is not used afterwards."""
        ...

    def __enter__(self) -> Self:
        """The store, closed at the end of the `with` block."""
        ...

    def __exit__(self, *exc_info: object) -> None:
        """Closes the store."""
        ...


def check_investigation_name(investigation: str) -> None:
    """Refuses a name that no investigation can have.

    Raises:
        EntryRefusedError: names the rule.
    """
    if not INVESTIGATION.fullmatch(investigation):
        raise EntryRefusedError(
            f"`{investigation}` cannot name an investigation",
            hint="a name is `iv_` and 32 hex digits",
        )


def name_matches(investigation: str, prefix: str) -> bool:
    """Whether `prefix` is a beginning of the name, with or without `iv_`."""
    return investigation.startswith((prefix, f"iv_{prefix}"))
