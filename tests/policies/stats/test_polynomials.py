from fractions import Fraction

import pytest

from policies.stats.polynomials import (
    Polynomial,
    is_nonnegative,
    powers,
    product,
    sign_at,
    total,
)

UNIT = Fraction(0), Fraction(1)


def from_roots(*roots: Fraction, sign: int = 1) -> Polynomial:
    result = [sign]
    for root in roots:
        result = product(result, [-root.numerator, root.denominator])
    return result


@pytest.mark.parametrize(
    ("polynomial", "expected"),
    [
        ([], True),
        ([0, 0], True),
        ([3], True),
        ([-3], False),
        (from_roots(Fraction(1, 3), Fraction(1, 3)), True),
        (from_roots(Fraction(1, 3), Fraction(1, 3), sign=-1), False),
        (from_roots(Fraction(1, 3)), False),
        (from_roots(Fraction(1, 3), Fraction(1, 3), Fraction(1, 3)), False),
        (from_roots(Fraction(0), Fraction(1), sign=-1), True),
        (from_roots(Fraction(0), Fraction(1)), False),
        (from_roots(Fraction(0)), True),
        (from_roots(Fraction(1)), False),
        (from_roots(Fraction(2), sign=-1), True),
        (from_roots(*[Fraction(1, 2)] * 4, *[Fraction(2, 5)] * 2), True),
        (from_roots(*[Fraction(1, 2)] * 4, *[Fraction(2, 5)] * 3), False),
    ],
)
def test_the_sign_on_the_unit_interval_is_decided_exactly(
    polynomial: Polynomial, *, expected: bool
) -> None:
    assert is_nonnegative(polynomial, *UNIT) is expected


def test_a_minimum_of_zero_at_an_irrational_point_is_no_sign_change() -> None:
    touching = product([-1, 0, 2], [-1, 0, 2])  # (2 t^2 - 1)^2, zero at 1/sqrt(2)
    just_below = total([-1], product([10**30], touching))

    assert is_nonnegative(touching, *UNIT)
    assert not is_nonnegative(just_below, *UNIT)


def test_roots_outside_the_interval_do_not_count() -> None:
    polynomial = from_roots(Fraction(1, 4), Fraction(3, 4))

    assert is_nonnegative(polynomial, Fraction(3, 4), Fraction(1))
    assert not is_nonnegative(polynomial, Fraction(1, 4), Fraction(3, 4))


def test_powers_and_signs_are_exact() -> None:
    assert powers([1, 1], 3) == [[1], [1, 1], [1, 2, 1], [1, 3, 3, 1]]
    assert sign_at([-1, 3], Fraction(1, 3)) == 0
    assert sign_at([-1, 3], Fraction(1, 3) + Fraction(1, 10**40)) == 1
