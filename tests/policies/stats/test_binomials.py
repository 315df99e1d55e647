from fractions import Fraction
from math import comb

import numpy as np
import pytest

from policies.stats import binomials
from policies.stats.binomials import SKIPPED_MASS, pmf_rows, rounding, skipped_mass, upper_tails


@pytest.mark.parametrize("rate", [Fraction(1, 50), Fraction(3, 10), Fraction(19, 20)])
def test_a_row_agrees_with_exact_rationals_far_into_the_tails(rate: Fraction) -> None:
    trials = 40

    row = pmf_rows(trials, np.array([float(rate)])).pmf[0]

    for k, value in enumerate(row.tolist()):
        exact = comb(trials, k) * rate**k * (1 - rate) ** (trials - k)
        assert value == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_certain_rate_puts_all_mass_on_one_count_and_makes_no_nan(rate: float) -> None:
    row = pmf_rows(30, np.array([rate])).pmf[0]

    assert row[int(30 * rate)] == 1
    assert row.sum() == 1


@pytest.mark.parametrize("trials", [513, 2_000, 20_000])
def test_a_window_leaves_out_no_more_than_it_says(trials: int) -> None:
    rates = np.array([0.0, 1e-6, 0.001, 0.3, 0.5, 0.97, 1.0])

    rows = pmf_rows(trials, rates)

    assert rows.pmf.shape[1] < trials + 1
    assert (rows.first >= 0).all()
    assert (rows.first + rows.pmf.shape[1] <= trials + 1).all()
    assert rows.pmf.sum(axis=1) == pytest.approx(1, abs=SKIPPED_MASS + rounding(trials, trials))


def test_a_window_holds_the_same_probabilities_as_a_whole_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rates = np.array([0.001, 0.2, 0.5, 0.99])
    whole = pmf_rows(500, rates)
    monkeypatch.setattr(binomials, "WHOLE_ROW_TRIALS", 10)

    window = pmf_rows(500, rates)

    width = window.pmf.shape[1]
    assert width < 501
    for g, first in enumerate(window.first.tolist()):
        assert (window.pmf[g] == whole.pmf[g, first : first + width]).all()
        assert whole.pmf[g].sum() - window.pmf[g].sum() <= SKIPPED_MASS


def test_tails_fall_from_the_whole_mass_to_zero() -> None:
    tails = upper_tails(pmf_rows(25, np.array([0.0, 0.4, 1.0])))

    assert tails[:, 0] == pytest.approx(1)
    assert (tails[:, -1] == 0).all()
    assert (np.diff(tails, axis=1) <= 0).all()


def test_small_designs_leave_nothing_out() -> None:
    assert skipped_mass(512, 60) == 0
    assert skipped_mass(513, 60) == SKIPPED_MASS
    assert skipped_mass(20_000, 20_000) <= 1e-12
