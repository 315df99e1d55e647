import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from policies.stats.rates import (
    clean_trials_needed,
    clopper_pearson,
    lower_limit,
    upper_limit,
    zero_matches_bound,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "statistics"


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((GOLDEN / f"{name}.json").read_text())["cases"]
    return found


def test_intervals_agree_with_r() -> None:
    rows = cases("proportion_ci")
    assert len(rows) == 144

    for row in rows:
        confidence = Fraction(str(row["conf"]))
        interval = clopper_pearson(row["x"], row["n"], confidence=confidence)
        lower = lower_limit(row["x"], row["n"], alpha=1 - confidence)
        upper = upper_limit(row["x"], row["n"], alpha=1 - confidence)

        assert interval == pytest.approx(row["clopper_pearson"], abs=1e-9, rel=1e-9)
        assert lower == pytest.approx(row["cp_lower_onesided"], abs=1e-9, rel=1e-9)
        assert upper == pytest.approx(row["cp_upper_onesided"], abs=1e-9, rel=1e-9)


def test_clean_runs_agree_with_the_closed_form() -> None:
    kinds = set()

    for row in cases("clean_runs"):
        alpha = Fraction(row["alpha"])
        kinds.add(row["kind"])
        if row["kind"] == "upper_bound_zero_of_n":
            bound = zero_matches_bound(row["n"], alpha=alpha)
            assert bound == pytest.approx(float(row["upper"]), abs=1e-12)
        else:
            assert clean_trials_needed(Fraction(row["p"]), alpha=alpha) == row["n"]

    assert kinds == {"upper_bound_zero_of_n", "clean_runs_needed"}


@pytest.mark.parametrize("count", [1, 7, 60])
def test_clean_trials_that_reach_the_level_exactly_are_enough(count: int) -> None:
    rate = Fraction(1, 7)

    assert clean_trials_needed(rate, alpha=(1 - rate) ** count) == count
    assert clean_trials_needed(rate, alpha=(1 - rate) ** count - Fraction(1, 10**80)) == count + 1


def test_a_certain_symptom_needs_one_clean_trial_and_a_rare_one_many() -> None:
    assert clean_trials_needed(Fraction(1), alpha=Fraction(1, 20)) == 1
    assert clean_trials_needed(Fraction(1, 10**6), alpha=Fraction(1, 20)) == 2_995_731


def test_limits_nest_as_the_confidence_rises() -> None:
    narrow = clopper_pearson(7, 31, confidence=Fraction(9, 10))
    wide = clopper_pearson(7, 31, confidence=Fraction(99, 100))

    assert wide.lower < narrow.lower < 7 / 31 < narrow.upper < wide.upper


def test_an_arm_that_never_or_always_matched_has_one_open_end() -> None:
    confidence = Fraction(19, 20)

    assert clopper_pearson(0, 12, confidence=confidence).lower == 0
    assert clopper_pearson(12, 12, confidence=confidence).upper == 1


@pytest.mark.parametrize(("matches", "trials"), [(0, 0), (3, 2), (-1, 5)])
def test_an_empty_arm_and_impossible_counts_are_refused(matches: int, trials: int) -> None:
    with pytest.raises(ValueError, match=r"without valid trials|impossible"):
        clopper_pearson(matches, trials, confidence=Fraction(19, 20))


@pytest.mark.parametrize("alpha", [Fraction(0), Fraction(1), Fraction(2)])
def test_a_level_outside_the_open_interval_is_refused(alpha: Fraction) -> None:
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        upper_limit(1, 5, alpha=alpha)


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(3, 2)])
def test_a_rate_that_no_trial_could_show_is_refused(rate: Fraction) -> None:
    with pytest.raises(ValueError, match="rate above 0"):
        clean_trials_needed(rate, alpha=Fraction(1, 20))
