"""Whether entries are what was recorded: every rule, in order, from the bytes alone."""

import hashlib
from array import array
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from ledger.canonical import decode, encode
from ledger.errors import TamperedError
from ledger.records import EntryKind
from ledger.store import PLAN_KEY, Head, StoredEntry
from ledger.tree import Tree, leaf_hash
from matrices import CanonicalError, Plan


class Rule(StrEnum):
    """A rule that entries can break."""

    DENSE = "dense"
    """Entries are numbered from 0 without gaps, as many as the head says."""
    CANONICAL = "canonical"
    """The bytes are the canonical form of what they spell."""
    FIELDS = "fields"
    """An entry has exactly the fields of an entry, of their types."""
    COLUMNS = "columns"
    """Number, kind, key and investigation in the bytes are those that the entry is stored under."""
    LEAF = "leaf"
    """The stored hash is the hash of the bytes."""
    KEY = "key"
    """No key is used twice."""
    PLAN = "plan"
    """Entry 0 and no other is the plan, and it is the plan that the investigation is listed with."""
    CLOSED = "closed"
    """Nothing follows a `closed` entry, and the head says closed exactly if there is one."""
    ROOT = "root"
    """The root of the tree over all entries is that of the head."""
    HEAD = "head"
    """The stored frontier belongs to a tree of the stored size."""
    PROJECTION = "projection"
    """The typed columns of an observation are those in its entry."""
    REFUSED = "refused"
    """The store's own guards do not let an entry follow what is stored."""
    FILE = "file"
    """The file of the store can be read."""
    BLOB = "blob"
    """Stored bytes have the digest that they are stored under."""
    SCHEMA = "schema"
    """The tables and triggers are those that guard a ledger."""


class Audited(NamedTuple):
    """What an audit without a finding has shown."""

    size: int
    root: str
    observations: int
    conflicts: int
    clock_went_back: int
    """Entries recorded at an earlier time than the one before: reported, never used."""


def verify_entries(
    investigation: str, entries: Iterable[StoredEntry], head: Head, *, plan: str | None = None
) -> Audited:
    """What the entries show, if they keep every rule.

    Memory: 16 to 32 bytes for each entry, for the keys. `plan` is the digest that the investigation is
    listed with, where there is such a list.

    Raises:
        TamperedError: names the first entry that breaks a rule, and the rule.
    """
    reader = EntryReader(investigation, head, plan=plan)
    for entry in entries:
        reader.take(entry)
    return reader.finish()


class EntryReader:
    """Checks entries as they come; for callers that look at them at the same time."""

    def __init__(self, investigation: str, head: Head, *, plan: str | None = None) -> None:
        """Expects the entries of that investigation, in order, up to `head`."""
        self._investigation = investigation
        self._head = head
        self._plan = plan
        self._tree = Tree()
        self._keys = _Fingerprints()
        self._closed = False
        self._recorded_us = 0
        self._went_back = 0
        self._observations = 0
        self._conflicts = 0

    def take(self, entry: StoredEntry) -> dict[str, object]:
        """The fields of the next entry, if it keeps every rule.

        Raises:
            TamperedError: names the entry and the rule.
        """
        seq = self._tree.size
        if entry.seq != seq:
            what = "is missing" if entry.seq > seq else "is stored twice"
            raise self._broken(
                min(entry.seq, seq), Rule.DENSE, f"entry {min(entry.seq, seq)} {what}"
            )
        if seq >= self._head.size:
            raise self._broken(seq, Rule.DENSE, f"entry {seq} follows the last of the head")
        if leaf_hash(entry.body) != entry.leaf:
            raise self._broken(seq, Rule.LEAF, "the bytes do not have the stored hash")
        fields = self._fields(entry)
        self._check_place(entry, fields)
        recorded_us = fields["recorded_us"]
        assert isinstance(recorded_us, int)  # noqa: S101 - `_fields` has checked it
        self._went_back += recorded_us < self._recorded_us
        self._recorded_us = recorded_us
        self._tree.append(entry.leaf)
        self._observations += entry.kind == EntryKind.OBSERVATION
        self._conflicts += entry.kind == EntryKind.CONFLICT
        return fields

    def finish(self) -> Audited:
        """What all entries show together.

        Raises:
            TamperedError: entries are missing at the end, or the head is not theirs.
        """
        size, root = self._tree.size, self._tree.root().hex()
        if size < self._head.size:
            raise self._broken(size, Rule.DENSE, f"entry {size} is missing")
        if self._closed != self._head.closed:
            raise self._broken(None, Rule.CLOSED, "the head and the entries disagree on closed")
        if root != self._head.root:
            raise self._broken(
                None,
                Rule.ROOT,
                "an entry was written anew together with its hash, or the head was",
            )
        return Audited(size, root, self._observations, self._conflicts, self._went_back)

    def _fields(self, entry: StoredEntry) -> dict[str, object]:
        try:
            fields = decode(entry.body)
        except CanonicalError as error:
            raise self._broken(entry.seq, Rule.CANONICAL, str(error)) from error
        if {name: type(value) for name, value in fields.items()} != _FIELDS or fields["v"] != 1:
            raise self._broken(entry.seq, Rule.FIELDS, "the fields are not those of an entry")
        if fields["kind"] not in _KINDS:
            raise self._broken(entry.seq, Rule.FIELDS, f"`{fields['kind']}` is no kind of entry")
        return fields

    def _check_place(self, entry: StoredEntry, fields: dict[str, object]) -> None:
        stored = (self._investigation, entry.seq, entry.kind, entry.key)
        told = tuple(fields[name] for name in ("investigation", "seq", "kind", "key"))
        for name, left, right in zip(
            ("investigation", "seq", "kind", "key"), stored, told, strict=True
        ):
            if left != right:
                raise self._broken(
                    entry.seq, Rule.COLUMNS, f"stored with {name} `{left}`, but says `{right}`"
                )
        if (entry.kind == EntryKind.PLAN) != (entry.seq == 0) or (
            entry.seq == 0 and entry.key != PLAN_KEY
        ):
            raise self._broken(entry.seq, Rule.PLAN, "entry 0 and no other is the plan")
        if entry.seq == 0 and self._plan is not None:
            self._check_plan(encode(fields["body"]))
        if self._closed:
            raise self._broken(entry.seq, Rule.CLOSED, "an entry follows the closing one")
        self._closed = entry.kind == EntryKind.CLOSED
        if not self._keys.add(entry.key):
            raise self._broken(entry.seq, Rule.KEY, f"the key `{entry.key}` is used a second time")

    def _check_plan(self, body: bytes) -> None:
        try:
            digest = Plan.from_canonical(body).digest()
        except ValueError as error:
            raise self._broken(0, Rule.PLAN, f"entry 0 holds no plan: {error}") from error
        if digest != self._plan:
            raise self._broken(0, Rule.PLAN, "the plan is not the one that is listed")

    def _broken(self, seq: int | None, rule: Rule, message: str) -> TamperedError:
        where = f"{self._investigation}" if seq is None else f"{self._investigation} entry {seq}"
        return TamperedError(
            message,
            rule=rule,
            seq=seq,
            place=where,
            hint="the records are not what was recorded: compare with a bundle or a backup",
        )


_FIELDS = {
    "body": dict,
    "investigation": str,
    "key": str,
    "kind": str,
    "recorded_us": int,
    "seq": int,
    "v": int,
}
_KINDS = frozenset(kind.value for kind in EntryKind)


class _Fingerprints:
    """A set of keys by 8 bytes of their SHA-256, in a table that is at most half full.

    Two keys of a million share these bytes by chance with probability 3e-8, and are then called
    equal; equal keys are never called different.
    """

    def __init__(self) -> None:
        self._count = 0
        self._slots = array("Q", bytes(8 * 1024))

    def add(self, key: str) -> bool:
        """Whether the key was not there before; it is now."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        # 0 marks a free slot.
        if not _place(self._slots, int.from_bytes(digest[:8], "big") or 1):
            return False
        self._count += 1
        if 2 * self._count > len(self._slots):
            wider = array("Q", bytes(16 * len(self._slots)))
            for fingerprint in filter(None, self._slots):
                _place(wider, fingerprint)
            self._slots = wider
        return True


def _place(slots: "array[int]", fingerprint: int) -> bool:
    """Whether the fingerprint was not in the table before; it is now."""
    mask = len(slots) - 1
    place = fingerprint & mask
    while slots[place]:
        if slots[place] == fingerprint:
            return False
        place = (place + 1) & mask
    slots[place] = fingerprint
    return True
