import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

import numpy as np
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
from policies import (
    Outcome,
    PolicyError,
    Reason,
    Status,
    Tally,
    VerdictReason,
    binomial_v1,
    binomial_v1_gates as gates,
    binomial_v1_rules as rules,
)
from policies.binomial_v1_parameters import Parameters, decimal
from policies.binomial_v1_rules import Classified, read
from policies.evidence import MISSING, OUTCOMES, REASONS, Evidence
from policies.stats.score import Count, p_greater, p_less, rejects, rejects_less

ALPHA = Fraction(1, 20)
SMALL = Parameters(
    alpha=ALPHA,
    min_effect=Fraction(3, 10),
    max_unresolved=Fraction(1, 5),
    unresolved=Fraction(0),
    power=None,
)
WIDE = SMALL._replace(alpha=Fraction(1, 5), min_effect=Fraction(1, 2))
"""A design in which a small effect can be established and a larger one excluded at once."""


def tally(role: Role, matched: int, clean: int, unresolved: int = 0, missing: int = 0) -> Tally:
    return Tally(
        condition=0 if role is Role.TREATMENT else 1,
        role=role,
        planned=matched + clean + unresolved + missing,
        matched=matched,
        clean=clean,
        unresolved=unresolved,
        missing=missing,
        reasons=((Reason.TIME_LIMIT, unresolved),) if unresolved else (),
    )


def arms(planned: int) -> Iterator[tuple[int, int, int]]:
    """Every tally of an arm with this many trials and at most three unresolved ones."""
    for unresolved in range(min(3, planned) + 1):
        for matched in range(planned - unresolved + 1):
            yield matched, planned - unresolved - matched, unresolved


def tables(planned: int) -> Iterator[tuple[Tally, Tally]]:
    for one, other in itertools.product(arms(planned), repeat=2):
        yield tally(Role.TREATMENT, *one), tally(Role.CONTROL, *other)


@cache
def p_of(treatment: Count, control: Count) -> float:
    return p_greater(treatment, control, margin=Fraction(0)).lower


@cache
def p_excluding(treatment: Count, control: Count, effect: Fraction) -> float:
    return p_less(treatment, control, margin=effect).lower


def oracle(treatment: Tally, control: Tally, wanted: Parameters) -> Status:
    """Return the class by DESIGN section 8, written down once more from its text."""
    alpha, effect, share = float(wanted.alpha), wanted.min_effect, wanted.max_unresolved
    m1, v1, u1, n = treatment.matched, treatment.valid, treatment.unresolved, treatment.planned
    m0, v0, u0 = control.matched, control.valid, control.unresolved
    if v1 < n * (1 - share) or v0 < n * (1 - share) or Fraction(u0, v0 + u0) > share:
        return Status.UNRESOLVED
    e = p_of(Count(m1, v1), Count(m0, v0)) <= alpha
    x = p_excluding(Count(m1, v1), Count(m0, v0), effect) <= alpha
    ew = p_of(Count(m1, v1 + u1), Count(m0 + u0, v0 + u0)) <= alpha
    xb = p_excluding(Count(m1 + u1, v1 + u1), Count(m0, v0 + u0), effect) <= alpha
    if e and not x:
        return Status.REPRODUCTION_PINNED if ew else Status.PARTIAL
    if e and x:
        return Status.WEAK_SIGNAL
    if m1 == m0 == 0 and x and xb:
        return Status.NOT_REPRODUCED
    if m1 > 0 and m0 == 0:
        return Status.WEAK_SIGNAL
    return Status.UNRESOLVED


def disagreements(planned: int, wanted: Parameters) -> int:
    return sum(
        read(*pair, wanted, flags=()).status is not oracle(*pair, wanted)
        for pair in tables(planned)
    )


@pytest.mark.parametrize(("planned", "wanted"), [(10, SMALL), (10, WIDE)])
def test_every_tally_reads_as_the_rules_say(planned: int, wanted: Parameters) -> None:
    assert disagreements(planned, wanted) == 0


def test_the_small_designs_reach_every_class_and_reason() -> None:
    found = [
        read(*pair, wanted, flags=())
        for planned, wanted in ((12, SMALL), (10, WIDE))
        for pair in tables(planned)
    ]

    assert {one.status for one in found} == set(Status)
    assert {reason for one in found for reason in one.reasons} == {
        VerdictReason.TOO_FEW_VALID,
        VerdictReason.CONTROL_UNRESOLVED,
        VerdictReason.TREATMENT_UNRESOLVED,
        VerdictReason.FRAGILE,
        VerdictReason.HINT,
        VerdictReason.SMALL_EFFECT,
        VerdictReason.SYMPTOM_IN_CONTROL,
        VerdictReason.INCONCLUSIVE,
    }


@pytest.mark.parametrize(("planned", "wanted"), [(10, SMALL), (12, SMALL), (10, WIDE)])
def test_a_full_claim_survives_every_reading_of_the_unresolved(
    planned: int, wanted: Parameters
) -> None:
    seen = 0
    for treatment, control in tables(planned):
        found = read(treatment, control, wanted, flags=())
        readings = [
            (Count(treatment.matched + a, planned), Count(control.matched + b, planned))
            for a in range(treatment.unresolved + 1)
            for b in range(control.unresolved + 1)
        ]
        full = found.reasons == (VerdictReason.SMALL_EFFECT,)
        if found.status is Status.REPRODUCTION_PINNED or full:
            seen += 1
            assert all(rejects(*arms, margin=Fraction(0), alpha=wanted.alpha) for arms in readings)
        if found.status is Status.NOT_REPRODUCED or full:
            effect = wanted.min_effect
            assert all(rejects_less(*arms, margin=effect, alpha=wanted.alpha) for arms in readings)
    assert seen > 100


@pytest.mark.parametrize("wanted", [SMALL, WIDE])
def test_a_blocking_flag_only_lowers(wanted: Parameters) -> None:
    flags = (VerdictReason.FLAGGED,)
    changed = 0
    for pair in tables(10):
        plain, flagged = read(*pair, wanted, flags=()), read(*pair, wanted, flags=flags)
        changed += plain != flagged
        if plain.status is Status.REPRODUCTION_PINNED:
            assert flagged == Classified(Status.PARTIAL, flags)
        elif plain.status is Status.PARTIAL:
            assert flagged == Classified(Status.PARTIAL, (*plain.reasons, *flags))
        elif plain.reasons == (VerdictReason.SMALL_EFFECT,):
            assert flagged == Classified(Status.WEAK_SIGNAL, (VerdictReason.HINT,))
        else:
            assert flagged == plain
    assert changed > 100


REAL_FACTS = rules.facts_of
REAL_CLASSIFY = rules.classify

MUTANTS: dict[str, tuple[str, object]] = {
    "the gate refuses an arm that just reaches it": (
        "too_few_valid",
        lambda tally, wanted: tally.valid <= tally.planned * (1 - wanted.max_unresolved),
    ),
    "the gate on valid trials is gone": ("unread", lambda *_: ()),
    "unresolved shares are compared with the plan's double": (
        "unread",
        lambda one, other, wanted: REAL_UNREAD(
            one, other, wanted._replace(max_unresolved=2 * wanted.max_unresolved)
        ),
    ),
    "the worst reading is the complete one": (
        "facts_of",
        lambda *args: (facts := REAL_FACTS(*args))._replace(established_worst=facts.established),
    ),
    "the best reading is the complete one": (
        "facts_of",
        lambda *args: (facts := REAL_FACTS(*args))._replace(excluded_best=facts.excluded),
    ),
    "worst and best are exchanged": ("worst_reading", rules.best_reading),
    "best and worst are exchanged": ("best_reading", rules.worst_reading),
    "a difference is established at a margin": ("NO_DIFFERENCE", Fraction(1, 10)),
    "exclusion is of no difference": (
        "rejects_less",
        lambda *args, **named: rejects_less(*args, **{**named, "margin": Fraction(0)}),
    ),
    "exclusion is asked at a looser level": (
        "rejects_less",
        lambda *args, margin, alpha: rejects_less(*args, margin=margin, alpha=alpha * 3 / 2),
    ),
    "a difference is asked at a looser level": (
        "rejects",
        lambda *args, margin, alpha: rejects(*args, margin=margin, alpha=alpha * 3 / 2),
    ),
    "arms are exchanged": (
        "rejects",
        lambda one, other, **kwargs: rejects(other, one, **kwargs),
    ),
    "exclusion is not looked at beside a difference": (
        "classify",
        lambda one, other, facts, flags: REAL_CLASSIFY(
            one, other, facts._replace(excluded=facts.excluded and not facts.established), flags
        ),
    ),
    "matches in the control are overlooked": (
        "classify",
        lambda one, other, facts, flags: REAL_CLASSIFY(
            one, other._replace(matched=0), facts, flags
        ),
    ),
    "matches in the treatment are overlooked": (
        "classify",
        lambda one, other, facts, flags: REAL_CLASSIFY(
            one._replace(matched=0), other, facts, flags
        ),
    ),
}
REAL_UNREAD = rules.unread


@pytest.mark.parametrize(("name", "mutant"), MUTANTS.values(), ids=MUTANTS.keys())
def test_a_changed_comparison_changes_the_class_of_some_tally(
    monkeypatch: pytest.MonkeyPatch, name: str, mutant: Callable[..., object]
) -> None:
    monkeypatch.setattr(rules, name, mutant)

    found = 0
    for planned, wanted in ((10, SMALL), (10, WIDE)):
        found = found or disagreements(planned, wanted)

    assert found


def plan_of(trials: int, *, contrasts: int = 1, parameters: dict[str, str] | None = None) -> Plan:
    conditions = [
        Condition(
            name=f"workers={level}",
            choices=(Choice(factor="workers", level=level),),
            role=role,
            stratum="",
            cmd=("true",),
            timeout_us=1_000_000,
        )
        for role, level in (
            *((Role.TREATMENT, f"many{index}") for index in range(contrasts)),
            (Role.CONTROL, "one"),
        )
    ]
    return Plan(
        title="a lost chunk",
        source=Source(kind=SourceKind.NONE),
        symptoms=(ExitCodeSymptom(name="lost", matched=(1,), clean=(0,), declared=True),),
        primary="lost",
        conditions=tuple(conditions),
        contrasts=tuple(
            Contrast(stratum="", treatment=index, control=contrasts) for index in range(contrasts)
        ),
        budget=Budget(trials=trials, parallel=1),
        policy=PolicyRef(
            name="binomial/1",
            parameters=tuple(
                Setting(name=name, value=value) for name, value in (parameters or {}).items()
            ),
        ),
        seed=1,
    )


def evidence_of(trials: int, *arms: tuple[int, int, int]) -> Evidence:
    """Return columns with the given matched, clean and unresolved trials of each condition."""
    codes = [OUTCOMES.index(outcome) for outcome in Outcome]
    condition, outcome = [], []
    for index, arm in enumerate(arms):
        row = [code for code, count in zip(codes, arm, strict=True) for _ in range(count)]
        row += [MISSING] * (trials - len(row))
        condition += [-1 if code == MISSING else index for code in row]
        outcome += row
    unresolved = OUTCOMES.index(Outcome.UNRESOLVED)
    limit = REASONS.index(Reason.TIME_LIMIT)
    zeros = np.zeros(len(outcome), dtype=np.int64)
    return Evidence(
        condition=np.array(condition, dtype=np.int32),
        outcome=np.array(outcome, dtype=np.int8),
        reason=np.array([limit if c == unresolved else -1 for c in outcome], dtype=np.int8),
        worker=zeros.astype(np.int32),
        seed=zeros,
        started_us=zeros,
        workers=("slot-0",),
    )


def test_a_clear_difference_is_pinned_with_its_figures_and_gates() -> None:
    verdict = binomial_v1.reduce(plan_of(60), evidence_of(60, (14, 46, 0), (0, 59, 1)))

    contrast = verdict.contrasts[0]
    assert verdict.status is Status.REPRODUCTION_PINNED
    assert verdict.is_final
    assert verdict.reasons == ()
    assert all(gate.holds for gate in contrast.gates)
    assert {gate.name for gate in contrast.gates} == {
        "budget",
        "valid",
        "control_resolved",
        "established",
        "established_worst",
        "effect_not_excluded",
    }
    assert contrast.figure("difference") == "0.2333"
    assert contrast.figure("difference_confidence") == "0.95"
    assert contrast.figure("min_effect") == "0.1"
    assert float(contrast.figure("difference_lower") or "nan") > 0.1
    assert float(contrast.figure("p_established") or "nan") < 1e-4
    assert contrast.tipping is None
    assert {rate.confidence for rate in verdict.rates} == {"0.9"}
    assert {s.name: s.value for s in verdict.policy.parameters} == {
        "alpha": "0.05",
        "max_unresolved": "0.2",
        "min_effect": "0.1",
        "unresolved": "0",
    }


def test_a_claim_that_two_hung_controls_could_undo_is_partial_with_its_tipping_number() -> None:
    verdict = binomial_v1.reduce(plan_of(60), evidence_of(60, (5, 55, 0), (0, 54, 6)))

    contrast = verdict.contrasts[0]
    assert verdict.status is Status.PARTIAL
    assert verdict.reasons == (VerdictReason.FRAGILE,)
    assert contrast.tipping == 1
    assert {gate.name: gate.holds for gate in contrast.gates}["established_worst"] is False


def test_nothing_in_either_arm_excludes_the_effect_only_with_enough_trials() -> None:
    few = binomial_v1.reduce(plan_of(20), evidence_of(20, (0, 20, 0), (0, 20, 0)))
    many = binomial_v1.reduce(plan_of(60), evidence_of(60, (0, 60, 0), (0, 60, 0)))

    assert (few.status, few.reasons) == (Status.UNRESOLVED, (VerdictReason.INCONCLUSIVE,))
    assert (many.status, many.reasons) == (Status.NOT_REPRODUCED, ())


def test_a_symptom_in_both_arms_is_said_to_be_there() -> None:
    verdict = binomial_v1.reduce(plan_of(60), evidence_of(60, (5, 55, 0), (30, 30, 0)))

    assert verdict.status is Status.UNRESOLVED
    assert verdict.reasons == (VerdictReason.SYMPTOM_IN_CONTROL,)


def test_an_unfinished_budget_gives_no_figures_and_is_not_final() -> None:
    verdict = binomial_v1.reduce(plan_of(60), evidence_of(60, (14, 45, 0), (0, 60, 0)))

    assert not verdict.is_final
    assert (verdict.status, verdict.reasons) == (Status.UNRESOLVED, (VerdictReason.BUDGET,))
    assert verdict.contrasts[0].figures == ()
    assert verdict.contrasts[0].tipping is None


def test_an_arm_without_a_valid_trial_is_unresolved_and_never_a_number() -> None:
    verdict = binomial_v1.reduce(plan_of(12), evidence_of(12, (12, 0, 0), (0, 0, 12)))

    assert verdict.status is Status.UNRESOLVED
    assert verdict.reasons == (VerdictReason.TOO_FEW_VALID, VerdictReason.CONTROL_UNRESOLVED)
    assert verdict.contrasts[0].figures == ()


def test_too_many_unresolved_treatment_trials_are_named() -> None:
    verdict = binomial_v1.reduce(plan_of(20), evidence_of(20, (10, 5, 5), (0, 20, 0)))

    assert verdict.status is Status.UNRESOLVED
    assert verdict.reasons == (VerdictReason.TOO_FEW_VALID, VerdictReason.TREATMENT_UNRESOLVED)
    assert verdict.contrasts[0].figure("difference") is not None


def test_a_lower_limit_below_an_established_zero_is_explained() -> None:
    """At 27/60 against 18/60 p(0) is .0492 but p(-.003) is .0524."""
    verdict = binomial_v1.reduce(plan_of(60), evidence_of(60, (27, 33, 0), (18, 42, 0)))

    assert verdict.status is Status.REPRODUCTION_PINNED
    assert verdict.contrasts[0].figure("difference_lower") == "-0.004"
    assert any("lower limit lies below 0" in caveat for caveat in verdict.caveats)


def test_an_upper_limit_above_an_excluded_effect_is_explained() -> None:
    """At 5/12 against 5/12 a difference of .2 is excluded at .2, and some up to .23 are not."""
    parameters = {"alpha": "0.2", "min_effect": "0.2"}
    verdict = binomial_v1.reduce(
        plan_of(12, parameters=parameters), evidence_of(12, (5, 7, 0), (5, 7, 0))
    )
    plain = binomial_v1.reduce(plan_of(60), evidence_of(60, (0, 60, 0), (0, 60, 0)))

    assert verdict.contrasts[0].figure("difference_upper") == "0.230"
    assert any("printed upper limit lies above 0.2" in caveat for caveat in verdict.caveats)
    assert not any("upper limit lies above" in caveat for caveat in plain.caveats)


def test_a_difference_that_rounds_to_zero_has_no_sign() -> None:
    assert gates._fixed(Fraction(-1, 30_000), 4) == "0.0000"
    assert gates._fixed(Fraction(-1, 250), 3) == "-0.004"
    assert gates._fixed(Fraction(5, 2), 3) == "2.500"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.05, "0.05000"),
        (0.015625, "0.01563"),
        (0.050001, "0.05001"),
        (0.001, "0.00100"),
        (0.0001, "1.00e-04"),
        (2.934e-5, "2.94e-05"),
        (1.0, "1.00000"),
        (1e-13, "< 1e-12"),
    ],
)
def test_a_p_value_on_the_lattice_is_printed_alike_with_any_last_bit(
    value: float, text: str
) -> None:
    near = [value, np.nextafter(value, 0), value * (1 - 1e-13), value * (1 + 1e-13)]

    assert {gates._p_text(float(one)) for one in near} == {text}


def test_a_p_value_is_never_printed_below_what_it_is() -> None:
    for value in np.geomspace(2e-12, 1, 400).tolist():
        printed = float(gates._p_text(value))
        assert value * (1 - 2e-9) <= printed <= value * 1.011


def test_a_declared_number_is_written_out_in_full() -> None:
    texts = ("0.05", "0.0000015", "0.01234567891234", "0.5", "1", "0", "12.5")

    assert tuple(decimal(Fraction(text)) for text in texts) == texts
    with pytest.raises(ValueError, match="not a decimal"):
        decimal(Fraction(1, 3))


def test_no_float_is_printed_in_the_caveat_of_a_weak_plan() -> None:
    verdict = binomial_v1.reduce(plan_of(20), evidence_of(20, (9, 11, 0), (0, 20, 0)))

    (weak,) = (caveat for caveat in verdict.caveats if "a weak plan" in caveat)
    assert weak.endswith("is pinned with a chance below 0.8")


def test_a_verdict_that_rule_1_stops_has_nothing_to_tip() -> None:
    verdict = binomial_v1.reduce(plan_of(20), evidence_of(20, (8, 12, 0), (0, 12, 8)))

    assert verdict.status is Status.UNRESOLVED
    assert {gate.name: gate.holds for gate in verdict.contrasts[0].gates}["established"]
    assert verdict.contrasts[0].tipping is None


@pytest.mark.parametrize(
    "arms",
    [
        ((14, 46, 0), (0, 60, 0)),
        ((5, 55, 0), (0, 54, 6)),
        ((1, 59, 0), (0, 60, 0)),
        ((0, 60, 0), (0, 60, 0)),
        ((5, 55, 0), (30, 30, 0)),
    ],
)
def test_a_conflict_leaves_no_class_standing_and_is_the_first_reason(
    arms: tuple[tuple[int, int, int], ...],
) -> None:
    plain = binomial_v1.reduce(plan_of(60), evidence_of(60, *arms))
    verdict = binomial_v1.reduce(plan_of(60), evidence_of(60, *arms)._replace(conflicts=1))

    assert verdict.status is Status.UNRESOLVED
    assert verdict.reasons == (VerdictReason.CONFLICT, *plain.reasons)
    assert verdict.contrasts[0].tipping is None


def test_figures_never_hold_a_value_that_is_not_a_number() -> None:
    for one, other in itertools.product([(0, 6, 0), (6, 0, 0), (3, 2, 1)], repeat=2):
        verdict = binomial_v1.reduce(plan_of(6), evidence_of(6, one, other))

        values = [figure.value for figure in verdict.contrasts[0].figures]
        assert values
        assert not any(word in value for value in values for word in ("nan", "inf"))
        assert verdict.canonical()


def test_several_contrasts_are_refused() -> None:
    plan = plan_of(20, contrasts=2)

    with pytest.raises(PolicyError, match="one treatment with one control, not 2"):
        binomial_v1.reduce(plan, evidence_of(20, (1, 19, 0), (0, 20, 0), (0, 20, 0)))


def test_more_trials_than_can_be_compared_are_refused() -> None:
    with pytest.raises(PolicyError, match="20001 trials a condition are more than 20000"):
        binomial_v1.reduce(plan_of(20_001), evidence_of(0, (0, 0, 0), (0, 0, 0)))


def test_the_policy_writes_its_defaults_out() -> None:
    written = binomial_v1.parameters({"alpha": "0.01"})

    assert [(setting.name, setting.value) for setting in written] == [
        ("alpha", "0.01"),
        ("max_unresolved", "0.2"),
        ("min_effect", "0.1"),
        ("unresolved", "0"),
    ]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("alpha", "2", "`alpha` is 2, and must be from"),
        ("alpha", "0", "`alpha` is 0, and must be"),
        ("alpha", "0.0000001", "`alpha` is 1e-07"),
        ("alpha", "five percent", "`alpha` is not a decimal number"),
        ("alpha", "1/20", "`alpha` is not a decimal number"),
        ("alpha", "nan", "`alpha` is not a decimal number"),
        ("alpha", "", "`alpha` is not a decimal number"),
        ("alpha", ".", "`alpha` is not a decimal number"),
        ("alpha", "٠.٠٥", "`alpha` is not a decimal number"),
        ("min_effect", "0", "`min_effect` is 0, and must be a multiple"),
        ("min_effect", "0.0005", "`min_effect` is 0.0005, and must be a multiple"),
        ("min_effect", "1", "`min_effect` is 1, and must be a multiple"),
        ("max_unresolved", "1", "`max_unresolved` is 1, and must be"),
        ("unresolved", "1.5", "`unresolved` is 1.5, and must be"),
        ("power", "1", "`power` is 1, and must be between"),
        ("beta", "0.1", "has no parameter `beta`"),
    ],
)
def test_a_parameter_out_of_range_is_refused_by_name(name: str, value: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        binomial_v1.parameters({name: value})

    assert caught.value.place == f"policy.{name}"
    assert caught.value.hint


def test_a_weak_plan_is_said_to_be_weak_in_its_verdict() -> None:
    weak = binomial_v1.reduce(plan_of(20), evidence_of(20, (9, 11, 0), (0, 20, 0)))
    strong = binomial_v1.reduce(plan_of(60), evidence_of(60, (9, 51, 0), (0, 60, 0)))

    assert [caveat for caveat in weak.caveats if "a weak plan" in caveat]
    assert [caveat for caveat in weak.caveats if "would not exclude a difference" in caveat]
    assert not [caveat for caveat in strong.caveats if "weak" in caveat or "exclude" in caveat]
