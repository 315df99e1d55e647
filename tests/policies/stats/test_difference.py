import json
from fractions import Fraction
from pathlib import Path

import pytest

from policies.stats.difference import LATTICE, chan_zhang
from policies.stats.score import Count, p_greater, p_less, rejects, rejects_less

GOLDEN = Path(__file__).parents[2] / "golden" / "statistics"
ALPHA = Fraction(1, 20)
CASES = json.loads((GOLDEN / "binomial_v1_ci.json").read_text())["cases"]

BEHIND_A_GAP = {
    (13, 20, 9, 10, "0.01"): (Fraction(-566, 1000), Fraction(204, 1000)),
    (30, 60, 11, 45, "0.05"): (Fraction(59, 1000), Fraction(402, 1000)),
}
"""Two tables whose p is not monotone and rises above alpha again beyond the golden limit. The
golden value is the outermost crossing; the limit here must hold on the whole way to it."""


@pytest.mark.parametrize("part", range(6))
def test_limits_agree_with_the_golden_lattice_values(part: int) -> None:
    for row in CASES[part::6]:
        alpha = Fraction(str(row["alpha"]))
        key = (row["x1"], row["n1"], row["x0"], row["n0"], str(row["alpha"]))
        expected = Fraction(str(row["lower"])), Fraction(str(row["upper"]))

        found = chan_zhang(Count(*key[:2]), Count(*key[2:4]), alpha=alpha)

        assert found == BEHIND_A_GAP.get(key, expected), key
        assert found.lower <= expected[0]
        assert found.upper >= expected[1]


def test_a_limit_stops_at_the_first_gap_that_lies_before_the_golden_value() -> None:
    upper = Count(13, 20), Count(9, 10)
    lower = Count(30, 60), Count(11, 45)

    assert p_less(*upper, margin=Fraction(201, 1000)).lower > 0.0104
    assert p_less(*upper, margin=Fraction(200, 1000)).upper < 0.0080
    assert p_greater(*lower, margin=Fraction(60, 1000)).lower > 0.0522
    assert p_greater(*lower, margin=Fraction(61, 1000)).upper < 0.0253


@pytest.mark.parametrize(
    ("treatment", "control"),
    [
        (Count(3, 7), Count(1, 7)),
        (Count(7, 7), Count(0, 7)),
        (Count(0, 6), Count(0, 5)),
        (Count(2, 9), Count(2, 4)),
        (Count(13, 20), Count(9, 10)),
    ],
)
def test_the_quick_search_finds_what_a_full_scan_of_the_lattice_finds(
    treatment: Count, control: Count
) -> None:
    found = chan_zhang(treatment, control, alpha=ALPHA)

    def scan(treatment: Count, control: Count) -> int:
        steps = range(1 - LATTICE, LATTICE + 1)
        return next(
            step - 1
            for step in steps
            if not rejects(treatment, control, margin=Fraction(step, LATTICE), alpha=ALPHA)
        )

    assert found.lower * LATTICE == scan(treatment, control)
    assert found.upper * LATTICE == -scan(control, treatment)


def test_the_interval_and_the_decisions_never_disagree_on_a_small_design() -> None:
    effect = Fraction(3, 10)
    seen = set()
    for x1 in range(6):
        for x0 in range(5):
            arms = Count(x1, 5), Count(x0, 4)
            established = rejects(*arms, margin=Fraction(0), alpha=ALPHA)
            excluded = rejects_less(*arms, margin=effect, alpha=ALPHA)

            found = chan_zhang(*arms, alpha=ALPHA, margins=(effect,))

            seen.add((established, excluded))
            assert (found.lower >= 0) == established
            assert (found.upper <= effect) == excluded
            assert found.lower <= Fraction(x1, 5) - Fraction(x0, 4) <= found.upper
    assert seen == {(True, False), (False, True), (False, False)}


def test_the_limits_of_swapped_arms_are_mirrored() -> None:
    found = chan_zhang(Count(9, 30), Count(2, 24), alpha=ALPHA)
    swapped = chan_zhang(Count(2, 24), Count(9, 30), alpha=ALPHA)

    assert (found.lower, found.upper) == (-swapped.upper, -swapped.lower)


def test_limits_are_multiples_of_a_thousandth() -> None:
    found = chan_zhang(Count(9, 57), Count(0, 58), alpha=ALPHA)

    assert all((limit * LATTICE).denominator == 1 for limit in found)


@pytest.mark.parametrize("alpha", [Fraction(0), Fraction(3, 4)])
def test_a_level_above_one_half_is_refused(alpha: Fraction) -> None:
    with pytest.raises(ValueError, match="at most 1/2"):
        chan_zhang(Count(1, 2), Count(1, 2), alpha=alpha)


def test_an_empty_arm_has_no_interval() -> None:
    with pytest.raises(ValueError, match="without valid trials"):
        chan_zhang(Count(1, 2), Count(0, 0), alpha=ALPHA)
