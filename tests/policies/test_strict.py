import itertools
import json
from pathlib import Path

import pytest

from matrices import Role
from policies import Reason, Status, Tally, strict_v1, strict_v2
from policies.model import VerdictReason
from policies.threshold_rule import condition_class

GOLDEN = Path(__file__).parent.parent / "golden" / "statistics" / "strict_policy.json"
WORDS = {"PARTIAL_REPRODUCTION": "PARTIAL"}
STRENGTH = [
    Status.UNRESOLVED,
    Status.NOT_REPRODUCED,
    Status.WEAK_SIGNAL,
    Status.PARTIAL,
    Status.REPRODUCTION_PINNED,
]
POSITIVE = STRENGTH[2:]


def tally(role, matched, clean, unresolved):
    return Tally(
        condition=0 if role is Role.TREATMENT else 1,
        role=role,
        planned=matched + clean + unresolved,
        matched=matched,
        clean=clean,
        unresolved=unresolved,
        missing=0,
        reasons=((Reason.TIME_LIMIT, unresolved),) if unresolved else (),
    )


def tables(trials):
    """Every tally of an arm with this many trials."""
    for matched, unresolved in itertools.product(range(trials + 1), repeat=2):
        if matched + unresolved <= trials:
            yield matched, trials - matched - unresolved, unresolved


def pairs(trials):
    for treatment, control in itertools.product(tables(trials), repeat=2):
        yield tally(Role.TREATMENT, *treatment), tally(Role.CONTROL, *control)


def test_every_golden_case_of_the_published_rule_holds():
    cases = json.loads(GOLDEN.read_text())["cases"]

    for case in cases:
        expected = WORDS.get(case["arm_class"], case["arm_class"])
        assert condition_class(case["matched"], case["valid"]) == expected
    assert {condition_class(c["matched"], c["valid"]) for c in cases} == set(Status)


def test_golden_gates_of_the_control_agree_with_the_second_version():
    for case in json.loads(GOLDEN.read_text())["cases"]:
        clean = case["valid"] - case["matched"]
        control = tally(Role.CONTROL, case["matched"], clean, case["unresolved"])

        gated = condition_class(control.matched, control.valid)
        if gated is Status.NOT_REPRODUCED and strict_v2.too_many_unresolved(control):
            gated = Status.UNRESOLVED

        assert gated == WORDS.get(case["control_class_gated"], case["control_class_gated"])


PUBLISHED = {
    # treatment counts (matched, clean), control counts -> class and reason
    ((10, 0), (0, 10)): (Status.REPRODUCTION_PINNED, ()),
    ((4, 6), (0, 10)): (Status.PARTIAL, ()),
    ((3, 7), (0, 10)): (Status.WEAK_SIGNAL, ()),
    ((0, 10), (0, 10)): (Status.NOT_REPRODUCED, ()),
    ((9, 0), (0, 10)): (Status.UNRESOLVED, (VerdictReason.TOO_FEW_VALID,)),
    ((10, 0), (0, 9)): (Status.UNRESOLVED, (VerdictReason.TOO_FEW_VALID,)),
    ((10, 0), (3, 7)): (Status.PARTIAL, (VerdictReason.SYMPTOM_IN_CONTROL,)),
    ((4, 6), (1, 9)): (Status.PARTIAL, (VerdictReason.SYMPTOM_IN_CONTROL,)),
    ((3, 7), (1, 9)): (Status.UNRESOLVED, (VerdictReason.SYMPTOM_IN_CONTROL,)),
    ((10, 0), (4, 6)): (Status.UNRESOLVED, (VerdictReason.SYMPTOM_IN_CONTROL,)),
    ((20, 0), (20, 0)): (Status.UNRESOLVED, (VerdictReason.SYMPTOM_IN_CONTROL,)),
}


@pytest.mark.parametrize(("counts", "expected"), PUBLISHED.items())
def test_a_contrast_reads_as_published(counts, expected):
    (m1, c1), (m0, c0) = counts

    found = strict_v1.judge(0, tally(Role.TREATMENT, m1, c1, 0), tally(Role.CONTROL, m0, c0, 0))

    assert (found.status, found.reasons) == expected


def test_the_published_rule_forgives_unresolved_trials_and_the_second_version_does_not():
    treatment = tally(Role.TREATMENT, 10, 0, 4)
    control = tally(Role.CONTROL, 0, 14, 0)

    assert strict_v1.judge(0, treatment, control).status is Status.REPRODUCTION_PINNED
    second = strict_v2.judge(0, treatment, control)
    assert second.status is Status.PARTIAL
    assert second.reasons == (VerdictReason.FRAGILE,)
    assert second.tipping == 0


def test_a_control_that_hung_once_is_not_a_clean_zero():
    treatment, control = tally(Role.TREATMENT, 12, 0, 0), tally(Role.CONTROL, 0, 11, 1)

    found = strict_v2.judge(0, treatment, control)

    assert found.status is Status.PARTIAL
    assert found.tipping == 1


def test_unresolved_controls_that_could_match_do_not_put_the_symptom_in_the_control():
    treatment, control = tally(Role.TREATMENT, 0, 20, 0), tally(Role.CONTROL, 0, 16, 4)

    found = strict_v2.judge(0, treatment, control)

    assert found.status is Status.UNRESOLVED
    assert found.reasons == (VerdictReason.FRAGILE,)


def test_no_tally_without_a_control_match_is_said_to_have_the_symptom_in_the_control():
    lowered = 0
    for treatment, control in pairs(12):
        reasons = strict_v2.judge(0, treatment, control).reasons
        if VerdictReason.FRAGILE in reasons:
            lowered += 1
            assert reasons[0] is VerdictReason.FRAGILE
        if VerdictReason.SYMPTOM_IN_CONTROL in reasons:
            assert control.matched > 0
    assert lowered > 100


def test_missing_trials_are_named_by_the_published_rule_and_decide_nothing_under_the_second():
    for cut in (Role.TREATMENT, Role.CONTROL):
        arms = [tally(Role.TREATMENT, 12, 0, 0), tally(Role.CONTROL, 0, 12, 0)]
        arms = [
            arm.model_copy(update={"planned": 17, "missing": 5}) if arm.role is cut else arm
            for arm in arms
        ]

        first, second = strict_v1.judge(0, *arms), strict_v2.judge(0, *arms)

        assert first.status is Status.REPRODUCTION_PINNED
        assert first.reasons == (VerdictReason.BUDGET,)
        assert (second.status, second.reasons) == (Status.UNRESOLVED, (VerdictReason.BUDGET,))
        assert second.tipping is None


def test_a_tipping_number_stands_only_beside_a_claim():
    treatment, control = tally(Role.TREATMENT, 12, 0, 0), tally(Role.CONTROL, 0, 10, 3)

    found = strict_v2.judge(0, treatment, control)

    assert found.reasons == (VerdictReason.CONTROL_UNRESOLVED,)
    assert found.tipping is None


def worst_reading(treatment, control):
    return (
        tally(Role.TREATMENT, treatment.matched, treatment.clean + treatment.unresolved, 0),
        tally(Role.CONTROL, control.matched + control.unresolved, control.clean, 0),
    )


def positive_claims_survive(judge, trials):
    """Every pinned or weak claim of `judge`, held against the worst reading of the same tallies."""
    for treatment, control in pairs(trials):
        found = judge(0, treatment, control)
        if found.status in POSITIVE and VerdictReason.FRAGILE not in found.reasons:
            worst = judge(0, *worst_reading(treatment, control))
            if STRENGTH.index(worst.status) < STRENGTH.index(found.status):
                return False
    return True


def not_reproduced_survives(judge, trials):
    """Every `NOT_REPRODUCED` of `judge`, held against the best reading of the treatment."""
    for treatment, control in pairs(trials):
        found = judge(0, treatment, control)
        if found.status is Status.NOT_REPRODUCED:
            most = treatment.matched + treatment.unresolved
            if condition_class(most, treatment.valid + treatment.unresolved) is not found.status:
                return False
    return True


def test_claims_of_the_second_version_survive_the_worst_reading_of_every_tally():
    assert positive_claims_survive(strict_v2.judge, 11)
    assert not_reproduced_survives(strict_v2.judge, 11)
    reached = {strict_v2.judge(0, *pair).status for pair in pairs(11)}
    assert reached == set(Status)


def test_claims_of_the_published_rule_do_not():
    # The reason for the second version; also shows that the property can fail.
    assert not positive_claims_survive(strict_v1.judge, 11)


MUTANTS = {
    "no gate on the control's unresolved share": ("MAX_UNRESOLVED_PARTS", 0),
    "half of the control may be unresolved": ("MAX_UNRESOLVED_PARTS", 2),
}


@pytest.mark.parametrize(("name", "value"), MUTANTS.values(), ids=MUTANTS.keys())
def test_a_changed_gate_is_noticed(monkeypatch, name, value):
    treatment, control = tally(Role.TREATMENT, 11, 0, 0), tally(Role.CONTROL, 0, 10, 3)
    assert strict_v2.judge(0, treatment, control).reasons == (VerdictReason.CONTROL_UNRESOLVED,)

    monkeypatch.setattr(strict_v2, name, value)

    assert strict_v2.judge(0, treatment, control).reasons != (VerdictReason.CONTROL_UNRESOLVED,)


def ignores_worst(treatment, control, *, complete, worst):
    del worst
    return REAL_CLASSIFY(treatment, control, complete=complete, worst=complete)


def forgives_treatment(treatment, control, *, complete, worst):
    bare = treatment.model_copy(update={"unresolved": 0})
    return REAL_CLASSIFY(bare, control, complete=complete, worst=worst)


REAL_CLASSIFY = strict_v2._classify


@pytest.mark.parametrize("mutant", [ignores_worst, forgives_treatment])
def test_a_second_version_that_forgives_unresolved_trials_is_caught(monkeypatch, mutant):
    monkeypatch.setattr(strict_v2, "_classify", mutant)

    survives = positive_claims_survive(strict_v2.judge, 11)
    excludes = not_reproduced_survives(strict_v2.judge, 11)

    assert not (survives and excludes)
