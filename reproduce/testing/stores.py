"""The contract of a ledger store as tests: subclass `StoreContract` and give it a `store`."""
# ruff: noqa: S101, PLR2004, D102
# A test asserts, its numbers are the point, and its name says what it shows.

import hashlib
from collections.abc import Callable
from typing import Literal

import pytest

from ledger import (
    PLAN_KEY,
    Blob,
    ClosedError,
    Ending,
    EntryKind,
    EntryRefusedError,
    FencedError,
    Item,
    LedgerStore,
    Observation,
    OtherPlanError,
    StopReason,
    StoreUnavailableError,
    StreamFacts,
    UnknownInvestigationError,
    decode,
    encode,
)
from matrices import CanonicalError, Plan
from reproduce.testing.ledgers import (
    INVESTIGATION,
    NOW_US,
    OTHER,
    blob_of,
    body_of,
    break_next_commit,
    check_chain,
    closing,
    note,
    observation,
    sample_plan,
)

WHEN: tuple[Literal["before", "after"], ...] = ("before", "after")

Reopen = Callable[[LedgerStore], LedgerStore]


def _open(store: LedgerStore) -> object:
    return store.open_investigation(OTHER, sample_plan("another"), recorded_us=NOW_US)


def _append(store: LedgerStore) -> object:
    items = [observation(trial, output=b"x" * trial) for trial in range(5)]
    return store.append(INVESTIGATION, items, recorded_us=NOW_US).size


def _append_conflict(store: LedgerStore) -> object:
    store.append(INVESTIGATION, [observation(9)], recorded_us=NOW_US)
    items = [observation(9, code=1), observation(10)]
    return store.append(INVESTIGATION, items, recorded_us=NOW_US).size


def _append_large_blob(store: LedgerStore) -> object:
    noise = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(4000))
    return store.append(INVESTIGATION, [observation(3, output=noise)], recorded_us=NOW_US).size


def _close(store: LedgerStore) -> object:
    return store.append(INVESTIGATION, [note("n", "x"), closing()], recorded_us=NOW_US).size


def _rebuild(store: LedgerStore) -> object:
    store.append(INVESTIGATION, [observation(1)], recorded_us=NOW_US)
    return store.rebuild(INVESTIGATION)


WRITES: dict[str, Callable[[LedgerStore], object]] = {
    "open": _open,
    "append": _append,
    "append_conflict": _append_conflict,
    "append_large_blob": _append_large_blob,
    "close": _close,
    "rebuild": _rebuild,
}
"""Every kind of write that may be sent again; `lease` has a test of its own."""


class StoreContract:
    """Subclass it with two fixtures: `store`, an empty store, and `reopen`.

    `reopen` closes a store and gives it back as a new process would find it. `_commit` of the
    store must be the one step by which a write takes effect.
    """

    @pytest.fixture
    def store(self) -> LedgerStore:
        raise NotImplementedError

    @pytest.fixture
    def reopen(self) -> Reopen:
        raise NotImplementedError

    @pytest.fixture
    def opened(self, store: LedgerStore) -> LedgerStore:
        store.open_investigation(INVESTIGATION, sample_plan(), recorded_us=NOW_US)
        return store

    def test_the_plan_is_entry_0_and_reads_back_to_the_byte(self, opened: LedgerStore) -> None:
        first = next(opened.entries(INVESTIGATION))

        assert (first.seq, first.kind, first.key) == (0, "plan", PLAN_KEY)
        assert Plan.from_canonical(opened.plan_bytes(INVESTIGATION)) == sample_plan()
        check_chain(opened)

    def test_opening_again_with_the_same_plan_changes_nothing(self, opened: LedgerStore) -> None:
        before = opened.head(INVESTIGATION)

        again = opened.open_investigation(INVESTIGATION, sample_plan(), recorded_us=NOW_US + 1)

        assert again == before == opened.head(INVESTIGATION)

    def test_opening_again_with_another_plan_is_refused(self, opened: LedgerStore) -> None:
        with pytest.raises(OtherPlanError):
            opened.open_investigation(INVESTIGATION, sample_plan("other"), recorded_us=NOW_US)

        assert opened.head(INVESTIGATION).size == 1

    @pytest.mark.parametrize("name", ["", "iv_1", "iv_" + "G" * 32, "iv_" + "0" * 33])
    def test_a_name_that_no_investigation_can_have_is_refused(
        self, store: LedgerStore, name: str
    ) -> None:
        with pytest.raises(EntryRefusedError):
            store.open_investigation(name, sample_plan(), recorded_us=NOW_US)

        assert store.investigations() == ()

    def test_an_unknown_investigation_is_named_as_such(self, opened: LedgerStore) -> None:
        calls: list[Callable[[], object]] = [
            lambda: opened.head(OTHER),
            lambda: opened.lease(OTHER),
            lambda: opened.append(OTHER, [], recorded_us=NOW_US),
            lambda: list(opened.entries(OTHER)),
            lambda: list(opened.observations(OTHER)),
            lambda: opened.plan_bytes(OTHER),
            lambda: opened.rebuild(OTHER),
        ]
        for call in calls:
            with pytest.raises(UnknownInvestigationError):
                call()

    def test_what_was_appended_reads_back_as_the_record(self, opened: LedgerStore) -> None:
        opened.append(INVESTIGATION, [observation(4, output=b"hi")], recorded_us=NOW_US)

        (entry,) = opened.entries(INVESTIGATION, start=1)
        read = Observation.model_validate_json(encode(body_of(entry.body)))
        assert read.trial == 4
        assert read.ending is Ending.EXITED
        assert read.stdout == StreamFacts(
            sha256=blob_of(b"hi").sha256, size=2, stored=2, truncated=False
        )
        check_chain(opened)

    def test_the_same_item_again_is_a_no_op(self, opened: LedgerStore) -> None:
        items = [observation(0), observation(1)]
        first = opened.append(INVESTIGATION, items, recorded_us=NOW_US)
        head = opened.head(INVESTIGATION)

        again = opened.append(INVESTIGATION, items, recorded_us=NOW_US + 5)

        assert (first.written, first.repeated, first.size) == (2, 0, 3)
        assert (again.written, again.repeated, again.size) == (0, 2, 3)
        assert opened.head(INVESTIGATION) == head

    def test_a_batch_may_be_partly_new(self, opened: LedgerStore) -> None:
        opened.append(INVESTIGATION, [observation(1)], recorded_us=NOW_US)

        appended = opened.append(
            INVESTIGATION, [observation(0), observation(1), observation(0)], recorded_us=NOW_US
        )

        assert (appended.written, appended.repeated) == (1, 2)
        check_chain(opened)

    def test_an_empty_batch_writes_nothing(self, opened: LedgerStore) -> None:
        assert opened.append(INVESTIGATION, [], recorded_us=NOW_US) == (1, 0, 0, ())

    @pytest.mark.parametrize("together", [True, False])
    def test_another_content_under_a_key_becomes_a_conflict_once(
        self, opened: LedgerStore, *, together: bool
    ) -> None:
        first, second = observation(0, code=0), observation(0, code=1)
        batches = [[first, second]] if together else [[first], [second]]

        *_, appended = [
            opened.append(INVESTIGATION, batch, recorded_us=NOW_US) for batch in batches
        ]
        again = opened.append(INVESTIGATION, [second, second], recorded_us=NOW_US)

        kinds = [entry.kind for entry in opened.entries(INVESTIGATION)]
        assert kinds == ["plan", "observation", "conflict"]
        assert appended.conflicts == again.conflicts == (first.key,)
        assert again.written == 0
        check_chain(opened)

    def test_a_conflict_keeps_what_was_refused(self, opened: LedgerStore) -> None:
        refused = observation(0, code=1)
        opened.append(INVESTIGATION, [observation(0), refused], recorded_us=NOW_US)

        body = body_of(list(opened.entries(INVESTIGATION))[-1].body)

        assert body["key"] == refused.key
        assert body["content"] == encode(refused.body).decode()
        assert body["sha256"] == hashlib.sha256(encode(refused.body)).hexdigest()

    def test_another_kind_under_a_key_is_a_conflict(self, opened: LedgerStore) -> None:
        item = note("n", "x")
        other = item._replace(kind=EntryKind.UNSEALED)

        appended = opened.append(INVESTIGATION, [item, other], recorded_us=NOW_US)

        assert appended.conflicts == ("n",)

    def test_an_old_fence_is_refused_whole(self, opened: LedgerStore) -> None:
        old = opened.lease(INVESTIGATION)
        new = opened.lease(INVESTIGATION)

        with pytest.raises(FencedError):
            opened.append(INVESTIGATION, [observation(0)], recorded_us=NOW_US, fence=old)
        opened.append(INVESTIGATION, [observation(1)], recorded_us=NOW_US, fence=new)
        opened.append(INVESTIGATION, [note("n", "x")], recorded_us=NOW_US)

        assert new > old
        assert opened.head(INVESTIGATION).fence == new
        assert [entry.key for entry in opened.entries(INVESTIGATION)] == ["plan", "obs:1:0", "n"]
        check_chain(opened)

    def test_a_fence_that_was_never_given_is_refused(self, opened: LedgerStore) -> None:
        fence = opened.lease(INVESTIGATION)

        with pytest.raises(FencedError):
            opened.append(INVESTIGATION, [], recorded_us=NOW_US, fence=fence + 1)

    def test_a_closed_investigation_takes_nothing_new(self, opened: LedgerStore) -> None:
        opened.append(INVESTIGATION, [observation(0), closing()], recorded_us=NOW_US)
        head = opened.head(INVESTIGATION)

        for items in (
            [observation(1)],
            [observation(0), note("n", "x")],
            [observation(0, code=1)],
        ):
            with pytest.raises(ClosedError):
                opened.append(INVESTIGATION, items, recorded_us=NOW_US)

        assert head.closed
        assert opened.head(INVESTIGATION) == head
        check_chain(opened)

    def test_closing_again_and_repeating_are_no_ops_when_closed(self, opened: LedgerStore) -> None:
        items = [observation(0), closing()]
        opened.append(INVESTIGATION, items, recorded_us=NOW_US)

        again = opened.append(INVESTIGATION, items, recorded_us=NOW_US)
        other = opened.append(INVESTIGATION, [closing(StopReason.CANCELLED)], recorded_us=NOW_US)

        assert (again.written, again.repeated) == (0, 2)
        assert (other.written, other.repeated, other.conflicts) == (0, 1, ())

    def test_nothing_follows_the_closing_entry_in_its_own_batch(self, opened: LedgerStore) -> None:
        with pytest.raises(ClosedError):
            opened.append(INVESTIGATION, [closing(), observation(0)], recorded_us=NOW_US)

        assert opened.head(INVESTIGATION).size == 1
        assert not opened.head(INVESTIGATION).closed

    def test_one_item_that_cannot_be_stored_refuses_its_whole_batch(
        self, opened: LedgerStore
    ) -> None:
        good = observation(0)
        bad: list[tuple[Item, type[Exception]]] = [
            (note("", "x"), EntryRefusedError),
            (note("k" * 201, "x"), EntryRefusedError),
            (Item(EntryKind.PLAN, "plan:2", {}), EntryRefusedError),
            (Item(EntryKind.OBSERVATION, "obs:1:0", {"trial": 1}), EntryRefusedError),
            (Item(EntryKind.NOTE, "n", {"x": 0.5}), CanonicalError),
            (Item(EntryKind.NOTE, "n", {"x": 2**53}), CanonicalError),
            (Item(EntryKind.NOTE, "n", {"x": "\ud800"}), CanonicalError),
            (Item(EntryKind.NOTE, "n", {}, (Blob("0" * 64, b"x"),)), EntryRefusedError),
        ]
        for item, error in bad:
            with pytest.raises(error):
                opened.append(INVESTIGATION, [good, item], recorded_us=NOW_US)

            assert opened.head(INVESTIGATION).size == 1
        opened.append(INVESTIGATION, [good], recorded_us=NOW_US)
        check_chain(opened)

    def test_blobs_of_every_size_read_back(self, opened: LedgerStore, reopen: Reopen) -> None:
        noise = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(20_000))
        outputs = [b"", b"\x00", b"a" * 1_000_000, noise[:70_000], noise]
        items = [observation(trial, output=output) for trial, output in enumerate(outputs)]

        opened.append(INVESTIGATION, items, recorded_us=NOW_US)
        store = reopen(opened)

        for output in outputs:
            assert store.blob(blob_of(output).sha256) == output
        assert store.blob("0" * 64) is None

    def test_entries_start_anywhere(self, opened: LedgerStore) -> None:
        opened.append(INVESTIGATION, [observation(n) for n in range(2500)], recorded_us=NOW_US)

        for start in (0, 1, 999, 1000, 1001, 2499, 2500, 2501, 9999):
            found = [entry.seq for entry in opened.entries(INVESTIGATION, start=start)]
            rows = [row.seq for row in opened.observations(INVESTIGATION, start=start)]
            assert found == list(range(start, 2501))
            assert rows == list(range(max(start, 1), 2501))
        check_chain(opened)

    def test_one_at_a_time_and_all_at_once_give_the_same_entries(
        self, opened: LedgerStore
    ) -> None:
        opened.open_investigation(OTHER, sample_plan(), recorded_us=NOW_US)
        for trial in range(40):
            opened.append(INVESTIGATION, [observation(trial)], recorded_us=NOW_US)
        opened.append(OTHER, [observation(trial) for trial in range(40)], recorded_us=NOW_US)

        one, other = (
            [decode(entry.body) | {"investigation": ""} for entry in opened.entries(name)]
            for name in (INVESTIGATION, OTHER)
        )
        assert one == other
        check_chain(opened)

    def test_everything_is_there_after_reopening(
        self, opened: LedgerStore, reopen: Reopen
    ) -> None:
        fence = opened.lease(INVESTIGATION)
        opened.append(INVESTIGATION, [observation(n) for n in range(10)], recorded_us=NOW_US)
        head, rows = opened.head(INVESTIGATION), opened.investigations()

        store = reopen(opened)

        assert store.head(INVESTIGATION) == head
        assert store.investigations() == rows
        assert store.lease(INVESTIGATION) == fence + 1
        store.append(INVESTIGATION, [observation(10)], recorded_us=NOW_US)
        check_chain(store)

    def test_investigations_are_listed_in_the_order_of_opening(self, store: LedgerStore) -> None:
        store.open_investigation(OTHER, sample_plan("b"), recorded_us=5)
        store.open_investigation(INVESTIGATION, sample_plan("a"), recorded_us=3)

        rows = store.investigations()

        assert [(row.id, row.title, row.opened_us, row.size) for row in rows] == [
            (OTHER, "b", 5, 1),
            (INVESTIGATION, "a", 3, 1),
        ]
        assert [row.plan for row in rows] == [
            sample_plan("b").digest(),
            sample_plan("a").digest(),
        ]
        assert store.find(INVESTIGATION[:-1]) == rows
        assert store.find(f"{1:032x}") == rows[1:]
        assert store.find(OTHER) == rows[:1]
        assert store.find("f") == ()

    def test_two_investigations_share_nothing_but_blobs(self, opened: LedgerStore) -> None:
        opened.open_investigation(OTHER, sample_plan(), recorded_us=NOW_US)
        opened.append(INVESTIGATION, [observation(0, output=b"a"), closing()], recorded_us=NOW_US)

        appended = opened.append(OTHER, [observation(0, output=b"a", code=1)], recorded_us=NOW_US)

        assert (appended.written, appended.conflicts) == (1, ())
        check_chain(opened)

    def test_rebuilding_gives_the_same_columns(self, opened: LedgerStore) -> None:
        opened.append(INVESTIGATION, [observation(n) for n in range(1500)], recorded_us=NOW_US)
        before = list(opened.observations(INVESTIGATION))

        assert opened.rebuild(INVESTIGATION) == 1500
        assert list(opened.observations(INVESTIGATION)) == before

    @pytest.mark.parametrize("when", WHEN)
    @pytest.mark.parametrize("write", WRITES)
    def test_a_write_that_breaks_can_be_sent_again(
        self,
        opened: LedgerStore,
        reopen: Reopen,
        write: str,
        when: Literal["before", "after"],
    ) -> None:
        break_next_commit(opened, when, StoreUnavailableError("broken on purpose"))
        with pytest.raises(StoreUnavailableError):
            WRITES[write](opened)
        check_chain(opened)
        store = reopen(opened)
        check_chain(store)

        WRITES[write](store)
        head = store.head(INVESTIGATION)
        check_chain(store)
        WRITES[write](store)

        assert store.head(INVESTIGATION) == head
        check_chain(store)

    @pytest.mark.parametrize("when", WHEN)
    def test_a_lease_that_breaks_never_gives_two_drivers_one_fence(
        self, opened: LedgerStore, when: Literal["before", "after"]
    ) -> None:
        first = opened.lease(INVESTIGATION)
        break_next_commit(opened, when, StoreUnavailableError("broken on purpose"))
        with pytest.raises(StoreUnavailableError):
            opened.lease(INVESTIGATION)

        fence = opened.lease(INVESTIGATION)

        assert fence > first
        opened.append(INVESTIGATION, [observation(0)], recorded_us=NOW_US, fence=fence)
        check_chain(opened)

    def test_a_write_that_broke_before_it_took_effect_left_nothing(
        self, opened: LedgerStore
    ) -> None:
        head = opened.head(INVESTIGATION)
        break_next_commit(opened, "before", StoreUnavailableError("broken on purpose"))

        with pytest.raises(StoreUnavailableError):
            opened.append(INVESTIGATION, [observation(0), observation(1)], recorded_us=NOW_US)

        assert opened.head(INVESTIGATION) == head
        assert list(opened.observations(INVESTIGATION)) == []
