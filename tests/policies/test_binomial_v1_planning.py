from fractions import Fraction
from math import ceil, comb, floor

import pytest

from matrices import (
    Budget,
    Choice,
    Condition,
    Contrast,
    ExitCodeSymptom,
    Plan,
    PolicyRef,
    Role,
    Setting,
    Source,
    SourceKind,
)
from policies import PolicyError, Status, Tally
from policies.binomial_v1_parameters import parsed
from policies.binomial_v1_planning import check, reach
from policies.binomial_v1_rules import read


def plan_of(trials: int, **parameters: str) -> Plan:
    return Plan(
        title="a lost chunk",
        source=Source(kind=SourceKind.NONE),
        symptoms=(ExitCodeSymptom(name="lost", matched=(1,), clean=(0,), declared=True),),
        primary="lost",
        conditions=tuple(
            Condition(
                name=f"workers={level}",
                choices=(Choice(factor="workers", level=level),),
                role=role,
                stratum="",
                cmd=("true",),
                timeout_us=1_000_000,
            )
            for role, level in ((Role.TREATMENT, "eight"), (Role.CONTROL, "one"))
        ),
        contrasts=(Contrast(stratum="", treatment=0, control=1),),
        budget=Budget(trials=trials, parallel=1),
        policy=PolicyRef(
            name="binomial/1",
            parameters=tuple(Setting(name=name, value=v) for name, v in parameters.items()),
        ),
        seed=1,
    )


def tally(role: Role, matched: int, planned: int, unresolved: int) -> Tally:
    return Tally(
        condition=0 if role is Role.TREATMENT else 1,
        role=role,
        planned=planned,
        matched=matched,
        clean=planned - matched - unresolved,
        unresolved=unresolved,
        missing=0,
    )


def test_the_default_plan_can_pin_and_exclude() -> None:
    found = check(plan_of(60))

    assert found.possible
    assert found.excludes
    assert found.trials_possible == 3
    assert found.trials_excluding <= 60
    assert found.reached
    assert [row.title for row in found.power] == [
        "0% unresolved",
        "one unresolved control trial",
        "5% unresolved",
        "10% unresolved",
    ]
    assert found.power[0].pinned <= found.power[0].established


def test_one_unresolved_control_trial_costs_power() -> None:
    rows = reach(plan_of(60)).power

    assert (rows[1].treatment_unresolved, rows[1].control_unresolved) == (0, 1)
    assert rows[1].pinned < rows[0].pinned
    assert (rows[3].treatment_unresolved, rows[3].control_unresolved) == (6, 6)
    assert rows[3].pinned < rows[2].pinned < rows[1].pinned


@pytest.mark.parametrize("trials", [12, 25, 60])
def test_power_is_that_of_the_verdict_itself(trials: int) -> None:
    plan = plan_of(trials, min_effect="0.15", max_unresolved="0.1")
    wanted = parsed(plan.policy)

    for row in reach(plan).power:
        valid = trials - row.treatment_unresolved
        pinned = Fraction(0)
        for matched in range(valid + 1):
            treatment = tally(Role.TREATMENT, matched, trials, row.treatment_unresolved)
            control = tally(Role.CONTROL, 0, trials, row.control_unresolved)
            if read(treatment, control, wanted, flags=()).status is Status.REPRODUCTION_PINNED:
                rate = wanted.min_effect
                weight = comb(valid, matched) * rate**matched * (1 - rate) ** (valid - matched)
                pinned += weight
        assert row.pinned == pytest.approx(float(pinned), abs=1e-12)


def test_a_plan_whose_best_outcome_proves_nothing_is_refused_with_the_trials_it_needs() -> None:
    with pytest.raises(PolicyError, match="no outcome of 2 trials") as caught:
        check(plan_of(2))

    assert caught.value.place == "budget.trials"
    assert "at least 3 trials" in caught.value.hint
    assert check(plan_of(3)).possible


def test_a_plan_below_its_declared_power_is_refused_with_the_trials_it_needs() -> None:
    with pytest.raises(PolicyError, match=r"below 0\.9") as caught:
        check(plan_of(20, power="0.9"))

    needed = reach(plan_of(20, power="0.9")).trials_for_power
    assert needed is not None
    assert caught.value.hint.startswith(f"plan {needed} trials")
    assert check(plan_of(needed, power="0.9")).reached
    with pytest.raises(PolicyError):
        check(plan_of(needed - 1, power="0.9"))


def test_a_power_that_is_reached_exactly_is_reached() -> None:
    """3 or more of 5 matches pin at 5 against 0, and at a rate of 1/2 that has a chance of 1/2."""
    found = check(plan_of(5, min_effect="0.5", power="0.5"))

    assert found.power[0].pinned == pytest.approx(0.5, abs=1e-12)
    assert found.power[0].pinned < 0.5
    assert found.reached
    assert found.trials_for_power == 5


def test_the_trials_that_a_hint_names_reach_the_power_and_are_more_than_the_plan_has() -> None:
    for trials in range(10, 60):
        found = reach(plan_of(trials, power="0.8", min_effect="0.2"))
        if not found.reached:
            assert (found.trials_for_power or 0) > trials
            assert reach(
                plan_of(found.trials_for_power or 0, power="0.8", min_effect="0.2")
            ).reached


def test_a_power_just_below_its_goal_is_never_shown_as_the_goal() -> None:
    power = reach(plan_of(30)).power[0].pinned
    goal = f"{ceil(power * 1000) / 1000:.3f}"
    assert f"{power:.3f}" == goal

    with pytest.raises(PolicyError) as caught:
        check(plan_of(30, power=goal))

    assert f"power of {floor(power * 1000) / 1000:g}, below {float(goal):g}" in str(caught.value)


def test_the_title_of_a_row_says_the_whole_share() -> None:
    assert reach(plan_of(60, unresolved="0.025")).power[0].title == "2.5% unresolved"


@pytest.mark.parametrize(
    ("pinned", "weak"), [(0.8, False), (0.8 - 1e-12, False), (0.8 - 1e-8, True)]
)
def test_the_last_bit_of_a_power_does_not_make_a_plan_weak(pinned: float, weak: bool) -> None:  # noqa: FBT001
    found = reach(plan_of(60))
    row = found.power[0]._replace(pinned=pinned)

    assert found._replace(power=(row,)).weak is weak


def test_the_declared_unresolved_share_is_what_power_is_held_to() -> None:
    clean = reach(plan_of(60, power="0.8"))
    dirty = reach(plan_of(60, power="0.8", unresolved="0.03"))

    assert dirty.power[0].title == "3% unresolved"
    assert dirty.power[0].pinned < clean.power[0].pinned
    assert not dirty.reached
    assert (dirty.trials_for_power or 0) > 60


def test_a_plan_that_could_not_exclude_its_effect_says_from_where_it_could() -> None:
    found = reach(plan_of(20))

    assert not found.excludes
    assert found.weak
    assert not reach(plan_of(found.trials_excluding - 1)).excludes
    assert reach(plan_of(found.trials_excluding)).excludes


def test_a_share_beyond_the_gate_has_no_power() -> None:
    rows = reach(plan_of(40, max_unresolved="0.05")).power

    assert rows[2].pinned > 0
    assert rows[3].pinned == 0
    assert rows[3].established > 0


def test_a_power_out_of_reach_says_so() -> None:
    found = reach(plan_of(40, max_unresolved="0.05", unresolved="0.1", power="0.5"))

    assert found.trials_for_power is None
    with pytest.raises(PolicyError) as caught:
        check(plan_of(40, max_unresolved="0.05", unresolved="0.1", power="0.5"))
    assert "20000 trials are not enough" in caught.value.hint


def test_a_share_that_its_worst_reading_turns_into_the_effect_is_out_of_reach() -> None:
    found = reach(plan_of(60, power="0.8", unresolved="0.1"))

    assert not found.reached
    assert found.power[0].pinned < 0.01
    assert found.trials_for_power is None
