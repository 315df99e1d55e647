"""What a batch of items becomes: new entries, repeats and conflicts. The same for every store."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ledger.canonical import decode, encode
from ledger.errors import ClosedError, EntryRefusedError, FencedError, OtherPlanError
from ledger.projection import ObservationRow, observation_row
from ledger.records import Conflict, EntryKind
from ledger.store import PLAN_KEY, Appended, Item, StoredEntry
from ledger.tree import Tree, leaf_hash
from matrices import Plan

MAX_KEY = 200
"""Characters of a key: `ledger.records.Key`."""

MAX_ENTRY_BYTES = 16 * 1024 * 1024
"""Bytes of one entry. A plan with the largest matrix has a few MiB; a reader needs some bound."""

Lookup = Callable[[Sequence[str]], Mapping[str, bytes]]
"""Gives, for those of the keys that are stored, the bytes of their entries."""


class Drafted(NamedTuple):
    """A batch that is ready to be written."""

    entries: list[StoredEntry]
    observations: list[ObservationRow]
    tree: Tree
    """Over the earlier entries and these."""
    closed: bool
    appended: Appended


def check_fence(investigation: str, current: int, fence: int | None) -> None:
    """Refuses a fence that is not the current one; `None` is not checked.

    Raises:
        FencedError: another driver took the lease.
    """
    if fence is not None and fence != current:
        raise FencedError(
            f"lease {fence} was replaced by lease {current}",
            place=investigation,
            hint="another driver has taken over: look at `reproduce status`",
        )


def plan_item(plan: Plan) -> Item:
    """What entry 0 says."""
    return Item(EntryKind.PLAN, PLAN_KEY, decode(plan.canonical()))


def check_same_plan(investigation: str, plan: Plan, known: str) -> None:
    """Refuses to open an investigation again with a plan other than the one with digest `known`.

    Raises:
        OtherPlanError: the digests differ.
    """
    if plan.digest() != known:
        raise OtherPlanError(
            f"the investigation was opened with plan {known[:12]}, not {plan.digest()[:12]}",
            place=investigation,
            hint="open a new investigation for a new plan",
        )


def draft(
    investigation: str,
    items: Sequence[Item],
    *,
    tree: Tree,
    closed: bool,
    lookup: Lookup,
    recorded_us: int,
) -> Drafted:
    """What the items become after the entries that `tree` stands for; `tree` grows by them.

    Raises:
        ClosedError: the investigation is closed and an item is new.
        EntryRefusedError: an item breaks a rule of the records.
        CanonicalError: a body is outside the canonical profile.
    """
    if recorded_us < 0:
        raise EntryRefusedError(
            f"`recorded_us` is {recorded_us}",
            place=investigation,
            hint="it counts from the epoch in microseconds",
        )
    writer = _Writer(investigation, tree, closed=closed, lookup=lookup, recorded_us=recorded_us)
    writer.known = dict(lookup([item.key for item in items]))
    for item in items:
        _check(item, size=tree.size)
        writer.take(item)
    return Drafted(
        entries=writer.entries,
        observations=writer.observations,
        tree=tree,
        closed=writer.closed,
        appended=Appended(
            tree.size, len(writer.entries), writer.repeated, tuple(dict.fromkeys(writer.conflicts))
        ),
    )


def _check(item: Item, *, size: int) -> None:
    if not 1 <= len(item.key) <= MAX_KEY:
        raise EntryRefusedError(
            f"a key has 1 to {MAX_KEY} characters, not {len(item.key)}", hint="shorten the key"
        )
    is_first = size == 0
    if (item.kind is EntryKind.PLAN) != is_first and item.key != PLAN_KEY:
        raise EntryRefusedError(
            "the plan is entry 0 and no other", hint="use `open_investigation` for a plan"
        )


def blobs_of(items: Sequence[Item]) -> dict[str, bytes]:
    """The blobs of a batch by their digests, each once and checked against its digest.

    Raises:
        EntryRefusedError: a blob goes by another name than its digest.
    """
    found: dict[str, bytes] = {}
    for item in items:
        for blob in item.blobs:
            if blob.sha256 in found:
                continue
            if hashlib.sha256(blob.data).hexdigest() != blob.sha256:
                raise EntryRefusedError(
                    f"the bytes are not those of blob {blob.sha256[:12]}",
                    hint="name a blob by the SHA-256 of the stored bytes",
                )
            found[blob.sha256] = blob.data
    return found


def conflict_item(item: Item) -> Item:
    """What is written instead of an item whose key holds something else."""
    content = encode(item.body)
    named = f"{item.kind.value}\n{item.key}\n".encode() + content
    record = Conflict(
        key=item.key,
        sha256=hashlib.sha256(content).hexdigest(),
        content=content.decode(),
    )
    key = f"conflict:{hashlib.sha256(named).hexdigest()}"
    return Item(EntryKind.CONFLICT, key, record.model_dump(mode="json"))


class _Writer:
    """Turns items into entries one by one; `known` grows by what it writes."""

    def __init__(
        self, investigation: str, tree: Tree, *, closed: bool, lookup: Lookup, recorded_us: int
    ) -> None:
        self.investigation = investigation
        self.tree = tree
        self.closed = closed
        self.lookup = lookup
        self.recorded_us = recorded_us
        self.known: dict[str, bytes] = {}
        self.entries: list[StoredEntry] = []
        self.observations: list[ObservationRow] = []
        self.conflicts: list[str] = []
        self.repeated = 0

    def take(self, item: Item) -> None:
        stored = self.known.get(item.key)
        if self.closed and item.kind is EntryKind.CLOSED:
            self.repeated += 1
        elif stored is None:
            self.write(item)
        elif _says(stored, item):
            self.repeated += 1
        else:
            self.conflicts.append(item.key)
            conflict = conflict_item(item)
            self.known.update(self.lookup([conflict.key]))
            if conflict.key not in self.known:
                self.write(conflict)

    def write(self, item: Item) -> None:
        if self.closed:
            raise ClosedError(
                f"the investigation is closed and takes no `{item.kind.value}`",
                place=self.investigation,
                hint="start a new investigation with the same plan",
            )
        seq, kind = self.tree.size, item.kind.value
        body = encode(
            {
                "v": 1,
                "investigation": self.investigation,
                "seq": seq,
                "kind": kind,
                "key": item.key,
                "recorded_us": self.recorded_us,
                "body": item.body,
            }
        )
        if len(body) > MAX_ENTRY_BYTES:
            raise EntryRefusedError(
                f"an entry of {len(body)} bytes is larger than {MAX_ENTRY_BYTES}",
                place=f"{self.investigation} key `{item.key}`",
                hint="put what is large into a blob",
            )
        leaf = leaf_hash(body)
        self.tree.append(leaf)
        self.entries.append(StoredEntry(seq, kind, item.key, body, leaf))
        self.known[item.key] = body
        if item.kind is EntryKind.OBSERVATION:
            self.observations.append(observation_row(seq, item.body))
        if item.kind is EntryKind.CLOSED:
            self.closed = True


def _says(stored: bytes, item: Item) -> bool:
    entry = decode(stored)
    return entry["kind"] == item.kind.value and encode(entry["body"]) == encode(item.body)
