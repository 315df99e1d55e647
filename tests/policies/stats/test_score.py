import json
from fractions import Fraction
from math import comb, isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from policies.stats.power import established_frontier
from policies.stats.score import Count, p_greater, p_less, rejects, rejects_less

GOLDEN = Path(__file__).parents[2] / "golden" / "statistics"
NONE = Fraction(0)
SPECK = Fraction(1, 10**40)


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((GOLDEN / f"{name}.json").read_text())["cases"]
    return found


def test_p_values_agree_with_exact_ordering_and_forty_digits() -> None:
    rows = cases("two_arm_exact_p")
    assert len(rows) == 130

    for row in rows:
        found = p_greater(Count(row["x1"], row["n1"]), Count(row["x0"], row["n0"]), margin=NONE)
        expected = float(row["p_score"])

        assert found.lower == pytest.approx(expected, rel=1e-9)
        assert found.lower <= expected * (1 + 1e-12)
        assert expected <= found.upper * (1 + 1e-12)
        assert found.upper - found.lower <= 2e-12 + 2e-10 * found.lower


def test_p_values_at_a_margin_agree_with_an_independent_ordering() -> None:
    rows = cases("two_arm_margin_p")
    assert len(rows) == 81

    for row in rows:
        arms = Count(row["x1"], row["n1"]), Count(row["x0"], row["n0"])
        found = p_greater(*arms, margin=Fraction(row["delta0"]))

        assert found.lower == pytest.approx(row["p_fm_exact"], abs=1e-6)
        assert found.lower <= row["p_fm_exact"] + 1e-9 <= found.upper + 2e-9


def test_the_other_direction_is_the_same_with_the_arms_swapped() -> None:
    arms = Count(3, 14), Count(6, 11)

    found = p_less(*arms, margin=Fraction(1, 10))

    assert found == p_greater(arms[1], arms[0], margin=Fraction(-1, 10))


@pytest.mark.parametrize(
    ("treatment", "control", "margin", "p"),
    [
        (Count(1, 1), Count(0, 1), NONE, Fraction(1, 4)),
        (Count(2, 2), Count(0, 2), NONE, Fraction(1, 16)),
        (Count(3, 3), Count(0, 3), NONE, Fraction(1, 64)),
        (Count(5, 5), Count(0, 5), NONE, Fraction(1, 1024)),
        (Count(10, 10), Count(0, 10), NONE, Fraction(1, 2**20)),
        (Count(4, 5), Count(1, 5), NONE, Fraction(7, 128)),
        (Count(2, 2), Count(0, 1), NONE, Fraction(4, 27)),
        (Count(3, 3), Count(0, 3), Fraction(-1, 2), Fraction(1, 16) ** 3),
        (Count(3, 3), Count(0, 3), Fraction(1, 2), Fraction(9, 16) ** 3),
    ],
)
def test_a_supremum_that_equals_alpha_rejects_and_one_a_speck_above_does_not(
    treatment: Count, control: Count, margin: Fraction, p: Fraction
) -> None:
    assert rejects(treatment, control, margin=margin, alpha=p)
    assert rejects(treatment, control, margin=margin, alpha=p + SPECK)
    assert not rejects(treatment, control, margin=margin, alpha=p - SPECK)


def test_a_tie_that_other_software_loses_is_kept() -> None:
    """3/15 against 0/15 is .0500928; without its tie it would be .04937 and significant."""
    arms = Count(3, 15), Count(0, 15)

    assert p_greater(*arms, margin=NONE).lower == pytest.approx(0.0500928, abs=1e-6)
    assert not rejects(*arms, margin=NONE, alpha=Fraction(1, 20))


@pytest.mark.parametrize("alpha", [Fraction(1, 20), Fraction(1, 100)])
@pytest.mark.parametrize("n", range(1, 21))
def test_the_type_one_error_stays_within_alpha_at_every_rate(n: int, alpha: Fraction) -> None:
    frontier = established_frontier(n, n, alpha=alpha)

    by_total = np.zeros(2 * n + 1)
    for j, first in enumerate(frontier):
        for i in range(first, n + 1):
            by_total[i + j] += comb(n, i) * comb(n, j)
    rates = np.linspace(0, 1, 2001)[:, None]
    totals = np.arange(2 * n + 1)[None, :]
    size = (by_total * rates**totals * (1 - rates) ** (2 * n - totals)).sum(axis=1)
    assert size.max() <= float(alpha)


@pytest.mark.parametrize(("n1", "n0"), [(1, 1), (2, 5), (7, 7), (9, 4)])
@pytest.mark.parametrize("margin", ["0", "0.1", "-0.3", "0.999", "-0.999", "1", "-1"])
def test_every_table_has_a_p_value_between_0_and_1(n1: int, n0: int, margin: str) -> None:
    for x1 in range(n1 + 1):
        for x0 in range(n0 + 1):
            found = p_greater(Count(x1, n1), Count(x0, n0), margin=Fraction(margin))

            assert all(isfinite(value) for value in found)
            assert 0 <= found.lower <= found.upper <= 1


@pytest.mark.parametrize("margin", ["0", "0.15", "-0.2"])
def test_decisions_agree_with_the_p_value(margin: str) -> None:
    decisions = set()
    for x1 in range(9):
        for x0 in range(8):
            arms = Count(x1, 8), Count(x0, 7)
            found = p_greater(*arms, margin=Fraction(margin))

            decided = rejects(*arms, margin=Fraction(margin), alpha=Fraction(1, 20))

            decisions.add(decided)
            assert found.lower <= 0.05 if decided else found.upper > 0.05
    assert decisions == {True, False}


def test_one_more_match_never_weakens_and_one_more_in_the_control_never_strengthens() -> None:
    for margin in (NONE, Fraction(1, 10)):
        table = np.array(
            [
                [p_greater(Count(i, 9), Count(j, 12), margin=margin).lower for j in range(13)]
                for i in range(10)
            ]
        )
        assert (np.diff(table, axis=0) <= 1e-9).all()
        assert (np.diff(table, axis=1) >= -1e-9).all()


def test_margins_at_the_ends_need_no_search() -> None:
    arms = Count(5, 5), Count(0, 5)

    assert p_greater(*arms, margin=Fraction(1)).lower == 1
    assert p_greater(*arms, margin=Fraction(-1)).upper == 0
    assert p_greater(arms[1], arms[0], margin=Fraction(-1)).upper == 1
    assert rejects_less(*arms, margin=Fraction(1), alpha=Fraction(1, 20)) is False
    assert rejects_less(Count(4, 5), arms[1], margin=Fraction(1), alpha=Fraction(1, 20))


def test_equal_arms_without_a_match_have_p_1() -> None:
    found = p_greater(Count(0, 9), Count(0, 9), margin=NONE)

    assert found.lower == pytest.approx(1)
    assert found.upper == 1
    assert not rejects(Count(0, 9), Count(0, 9), margin=NONE, alpha=Fraction(1, 2))


def test_twenty_thousand_trials_an_arm_are_decided() -> None:
    n, alpha, effect = 20_000, Fraction(1, 20), Fraction(1, 100)

    assert rejects(Count(1_100, n), Count(900, n), margin=NONE, alpha=alpha)
    assert not rejects(Count(1_020, n), Count(1_000, n), margin=NONE, alpha=alpha)
    assert rejects(Count(5, n), Count(0, n), margin=NONE, alpha=alpha)
    assert rejects_less(Count(1_000, n), Count(1_000, n), margin=effect, alpha=alpha)


@pytest.mark.parametrize("arm", [Count(0, 0), Count(3, 2), Count(-1, 4)])
def test_an_empty_arm_is_never_evidence(arm: Count) -> None:
    for margin in (NONE, Fraction(1), Fraction(-2)):
        with pytest.raises(ValueError, match=r"without valid trials|impossible"):
            rejects(Count(5, 5), arm, margin=margin, alpha=Fraction(1, 20))
        with pytest.raises(ValueError, match=r"without valid trials|impossible"):
            p_less(arm, Count(5, 5), margin=margin)
