import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from matrices import DurationSymptom, schedule
from policies import Reason, evidence_of, tallies
from policies.evidence import MISSING, OUTCOMES
from policies.model import Outcome
from reproduce.testing.plans import two_arm_plan

NOTHING = {"sha256": "0" * 64, "size": 0, "stored": 0, "truncated": False}


def body(plan, number, *, ending="exited", code=0, duration_us=1):
    trial = schedule(plan).trial(number)
    return {
        "trial": number,
        "block": trial.block,
        "condition": trial.condition,
        "seed": number,
        "worker": f"host/{number % 2}",
        "ending": ending,
        "code": code,
        "started_us": number,
        "duration_us": duration_us,
        "stdout": NOTHING,
        "stderr": NOTHING,
        "findings": [],
        "knobs_not_applied": [],
    }


ends = st.sampled_from([("exited", 0), ("exited", 1), ("exited", 9), ("time_limit", None)])


@settings(max_examples=60)
@given(st.integers(1, 12), st.data())
def test_evidence_is_the_same_in_whatever_order_the_records_came(trials, data):
    plan = two_arm_plan(trials)
    numbers = data.draw(st.sets(st.integers(0, 2 * trials - 1)))
    found = [
        body(plan, number, ending=end[0], code=end[1])
        for number, end in ((n, data.draw(ends)) for n in sorted(numbers))
    ]

    forward = evidence_of(plan, found)
    shuffled = evidence_of(plan, data.draw(st.permutations(found)))

    assert tallies(plan, forward) == tallies(plan, shuffled)
    for column in ("condition", "outcome", "reason", "seed", "started_us"):
        assert np.array_equal(getattr(forward, column), getattr(shuffled, column))
    for tally in tallies(plan, forward):
        assert tally.matched + tally.clean + tally.unresolved + tally.missing == trials
        assert sum(count for _, count in tally.reasons) == tally.unresolved
    assert sum(t.missing for t in tallies(plan, forward)) == 2 * trials - len(numbers)


def test_of_two_records_of_one_trial_the_first_counts():
    plan = two_arm_plan(2)

    found = evidence_of(plan, [body(plan, 1, code=1), body(plan, 1, code=0)])

    assert OUTCOMES[found.outcome[1]] is Outcome.MATCHED
    assert found.outcome[0] == MISSING


def test_an_empty_investigation_has_no_evidence_and_every_trial_is_missing():
    plan = two_arm_plan(5)

    found = evidence_of(plan, [])

    assert len(found.outcome) == 0
    assert [tally.missing for tally in tallies(plan, found)] == [5, 5]
    assert found.whole_blocks(plan) == 0


@pytest.mark.parametrize(
    ("numbers", "blocks"),
    [((0, 1, 2, 3), 2), ((0, 1, 3, 4, 5), 1), ((2, 3, 4, 5), 0), ((0, 1, 2), 1)],
)
def test_the_prefix_ends_at_the_first_block_with_a_gap(numbers, blocks):
    plan = two_arm_plan(3)

    found = evidence_of(plan, [body(plan, number) for number in numbers])

    assert found.whole_blocks(plan) == blocks


def test_durations_are_read_one_by_one_and_not_remembered():
    plan = two_arm_plan(2, symptom=DurationSymptom(longer_than_us=100, exit=(0,)))

    found = evidence_of(plan, [body(plan, n, duration_us=99 + n) for n in range(4)])

    assert [OUTCOMES[code] for code in found.outcome] == [
        Outcome.CLEAN,
        Outcome.CLEAN,
        Outcome.MATCHED,
        Outcome.MATCHED,
    ]


def test_reasons_are_counted_in_the_order_of_their_list():
    plan = two_arm_plan(4)
    records = [
        body(plan, number, ending=ending, code=code)
        for number, (ending, code) in enumerate(
            [("time_limit", None), ("exited", 9), ("driver_lost", None), ("exited", 9)] * 2
        )
    ]

    counted = tallies(plan, evidence_of(plan, records))

    for tally in counted:
        order = [list(Reason).index(reason) for reason, _ in tally.reasons]
        assert order == sorted(order)
    assert sum(tally.unresolved for tally in counted) == 8
