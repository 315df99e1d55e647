from collections.abc import Callable

import pytest

from ledger import (
    EntryKind,
    Head,
    StoredEntry,
    TamperedError,
    decode,
    encode,
    leaf_hash,
    root_of,
    verify_entries,
)
from ledger.memory import MemoryStore
from reproduce.testing.ledgers import (
    INVESTIGATION,
    NOW_US,
    OTHER,
    closing,
    note,
    observation,
    sample_plan,
)

Entries = list[StoredEntry]
PLAN = sample_plan().digest()


def recorded() -> tuple[Entries, Head]:
    store = MemoryStore()
    store.open_investigation(INVESTIGATION, sample_plan(), recorded_us=NOW_US)
    items = [observation(n) for n in range(6)]
    store.append(INVESTIGATION, [*items, closing()], recorded_us=NOW_US)
    return list(store.entries(INVESTIGATION)), store.head(INVESTIGATION)


def rewritten(entry: StoredEntry, **fields: object) -> StoredEntry:
    """The entry with other fields and a hash and columns that agree with them."""
    told = decode(entry.body) | fields
    body = encode(told)
    seq, kind, key = told["seq"], told["kind"], told["key"]
    assert isinstance(seq, int)
    return StoredEntry(seq, str(kind), str(key), body, leaf_hash(body))


def reheaded(entries: Entries, head: Head) -> Head:
    return head._replace(root=root_of(e.leaf for e in entries).hex(), size=len(entries))


def changed(seq: int, **fields: object) -> Callable[[Entries], Entries]:
    def change(entries: Entries) -> Entries:
        entries[seq] = rewritten(entries[seq], **fields)
        return entries

    return change


def replaced(seq: int, **columns: object) -> Callable[[Entries], Entries]:
    def change(entries: Entries) -> Entries:
        entries[seq] = entries[seq]._replace(**columns)  # type: ignore[arg-type] # any column
        return entries

    return change


def edited(seq: int, old: bytes, new: bytes, *, with_leaf: bool) -> Callable[[Entries], Entries]:
    def change(entries: Entries) -> Entries:
        body = entries[seq].body.replace(old, new, 1)
        assert body != entries[seq].body
        leaf = leaf_hash(body) if with_leaf else entries[seq].leaf
        entries[seq] = entries[seq]._replace(body=body, leaf=leaf)
        return entries

    return change


def swapped(entries: Entries) -> Entries:
    entries[2], entries[4] = (
        entries[4]._replace(seq=2),
        entries[2]._replace(seq=4),
    )
    return entries


def in_another_order(entries: Entries) -> Entries:
    entries[2], entries[4] = entries[4], entries[2]
    return entries


def dropped(seq: int) -> Callable[[Entries], Entries]:
    return lambda entries: entries[:seq] + entries[seq + 1 :]


def dropped_and_numbered_anew(entries: Entries) -> Entries:
    kept = entries[:3] + entries[4:]
    return [entry._replace(seq=seq) for seq, entry in enumerate(kept)]


def doubled(entries: Entries) -> Entries:
    return [*entries[:3], entries[2], *entries[3:]]


def added(entries: Entries) -> Entries:
    return [*entries, rewritten(entries[-1], seq=7 + 1, key="more", kind="note")]


TAMPERINGS: dict[str, tuple[Callable[[Entries], Entries], int | None, str]] = {
    "a byte of the body": (edited(3, b'"code":0', b'"code":1', with_leaf=False), 3, "leaf"),
    "a byte of the hash": (replaced(5, leaf=bytes(32)), 5, "leaf"),
    "a blank": (edited(3, b'"code":0', b'"code": 0', with_leaf=True), 3, "canonical"),
    "a float": (edited(3, b'"code":0', b'"code":0.0', with_leaf=True), 3, "canonical"),
    "a repeated field": (edited(3, b',"v":1', b',"v":1,"v":1', with_leaf=True), 3, "canonical"),
    "no JSON": (edited(3, b"{", b"(", with_leaf=True), 3, "canonical"),
    "an unknown field": (changed(3, more=1), 3, "fields"),
    "another version": (changed(3, v=2), 3, "fields"),
    "a version that equals 1": (changed(3, v=True), 3, "fields"),
    "an unknown kind": (changed(3, kind="guess"), 3, "fields"),
    "a body that is no object": (changed(3, body=[]), 3, "fields"),
    "entries swapped": (swapped, 2, "columns"),
    "entries in another order": (in_another_order, 2, "dense"),
    "an entry dropped": (dropped(3), 3, "dense"),
    "the plan dropped": (dropped(0), 0, "dense"),
    "the last dropped": (dropped(7), 7, "dense"),
    "an entry dropped and the rest moved up": (dropped_and_numbered_anew, 3, "columns"),
    "an entry doubled": (doubled, 2, "dense"),
    "an entry added": (added, 8, "dense"),
    "another investigation": (changed(3, investigation=OTHER), 3, "columns"),
    "another key column": (replaced(3, key="obs:9:0"), 3, "columns"),
    "another kind column": (replaced(3, kind="note"), 3, "columns"),
    "a second plan": (changed(3, kind="plan"), 3, "plan"),
    "no plan": (changed(0, kind="note"), 0, "plan"),
    "a plan under another key": (changed(0, key="plan:2"), 0, "plan"),
    "another plan": (
        changed(0, body=decode(sample_plan("other").canonical())),
        0,
        "plan",
    ),
    "a plan that is none": (changed(0, body={}), 0, "plan"),
    "an entry after the close": (changed(5, kind="closed"), 6, "closed"),
    "never closed": (changed(7, kind="note"), None, "closed"),
    "a key used twice": (changed(4, key="obs:0:0"), 4, "key"),
    "an entry written anew with its hash": (changed(4, recorded_us=NOW_US + 1), None, "root"),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_what_was_altered_is_named(name: str) -> None:
    change, seq, rule = TAMPERINGS[name]
    entries, head = recorded()

    with pytest.raises(TamperedError) as caught:
        verify_entries(INVESTIGATION, change(entries), head, plan=PLAN)

    assert (caught.value.seq, caught.value.rule) == (seq, rule)
    assert INVESTIGATION in caught.value.place
    assert caught.value.hint


def test_untouched_entries_keep_every_rule() -> None:
    entries, head = recorded()

    audited = verify_entries(INVESTIGATION, iter(entries), head, plan=PLAN)

    assert audited == (8, head.root, 6, 0, 0)


@pytest.mark.parametrize("place", range(8))
def test_a_byte_that_is_flipped_anywhere_in_an_entry_is_named(place: int) -> None:
    entries, head = recorded()
    for offset in range(0, len(entries[place].body), 7):
        body = bytearray(entries[place].body)
        body[offset] ^= 1
        altered = [*entries]
        altered[place] = entries[place]._replace(body=bytes(body))

        with pytest.raises(TamperedError) as caught:
            verify_entries(INVESTIGATION, altered, head)

        assert caught.value.seq == place


def test_a_head_that_was_made_for_other_entries_is_found() -> None:
    entries, head = recorded()
    altered = changed(4, recorded_us=NOW_US + 1)([*entries])

    verify_entries(INVESTIGATION, altered, reheaded(altered, head), plan=PLAN)
    with pytest.raises(TamperedError, match="anew"):
        verify_entries(INVESTIGATION, entries, reheaded(altered, head), plan=PLAN)


def test_a_clock_that_went_back_is_reported_and_not_refused() -> None:
    store = MemoryStore()
    store.open_investigation(INVESTIGATION, sample_plan(), recorded_us=NOW_US)
    for number, recorded_us in enumerate((NOW_US - 5, NOW_US, NOW_US, 0)):
        store.append(INVESTIGATION, [note(f"n{number}", "x")], recorded_us=recorded_us)

    audited = verify_entries(
        INVESTIGATION, store.entries(INVESTIGATION), store.head(INVESTIGATION)
    )

    assert audited.clock_went_back == 2


def test_many_keys_are_all_told_apart_and_a_late_repeat_is_found() -> None:
    store = MemoryStore()
    store.open_investigation(INVESTIGATION, sample_plan(), recorded_us=NOW_US)
    items = [note(f"n{number}", "x") for number in range(5000)]
    store.append(INVESTIGATION, items, recorded_us=NOW_US)
    entries, head = list(store.entries(INVESTIGATION)), store.head(INVESTIGATION)

    assert verify_entries(INVESTIGATION, entries, head).size == 5001
    entries[5000] = rewritten(entries[5000], key="n17")
    with pytest.raises(TamperedError) as caught:
        verify_entries(INVESTIGATION, entries, head)

    assert (caught.value.seq, caught.value.rule) == (5000, "key")
    assert all(entry.kind != EntryKind.CONFLICT for entry in entries)
