from fractions import Fraction

import pytest

from matrices import Role
from policies import Tally, assembling
from policies.stats.rates import Interval

CONFIDENCE = Fraction(9, 10)


def tally(matched: int, clean: int) -> Tally:
    return Tally(
        condition=0,
        role=Role.TREATMENT,
        planned=matched + clean,
        matched=matched,
        clean=clean,
        unresolved=0,
        missing=0,
    )


def test_limits_on_the_lattice_are_printed_as_they_are() -> None:
    assert assembling.rate_figure(tally(1, 0), CONFIDENCE).lower == "0.0500"
    assert assembling.rate_figure(tally(0, 1), CONFIDENCE).upper == "0.9500"


@pytest.mark.parametrize("limit", [0.05, 0.3, 0.0007, 0.5813, 0.95])
@pytest.mark.parametrize("noise", [-1e-15, 0.0, 1e-15])
def test_the_last_bit_of_a_limit_does_not_move_it(
    monkeypatch: pytest.MonkeyPatch, limit: float, noise: float
) -> None:
    one = Interval(limit + noise, limit + noise)
    monkeypatch.setattr(assembling, "clopper_pearson", lambda *_args, **_named: one)

    found = assembling.rate_figure(tally(3, 7), CONFIDENCE)

    assert (found.lower, found.upper) == (f"{limit:.4f}", f"{limit:.4f}")


def test_limits_between_two_digits_are_rounded_outward() -> None:
    found = assembling.rate_figure(tally(3, 7), CONFIDENCE)

    assert (found.lower, found.upper) == ("0.0872", "0.6067")
