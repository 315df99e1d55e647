"""A ledger that was forged with a consistent tree: `verify` names the step that finds it."""

import orjson
import pytest

from ledger.memory import MemoryStore
from ledger.records import EntryKind
from ledger.store import Blob, Item
from matrices import Plan
from reproduce import clock
from reproduce.engine.loop import Controls, Interrupt
from reproduce.engine.session import approve, run
from reproduce.executors.model import Captured
from reproduce.judging import bodies
from reproduce.state import state_of
from reproduce.testing.executors import ScriptedExecutor, ended
from reproduce.testing.plans import WORDS, two_arm_plan
from reproduce.verification import Step, verify


def outcome(order):
    text = b"VIOLATED\n" if order.condition == 0 else b"HELD\n"
    report = ended(order, "exited", 1 if order.condition == 0 else 0)
    return report._replace(stdout=Captured(text, b"", len(text)))


@pytest.fixture
def original(tmp_path):
    store, plan = MemoryStore(), two_arm_plan(12, symptom=WORDS)
    name = clock.new_investigation_id()
    store.open_investigation(name, plan, recorded_us=1)
    approve(store, name, plan, by="someone")
    run(
        store,
        name,
        state=state_of(tmp_path).make(),
        executor=ScriptedExecutor(outcome),
        controls=Controls(lambda: Interrupt.NONE, lambda _: None, lambda _: None),
        environments=tuple,
    )
    return store, name


def forged(original, change):
    """Another ledger with the entries that `change` returns, its tree in perfect order."""
    store, name = original
    other = MemoryStore()
    plan = Plan.from_canonical(store.plan_bytes(name))
    other.open_investigation(name, plan, recorded_us=1)
    entries = [orjson.loads(entry.body) for entry in store.entries(name)][1:]
    blobs = []
    for body in bodies(store, name):
        for stream in ("stdout", "stderr"):
            data = store.blob(body[stream]["sha256"])
            blobs += [Blob(body[stream]["sha256"], data)] if data else []
    for index, entry in enumerate(change(entries)):
        if entry["kind"] == "verdict" and "as-it-is" not in entry:
            head = other.head(name)
            entry["body"] |= {"size": head.size, "root": head.root}
        item = Item(EntryKind(entry["kind"]), entry["key"], entry["body"])
        held = item._replace(blobs=tuple(blobs)) if index == 0 else item
        other.append(name, [held], recorded_us=entry["recorded_us"])
    return other


def found(store):
    (row,) = store.investigations()
    verification = verify(store, row)
    return [check for check in verification.checks if not check.holds]


def observations(entries):
    return [entry for entry in entries if entry["kind"] == "observation"]


def unchanged(entries):
    return entries


def no_approval(entries):
    return [entry for entry in entries if entry["kind"] != "approval"]


def approval_of_another_plan(entries):
    entries[0]["body"]["plan"] = "0" * 64
    return entries


def late_approval(entries):
    return [*entries[1:3], entries[0], *entries[3:]]


def a_trial_dropped(entries):
    entries.remove(observations(entries)[3])
    return entries


def a_trial_twice(entries):
    again = orjson.loads(orjson.dumps(observations(entries)[0]))
    again["key"] = f"obs:{again['body']['trial']}:7"
    again["body"]["attempt"] = 7
    position = entries.index(observations(entries)[-1])
    return [*entries[:position], again, *entries[position:]]


def a_seed_changed(entries):
    observations(entries)[2]["body"]["seed"] += 1
    return entries


def a_condition_changed(entries):
    body = observations(entries)[2]["body"]
    body["condition"] = 1 - body["condition"]
    return entries


def an_unplanned_trial(entries):
    observations(entries)[2]["body"]["trial"] = 99
    observations(entries)[2]["key"] = "obs:99:0"
    return entries


def a_finding_changed(entries):
    for entry in observations(entries):
        finding = entry["body"]["findings"][0]
        if finding["value"] == "absent":
            finding["value"] = "seen"
            break
    return entries


def an_exit_changed(entries):
    next(e for e in observations(entries) if e["body"]["code"] == 1)["body"]["code"] = 0
    return entries


def the_verdict_changed(entries):
    issued = next(entry for entry in entries if entry["kind"] == "verdict")
    issued["body"]["verdict"] = issued["body"]["verdict"].replace("PINNED", "PINNEE", 1)
    return entries


def no_intent(entries):
    return [entry for entry in entries if entry["kind"] != "intent"]


def an_unknown_field(entries):
    observations(entries)[0]["body"]["more"] = 1
    return entries


def another_key(entries):
    observations(entries)[2]["key"] = "obs:2:5"
    return entries


def no_such_approval(entries):
    entries[0]["body"]["method"] = "by-magic"
    return entries


def a_reserved_kind(entries):
    entries[-1:-1] = [entries[0] | {"kind": "imported", "key": "imported"}]
    return entries


def a_verdict_over_another_root(entries):
    issued = next(entry for entry in entries if entry["kind"] == "verdict")
    issued["as-it-is"] = True
    issued["body"]["root"] = "0" * 64
    return entries


def a_verdict_over_fewer_entries(entries):
    issued = next(entry for entry in entries if entry["kind"] == "verdict")
    issued["as-it-is"] = True
    issued["body"]["size"] -= 1
    return entries


def a_verdict_over_entries_to_come(entries):
    issued = next(entry for entry in entries if entry["kind"] == "verdict")
    issued["as-it-is"] = True
    issued["body"]["size"] += 1
    return entries


def fewer_stored_bytes(entries):
    observations(entries)[2]["body"]["stdout"]["stored"] -= 1
    return entries


def a_longer_stream_that_is_whole(entries):
    observations(entries)[2]["body"]["stdout"]["size"] += 1
    return entries


FORGERIES = {
    another_key: Step.ENTRIES,
    no_such_approval: Step.ENTRIES,
    a_reserved_kind: Step.ENTRIES,
    a_verdict_over_another_root: Step.VERDICT,
    a_verdict_over_fewer_entries: Step.VERDICT,
    a_verdict_over_entries_to_come: Step.VERDICT,
    fewer_stored_bytes: Step.READINGS,
    a_longer_stream_that_is_whole: Step.READINGS,
    no_approval: Step.APPROVAL,
    approval_of_another_plan: Step.APPROVAL,
    late_approval: Step.APPROVAL,
    a_trial_dropped: Step.VERDICT,
    a_trial_twice: Step.TRIALS,
    a_seed_changed: Step.TRIALS,
    a_condition_changed: Step.TRIALS,
    an_unplanned_trial: Step.TRIALS,
    no_intent: Step.TRIALS,
    an_unknown_field: Step.ENTRIES,
    a_finding_changed: Step.READINGS,
    an_exit_changed: Step.VERDICT,
    the_verdict_changed: Step.VERDICT,
}


def test_an_honest_copy_holds(original):
    assert found(forged(original, unchanged)) == []


def approval_line(store):
    (row,) = store.investigations()
    return next(c.detail for c in verify(store, row).checks if c.step is Step.APPROVAL)


def test_a_copied_ledger_holds_and_no_approval_in_it_is_vouched_for(
    original, tmp_path, monkeypatch
):
    store, _ = original
    assert (
        approval_line(store) == "approval recorded by someone, self; sealed with this user's key"
    )

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))

    assert found(store) == []
    expected = "approval recorded by someone, self; sealed elsewhere, not checkable here"
    assert approval_line(store) == expected


@pytest.mark.parametrize(
    ("change", "step"), FORGERIES.items(), ids=lambda value: getattr(value, "__name__", "")
)
def test_a_forgery_with_a_consistent_tree_is_found_where_it_does_not_follow(
    original, change, step
):
    checks = found(forged(original, change))

    assert [check.step for check in checks] == [step]
    assert checks[0].detail


def test_output_that_is_not_stored_is_named(original):
    store, name = original
    bare = MemoryStore()
    bare.open_investigation(name, Plan.from_canonical(store.plan_bytes(name)), recorded_us=1)
    for entry in list(store.entries(name))[1:]:
        value = orjson.loads(entry.body)
        bare.append(
            name, [Item(EntryKind(value["kind"]), value["key"], value["body"])], recorded_us=2
        )

    (check,) = found(bare)

    assert check.step is Step.READINGS
    assert "is not stored" in check.detail


@pytest.mark.parametrize("change", [{"title": "another"}, {"issue": "acme/other#1"}])
def test_an_investigation_that_is_listed_as_something_else_is_named(original, change):
    store, _ = original
    (row,) = store.investigations()

    checks = verify(store, row._replace(**change)).checks

    assert (checks[-1].step, checks[-1].holds) == (Step.PLAN, False)


def test_a_ledger_whose_verdict_was_left_out_is_said_to_have_none(original):
    def without(entries):
        return [entry for entry in entries if entry["kind"] != "verdict"]

    store = forged(original, without)
    (row,) = store.investigations()

    (check,) = [one for one in verify(store, row).checks if one.step is Step.VERDICT]

    assert check.detail.startswith("every planned trial is recorded, but NO verdict was issued")
