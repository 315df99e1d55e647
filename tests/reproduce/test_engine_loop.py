"""The engine over scripted executors: every planned trial ends as exactly one record."""

from collections import Counter
from errno import EAGAIN, ENOENT
from types import SimpleNamespace

import numpy as np
import orjson
import pytest

from ledger.errors import StoreUnavailableError
from ledger.memory import MemoryStore
from ledger.records import Ending, EntryKind, Intent, StopReason
from ledger.store import Item
from matrices import schedule, trial_seed
from policies import Status
from reproduce import clock
from reproduce.engine import recovery
from reproduce.engine.loop import Controls, Interrupt
from reproduce.engine.session import approve, run
from reproduce.errors import InfrastructureError, IntegrityError, NotApprovedError
from reproduce.executors.spool import Spool
from reproduce.judging import bodies, story_of
from reproduce.state import state_of
from reproduce.testing.executors import ScriptedExecutor, SlotLost, ended
from reproduce.testing.plans import two_arm_plan
from reproduce.verification import verify


def treatment_matches(order):
    return ended(order, "exited", 1 if order.condition == 0 else 0)


class Bench:
    """A store with one approved investigation, and sessions over it."""

    def __init__(self, folder, plan):
        self.store = MemoryStore()
        self.state = state_of(folder).make()
        self.plan = plan
        self.name = clock.new_investigation_id()
        self.store.open_investigation(self.name, plan, recorded_us=1)
        approve(self.store, self.name, plan, by="someone")

    def run(self, script, *, interrupted=lambda: Interrupt.NONE, is_final=lambda _: None):
        self.executor = ScriptedExecutor(script)
        return run(
            self.store,
            self.name,
            state=self.state,
            executor=self.executor,
            controls=Controls(interrupted, lambda _: None, is_final),
            environments=tuple,
        )

    def records(self):
        return list(bodies(self.store, self.name))

    def kinds(self):
        return [entry.kind for entry in self.store.entries(self.name)]

    def verified(self):
        (row,) = self.store.investigations()
        found = verify(self.store, row)
        assert found.holds, found.checks
        return found


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path, two_arm_plan(10))


def test_every_planned_trial_is_recorded_once_with_its_seed_and_the_verdict_is_issued(bench):
    session = bench.run(treatment_matches)

    planned = schedule(bench.plan)
    records = {record["trial"]: record for record in bench.records()}
    assert sorted(records) == list(range(20))
    assert len(bench.records()) == 20
    for number, record in records.items():
        trial = planned.trial(number)
        assert (record["block"], record["condition"]) == (trial.block, trial.condition)
        assert record["seed"] == trial_seed(bench.plan.seed, number)
    assert session.ended.reason is StopReason.BUDGET
    assert session.verdict.status is Status.REPRODUCTION_PINNED
    assert bench.kinds()[-2:] == [EntryKind.VERDICT, EntryKind.CLOSED]
    bench.verified()


def test_no_trial_starts_before_its_intent_is_in_the_ledger(bench):
    intended = []

    def script(order):
        blocks = [
            orjson.loads(entry.body)["body"]
            for entry in bench.store.entries(bench.name)
            if entry.kind == EntryKind.INTENT
        ]
        intended.append(any(b["first_block"] <= order.block < b["end_block"] for b in blocks))
        return treatment_matches(order)

    bench.run(script)

    assert len(intended) == 20
    assert all(intended)


def test_blocks_are_given_out_in_schedule_order_and_stay_on_one_slot(bench):
    bench.run(treatment_matches)

    slots = {}
    for slot, order in bench.executor.submitted:
        slots.setdefault(order.block, set()).add(slot)
    assert all(len(found) == 1 for found in slots.values())
    blocks = [order.block for _, order in bench.executor.submitted]
    assert blocks == sorted(blocks)
    assert {slot for slot, _ in bench.executor.submitted} == {0, 1}


def test_an_unapproved_plan_runs_nothing(tmp_path):
    bench = Bench(tmp_path, two_arm_plan(10))
    bench.name = clock.new_investigation_id()
    bench.store.open_investigation(bench.name, bench.plan, recorded_us=1)

    with pytest.raises(NotApprovedError, match="not approved"):
        bench.run(treatment_matches)

    assert bench.executor.begun == []
    assert bench.kinds() == [EntryKind.PLAN]


def test_an_approval_of_another_plan_runs_nothing(tmp_path):
    bench = Bench(tmp_path, two_arm_plan(10))
    bench.name = clock.new_investigation_id()
    bench.store.open_investigation(bench.name, bench.plan, recorded_us=1)
    approve(bench.store, bench.name, two_arm_plan(11), by="someone")

    with pytest.raises(NotApprovedError, match="another plan"):
        bench.run(treatment_matches)

    assert bench.executor.begun == []


def test_another_plan_than_the_one_that_was_shown_runs_nothing(bench):
    executor = ScriptedExecutor(treatment_matches)

    with pytest.raises(NotApprovedError, match="another plan"):
        run(
            bench.store,
            bench.name,
            state=bench.state,
            executor=executor,
            controls=Controls(lambda: Interrupt.NONE, lambda _: None, lambda _: None),
            environments=tuple,
            shown=two_arm_plan(11).digest(),
        )

    assert executor.begun == []
    assert EntryKind.INTENT not in bench.kinds()


def test_an_approval_that_another_user_sealed_runs_nothing(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))

    with pytest.raises(NotApprovedError, match="elsewhere, not by you"):
        bench.run(treatment_matches)

    assert bench.executor.begun == []
    approve(bench.store, bench.name, bench.plan, by="another")
    assert bench.run(treatment_matches).verdict.status is Status.REPRODUCTION_PINNED
    bench.verified()


@pytest.mark.parametrize("is_own", [True, False])
def test_only_spools_of_sessions_that_this_user_approved_are_adopted(
    bench, tmp_path, monkeypatch, is_own
):
    intent = Intent(session="left", boot="boot", first_block=0, end_block=1)
    item = Item(EntryKind.INTENT, "intent:0", intent.model_dump(mode="json"))
    bench.store.append(bench.name, [item], recorded_us=1)
    left = bench.state.spools(bench.name) / "left"
    left.mkdir(parents=True)
    if not is_own:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
        approve(bench.store, bench.name, bench.plan, by="another")
    looked_at = []

    def spools(folder, *, slots):
        looked_at.append((folder, folder.exists()))
        return [][:slots]

    monkeypatch.setattr(recovery, "_spools", spools)

    bench.run(treatment_matches)

    assert looked_at == [(left, is_own)]
    bench.verified()


@pytest.mark.parametrize("name", ["../iv_other/session", "/elsewhere", ".."])
def test_a_session_that_is_named_as_a_path_is_not_followed(bench, name):
    intent = Intent(session=name, boot="boot", first_block=0, end_block=1)
    item = Item(EntryKind.INTENT, "intent:0", intent.model_dump(mode="json"))
    bench.store.append(bench.name, [item], recorded_us=1)

    with pytest.raises(IntegrityError, match="names no session but a path"):
        bench.run(treatment_matches)

    assert bench.executor.begun == []


def test_a_started_trial_whose_slot_is_lost_is_recorded_and_never_started_again(bench):
    def script(order):
        if order.number in {3, 8}:
            raise SlotLost("the slot went away")
        return treatment_matches(order)

    bench.run(script)

    begun = Counter(order.number for order in bench.executor.begun)
    assert set(begun.values()) == {1}
    assert sorted(begun) == list(range(20))
    lost = {r["trial"]: r for r in bench.records() if r["ending"] == Ending.WORKER_LOST}
    assert set(lost) == {3, 8}
    assert "went away" in lost[3]["detail"]
    bench.verified()


def test_a_start_that_was_refused_for_want_of_memory_is_tried_again_and_said(bench):
    def script(order):
        if order.number == 5 and order.attempt < 2:
            return ended(order, "not_started", EAGAIN)
        return treatment_matches(order)

    bench.run(script)

    assert Counter(order.number for order in bench.executor.begun)[5] == 3
    (record,) = [record for record in bench.records() if record["trial"] == 5]
    assert (record["attempt"], record["ending"]) == (2, Ending.EXITED)
    assert bench.kinds().count(EntryKind.ATTEMPT_NEVER_STARTED) == 2
    bench.verified()


def test_a_start_that_is_refused_every_time_ends_as_a_record(bench):
    bench.run(lambda order: ended(order, "not_started", EAGAIN))

    assert len(bench.records()) == 20
    assert {record["attempt"] for record in bench.records()} == {2}
    assert bench.run(treatment_matches).verdict.status is Status.UNRESOLVED


def test_a_command_that_does_not_exist_is_not_tried_again(bench):
    bench.run(lambda order: ended(order, "not_started", ENOENT))

    assert {record["attempt"] for record in bench.records()} == {0}
    assert len(bench.executor.begun) == 20


def test_an_interrupt_keeps_what_ran_and_the_next_session_runs_only_the_rest(bench, monkeypatch):
    seen = []

    def script(order):
        seen.append(order.number)
        return treatment_matches(order)

    first = bench.run(
        script, interrupted=lambda: Interrupt.FINISH if len(seen) >= 7 else Interrupt.NONE
    )
    assert first.ended.reason is None
    assert first.verdict is None
    before = sorted(record["trial"] for record in bench.records())
    assert before == sorted(seen)
    assert 7 <= len(before) < 20
    # The double of an executor writes no spools; these show that nothing else had begun.
    shown = [Spool(header=SimpleNamespace(slot=slot), started={}, reports=()) for slot in range(2)]
    monkeypatch.setattr(recovery, "_spools", lambda _folder, *, slots: shown[:slots])

    second = bench.run(script)

    assert sorted(seen) == list(range(20))
    assert second.verdict.status is Status.REPRODUCTION_PINNED
    bench.verified()


def test_a_killed_trial_is_recorded_as_cancelled_and_counts_as_unresolved(bench):
    def script(order):
        return None if order.number >= 6 else treatment_matches(order)

    wanted = iter([Interrupt.NONE] * 20 + [Interrupt.FINISH, Interrupt.KILL])

    bench.run(script, interrupted=lambda: next(wanted, Interrupt.KILL))

    endings = Counter(record["ending"] for record in bench.records())
    assert endings[Ending.CANCELLED] == 2
    begun = {order.number for order in bench.executor.begun}
    assert {record["trial"] for record in bench.records()} == begun


def test_wall_time_kills_what_runs_and_leaves_the_rest_missing(tmp_path):
    bench = Bench(tmp_path, two_arm_plan(10, wall_us=50_000))

    session = bench.run(lambda order: None if order.number >= 4 else treatment_matches(order))

    assert session.ended.reason is StopReason.WALL_TIME
    assert session.verdict.status is Status.UNRESOLVED
    assert not session.verdict.is_final
    assert sum(tally.missing for tally in session.verdict.tallies) > 0
    endings = Counter(record["ending"] for record in bench.records())
    assert endings[Ending.CANCELLED] == 2
    bench.verified()


def test_a_policy_is_asked_at_whole_blocks_in_schedule_order_and_can_stop(bench):
    asked = []

    def is_final(blocks):
        asked.append(blocks)
        return "seen enough" if blocks == 4 else None

    session = bench.run(treatment_matches, is_final=is_final)

    assert asked[:4] == [1, 2, 3, 4]
    assert session.ended.reason is StopReason.POLICY
    assert session.ended.detail == "seen enough"
    assert len(bench.records()) < 20


def test_a_policy_never_sees_past_a_trial_that_is_still_running(bench):
    asked = []

    def is_final(blocks):
        asked.append(blocks)

    def script(order):
        return None if order.block == 2 else treatment_matches(order)

    wanted = iter([Interrupt.NONE] * 60 + [Interrupt.FINISH, Interrupt.KILL])
    bench.run(script, interrupted=lambda: next(wanted, Interrupt.KILL), is_final=is_final)

    assert 3 not in asked
    assert asked == [1, 2]


def test_when_no_slot_is_left_the_budget_is_not_called_spent(bench, monkeypatch):
    monkeypatch.setattr(ScriptedExecutor, "free", lambda _self: [])

    with pytest.raises(InfrastructureError, match="none is left"):
        bench.run(treatment_matches)

    assert EntryKind.CLOSED not in bench.kinds()
    assert bench.executor.is_closed


def test_a_ledger_that_takes_no_data_ends_the_run_resumably(bench, monkeypatch):
    real = MemoryStore.append

    def append(self, investigation, items, **settings):
        if any(item.kind == EntryKind.OBSERVATION for item in items):
            raise StoreUnavailableError("no space left on the disk", hint="make room")
        return real(self, investigation, items, **settings)

    monkeypatch.setattr(MemoryStore, "append", append)

    with pytest.raises(InfrastructureError, match="no space left") as caught:
        bench.run(treatment_matches)

    assert "run` again resumes" in caught.value.hint
    assert bench.executor.is_closed
    assert bench.records() == []


def test_a_finished_investigation_is_judged_again_and_not_run_again(bench):
    first = bench.run(treatment_matches)

    again = bench.run(treatment_matches)

    assert bench.executor.begun == []
    assert again.verdict == first.verdict
    assert story_of(bench.store, bench.name).sessions == 1


@pytest.mark.parametrize("seed", range(8))
def test_whatever_slots_do_the_accounts_add_up(tmp_path, seed):
    random = np.random.default_rng(seed)
    bench = Bench(tmp_path, two_arm_plan(40))
    transient = set()

    def script(order):
        choice = random.random()
        if choice < 0.05:
            raise SlotLost("lost at random")
        if choice < 0.1 and order.attempt == 0:
            transient.add(order.number)
            return ended(order, "not_started", EAGAIN)
        return ended(order, "exited", int(choice < 0.3))

    bench.run(script)

    counted = Counter(record["trial"] for record in bench.records())
    assert counted == Counter(range(80))
    assert bench.kinds().count(EntryKind.ATTEMPT_NEVER_STARTED) == len(transient)
    begun = Counter(order.number for order in bench.executor.begun)
    assert {number for number, count in begun.items() if count > 1} == transient
    bench.verified()
