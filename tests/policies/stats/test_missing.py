import json
from fractions import Fraction
from pathlib import Path

import pytest

from policies.stats.missing import Arm, best_reading, rate_bounds, tipping, worst_reading
from policies.stats.score import p_greater, rejects

GOLDEN = Path(__file__).parents[2] / "golden" / "statistics"
CASES = json.loads((GOLDEN / "worst_case_bounds.json").read_text())["cases"]
NONE = Fraction(0)


@pytest.mark.parametrize("row", CASES)
def test_readings_agree_with_the_full_enumeration(row: dict[str, object]) -> None:
    treatment, control = Arm(**row["treat"]), Arm(**row["control"])  # type: ignore[arg-type]

    complete = p_greater(treatment.resolved, control.resolved, margin=NONE)
    worst = p_greater(*worst_reading(treatment, control), margin=NONE)
    best = p_greater(*best_reading(treatment, control), margin=NONE)

    assert complete.lower == pytest.approx(row["p_complete_case"], abs=1e-8)
    assert worst.lower == pytest.approx(row["p_worst"], abs=1e-8)
    assert best.lower == pytest.approx(row["p_best"], abs=1e-8)
    assert [str(bound) for bound in rate_bounds(treatment)] == row["rate_bounds_treatment"]
    assert [str(bound) for bound in rate_bounds(control)] == row["rate_bounds_control"]


@pytest.mark.parametrize("row", CASES)
def test_no_reading_lies_outside_the_two_corners(row: dict[str, list[list[float]]]) -> None:
    treatment, control = Arm(**row["treat"]), Arm(**row["control"])  # type: ignore[arg-type]

    for a, line in enumerate(row["p_grid"]):
        for b, expected in enumerate(line):
            found = p_greater(treatment.read(a), control.read(b), margin=NONE)
            assert found.lower == pytest.approx(expected, abs=1e-8)
            assert row["p_best"] <= expected <= row["p_worst"]  # type: ignore[operator]


@pytest.mark.parametrize("level", ["0.05", "0.01"])
@pytest.mark.parametrize("row", CASES)
def test_tipping_numbers_agree_with_the_full_enumeration(
    row: dict[str, object], level: str
) -> None:
    treatment, control = Arm(**row["treat"]), Arm(**row["control"])  # type: ignore[arg-type]
    alpha = Fraction(level)

    found = tipping(treatment, control, margin=NONE, alpha=alpha)

    assert found == row[f"tip_control_matches_needed_{level}"]
    worst = rejects(*worst_reading(treatment, control), margin=NONE, alpha=alpha)
    best = rejects(*best_reading(treatment, control), margin=NONE, alpha=alpha)
    assert worst == row[f"robust_{level}"] == (found is None)
    assert best == row[f"possible_{level}"]


def test_the_tipping_number_is_the_first_that_undoes_the_claim() -> None:
    alpha = Fraction(1, 20)
    found = set()
    for u1 in range(4):
        for u0 in range(5):
            treatment, control = Arm(5, 12, u1), Arm(0, 12, u0)

            tip = tipping(treatment, control, margin=NONE, alpha=alpha)

            holds = [
                rejects(treatment.read(0), control.read(b), margin=NONE, alpha=alpha)
                for b in range(u0 + 1)
            ]
            assert tip == (holds.index(False) if False in holds else None)
            found.add(tip)
    assert {None, 0, 1} <= found | {0}


def test_arms_without_unresolved_trials_read_one_way() -> None:
    arms = Arm(5, 12, 0), Arm(0, 12, 0)

    assert worst_reading(*arms) == best_reading(*arms) == (arms[0].resolved, arms[1].resolved)
