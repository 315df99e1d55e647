"""The exact unconditional one-sided test of two rates, ordered by the score.

Ordering: Farrington and Manning (1990); at margin 0 it is the pooled Z of Suissa and Shuster
(1985). The p-value is the supremum of the region's probability over the nuisance rate, with a
certificate (`suprema`). D is the treatment rate minus the control rate.
"""

from fractions import Fraction
from functools import lru_cache
from math import comb

from policies.stats.polynomials import (
    Polynomial,
    is_nonnegative,
    powers,
    product,
    sign_at,
    total,
)
from policies.stats.regions import Count, check, region
from policies.stats.suprema import Supremum, bracket, surface_of

__all__ = ["Count", "Supremum", "p_greater", "p_less", "rejects", "rejects_less"]

_EXACT_TRIALS = 320
"""Up to this many trials in both arms an undecided comparison is decided by polynomials."""


def p_greater(treatment: Count, control: Count, *, margin: Fraction) -> Supremum:
    """Return the p-value for D > margin (null hypothesis: D <= margin) as a bracket.

    Raises:
        ValueError: an arm is empty or its counts are impossible.
    """
    if (sure := _trivial(treatment, control, margin)) is not None:
        return Supremum(lower=sure, upper=sure, at=0.0)
    boundary = region(treatment, control, margin=margin)
    if boundary[-1] == 0:
        return Supremum(lower=1.0, upper=1.0, at=0.0)
    return bracket(surface_of(boundary, treatment.valid, control.valid, margin=margin))


def p_less(treatment: Count, control: Count, *, margin: Fraction) -> Supremum:
    """Return the p-value for D < margin (null hypothesis: D >= margin); `at` is a p1."""
    return p_greater(control, treatment, margin=-margin)


@lru_cache(maxsize=2**14)
def rejects(treatment: Count, control: Count, *, margin: Fraction, alpha: Fraction) -> bool:
    """Tell whether the p-value for D > margin is at most alpha; equality counts.

    The bracket is tightened until alpha lies outside. What floating point cannot tell apart is
    decided by exact polynomials up to 320 trials in both arms together; in larger designs such
    a tie, within about 1e-9 of alpha, counts as not rejected.
    """
    if (sure := _trivial(treatment, control, margin)) is not None:
        return sure <= alpha
    boundary = region(treatment, control, margin=margin)
    if boundary[-1] == 0:
        return alpha >= 1
    surface = surface_of(boundary, treatment.valid, control.valid, margin=margin)
    found = bracket(surface, level=float(alpha))
    if Fraction(found.lower) > alpha:
        return False
    if Fraction(found.upper) <= alpha:
        return True
    if treatment.valid + control.valid > _EXACT_TRIALS:
        return False
    gap = _gap(boundary.tolist(), treatment.valid, control.valid, margin, alpha)
    return _never_negative(gap, margin, Fraction(found.at))


def rejects_less(treatment: Count, control: Count, *, margin: Fraction, alpha: Fraction) -> bool:
    """Tell whether the p-value for D < margin is at most alpha; equality counts."""
    return rejects(control, treatment, margin=-margin, alpha=alpha)


def _trivial(treatment: Count, control: Count, margin: Fraction) -> int | None:
    """Return a p-value that needs no search: at and beyond the ends of [-1, 1]."""
    for arm in (treatment, control):
        check(arm)
    if margin >= 1:
        return 1
    if margin < -1:
        return 0
    if margin == -1:
        lowest = treatment.matched == 0 and control.matched == control.valid
        return int(lowest)
    return None


def _never_negative(gap: Polynomial, margin: Fraction, near: Fraction) -> bool:
    """Tell whether alpha minus the probability is nowhere negative on the line."""
    lower, upper = max(Fraction(0), -margin), min(Fraction(1), 1 - margin)
    for size in (10**3, 10**9):
        guess = min(upper, max(lower, near.limit_denominator(size)))
        if sign_at(gap, guess) < 0:
            return False
    return is_nonnegative(gap, lower, upper)


def _gap(boundary: list[int], n1: int, n0: int, margin: Fraction, alpha: Fraction) -> Polynomial:
    """Return a positive multiple of alpha - P(region) as a polynomial in the control rate."""
    scale = margin.denominator
    tails = _tails(n1, margin)
    rates, rests = powers([0, 1], n0), powers([1, -1], n0)
    mass: Polynomial = []
    for j, first in enumerate(boundary):
        if first > n1:
            break
        column = product([comb(n0, j)], product(rates[j], rests[n0 - j]))
        mass = total(mass, product(column, tails[first]))
    target = [alpha.numerator * scale**n1]
    return total(target, [-alpha.denominator * c for c in mass])


def _tails(n1: int, margin: Fraction) -> list[Polynomial]:
    """Return scale**n1 * P(X1 >= k) for every k, polynomials in the control rate."""
    shift, scale = margin.numerator, margin.denominator
    rates, rests = powers([shift, scale], n1), powers([scale - shift, -scale], n1)
    tails: list[Polynomial] = [[]] * (n1 + 1)
    tail: Polynomial = []
    for i in range(n1, -1, -1):
        tail = total(tail, product([comb(n1, i)], product(rates[i], rests[n1 - i])))
        tails[i] = tail
    return tails
