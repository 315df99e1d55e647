from fractions import Fraction
from math import comb

import numpy as np
import pytest

from policies.stats import binomials, suprema
from policies.stats.regions import Count, region
from policies.stats.score import rejects
from policies.stats.suprema import Surface, bracket, surface_of


def exact(surface: Surface, rate: Fraction, margin: Fraction) -> Fraction:
    """Return the probability of a region at one control rate, in rationals."""
    n1, n0 = surface.treatment_trials, surface.control_trials

    def pmf(n: int, k: int, p: Fraction) -> Fraction:
        return comb(n, k) * p**k * (1 - p) ** (n - k)

    return sum(
        (
            pmf(n0, j, rate) * sum(pmf(n1, i, rate + margin) for i in range(first, n1 + 1))
            for j, first in enumerate(surface.boundary.tolist())
        ),
        Fraction(0),
    )


@pytest.mark.parametrize("margin", [Fraction(0), Fraction(1, 10), Fraction(-1, 5)])
@pytest.mark.parametrize(("x1", "x0"), [(8, 1), (3, 0), (6, 6), (12, 0), (0, 9)])
def test_no_rate_exceeds_the_bracket_and_one_reaches_it(
    x1: int, x0: int, margin: Fraction
) -> None:
    boundary = region(Count(x1, 12), Count(x0, 9), margin=margin)
    surface = surface_of(boundary, 12, 9, margin=margin)

    found = bracket(surface)

    lowest, highest = max(Fraction(0), -margin), min(Fraction(1), 1 - margin)
    rates = [lowest + (highest - lowest) * Fraction(step, 200) for step in range(201)]
    assert all(exact(surface, rate, margin) <= found.upper for rate in rates)
    assert float(exact(surface, Fraction(found.at), margin)) >= found.lower * (1 - 1e-12)
    assert found.upper - found.lower <= 2e-12 + 2e-10 * found.lower


def test_the_curvature_bound_holds_everywhere_it_is_used() -> None:
    """The second derivative stays within the information, on the line and off margin 0."""
    for margin in (Fraction(0), Fraction(3, 20)):
        boundary = region(Count(7, 20), Count(2, 15), margin=margin)
        surface = surface_of(boundary, 20, 15, margin=margin)
        rates = np.linspace(0.02, 0.83, 800)
        step = 1e-4

        values = [surface.on_line(rates + shift) for shift in (-step, 0.0, step)]

        curvature = (values[0] - 2 * values[1] + values[2]) / step**2
        assert (np.abs(curvature) <= surface.information(rates) + 1e-3).all()


def test_a_level_outside_the_supremum_ends_the_search_on_the_right_side() -> None:
    surface = surface_of(
        region(Count(9, 40), Count(1, 40), margin=Fraction(0)), 40, 40, margin=Fraction(0)
    )
    full = bracket(surface)

    for factor in (0.2, 0.999, 1.001, 5.0):
        level = full.lower * factor
        found = bracket(surface, level=level)

        assert found.lower <= full.upper
        assert found.upper >= full.lower
        assert found.lower > level if factor < 1 else found.upper <= level


def test_windows_change_a_supremum_by_no_more_than_the_mass_they_skip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    boundary = region(Count(70, 300), Count(40, 250), margin=Fraction(0))
    surface = surface_of(boundary, 300, 250, margin=Fraction(0))
    whole = bracket(surface)
    monkeypatch.setattr(binomials, "WHOLE_ROW_TRIALS", 10)
    monkeypatch.setattr(suprema, "WHOLE_ROW_TRIALS", 10)

    windowed = bracket(surface)

    assert windowed.lower <= whole.upper
    assert windowed.upper >= whole.lower
    assert windowed.lower == pytest.approx(whole.lower, abs=2e-12, rel=2e-5)


def test_a_search_that_is_cut_short_still_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    boundary = region(Count(9, 40), Count(1, 40), margin=Fraction(0))
    surface = surface_of(boundary, 40, 40, margin=Fraction(0))
    full = bracket(surface)
    monkeypatch.setattr(suprema, "_MOST_ROUNDS", 2)

    short = bracket(surface)

    assert short.lower <= full.upper
    assert short.upper >= full.lower
    assert short.upper > full.upper


def test_an_interval_of_one_point_at_an_end_of_the_line_has_a_bound() -> None:
    """Warnings are errors here: the information at an end is infinite, the interval has no width."""
    assert not rejects(Count(60, 60), Count(0, 1), margin=Fraction(1, 2), alpha=Fraction(1, 4))
    assert rejects(Count(60, 60), Count(0, 1), margin=Fraction(1, 2), alpha=Fraction(1, 2))
