"""Exact limits for the difference of two rates, by inverting the score test.

Chan and Zhang (1999), on the lattice k/1000 and rounded outward: the lower limit is the largest
lattice value d such that p(d') <= alpha for every lattice d' <= d. The upper limit is the
lower limit of the swapped arms, with its sign turned.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import count
from math import ceil
from typing import NamedTuple

import numpy as np
from scipy import special

from policies.stats.regions import Count, check, scores
from policies.stats.score import rejects

LATTICE = 1000
"""Limits are multiples of 1/1000."""

_STRIDE = 8
_DEEP = 4
"""Neighbours are searched one by one until p falls below alpha / 4."""

_COARSE_POINTS = 16


class Limits(NamedTuple):
    """Limits of a difference, exact multiples of 1/1000."""

    lower: Fraction
    upper: Fraction


def chan_zhang(
    treatment: Count, control: Count, *, alpha: Fraction, margins: tuple[Fraction, ...] = ()
) -> Limits:
    """Return one-sided limits at 1 - alpha each for treatment rate minus control rate.

    The p-value is not quite monotone in the margin (Roehmel 2005), so after the bisection the
    values below a limit are inspected too: each neighbour until p is far below alpha, coarser
    points beyond, margin 0 and the given `margins`. A lower limit of 0 or more therefore
    implies that margin 0 is rejected, and an upper limit at or below one of the `margins` that
    a difference of that size is.

    Raises:
        ValueError: an arm is empty or the level is not in (0, 1/2].
    """
    for arm in (treatment, control):
        check(arm)
    if not 0 < alpha <= Fraction(1, 2):
        message = f"a level above 0 and at most 1/2 was expected, not {alpha}"
        raise ValueError(message)
    points = (Fraction(0), *margins)
    lower = _lower(treatment, control, alpha, points)
    upper = -_lower(control, treatment, alpha, tuple(-point for point in points))
    return Limits(lower=Fraction(lower, LATTICE), upper=Fraction(upper, LATTICE))


def _lower(treatment: Count, control: Count, alpha: Fraction, points: tuple[Fraction, ...]) -> int:
    """Return the lower limit in units of the lattice; -1 is a limit that needs no evidence."""

    @cache
    def holds(step: int) -> bool:
        margin = Fraction(step, LATTICE)
        return step <= -LATTICE or rejects(treatment, control, margin=margin, alpha=alpha)

    def deep(step: int) -> bool:
        margin = Fraction(step, LATTICE)
        return rejects(treatment, control, margin=margin, alpha=alpha / _DEEP)

    low, high = _start(treatment, control, alpha, holds)
    while True:
        limit = _bisect(holds, low, high)
        inspected = [*_neighbours(limit, deep), *_distant(limit, points)]
        violations = [step for step in inspected if not holds(step)]
        if not violations:
            return limit
        high = min(violations)
        low = max((step for step in inspected if step < high and holds(step)), default=-LATTICE)


def _start(
    treatment: Count, control: Count, alpha: Fraction, holds: Callable[[int], bool]
) -> tuple[int, int]:
    """Return a value that holds and one that does not, close around the asymptotic limit."""
    low = high = _asymptotic(treatment, control, alpha)
    for reach in (4 * 2**doubling for doubling in count()):
        if holds(low):
            break
        low = max(-LATTICE, low - reach)
    for reach in (4 * 2**doubling for doubling in count()):
        if not holds(high):
            break
        high = min(LATTICE, high + reach)
    return low, high


def _asymptotic(treatment: Count, control: Count, alpha: Fraction) -> int:
    """Return the lattice value where the score meets the normal quantile, roughly."""
    quantile = float(special.ndtri(1 - float(alpha)))
    here, there = (np.array([float(arm.matched)]) for arm in (treatment, control))
    estimate = Fraction(treatment.matched, treatment.valid) - Fraction(
        control.matched, control.valid
    )

    def beyond(step: int) -> bool:
        margin = step / LATTICE
        value = scores(here, treatment.valid, there, control.valid, margin=margin)
        return float(value[0]) >= quantile

    low, high = 1 - LATTICE, min(LATTICE - 1, ceil(estimate * LATTICE))
    return _bisect(beyond, low, max(low, high))


def _bisect(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return a value that holds right below one that does not, between the two given."""
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def _neighbours(limit: int, deep: Callable[[int], bool]) -> Iterator[int]:
    """Yield the values below a limit one by one until their p is far below alpha."""
    for step in range(limit - 1, -LATTICE, -1):
        yield step
        if (limit - step) % _STRIDE == 0 and deep(step):
            return


def _distant(limit: int, points: tuple[Fraction, ...]) -> Iterator[int]:
    """Yield ever coarser values down to -1, and those of the points that lie below a limit."""
    span = limit + LATTICE
    for index in range(1, _COARSE_POINTS):
        step = limit - round(span * (index / _COARSE_POINTS) ** 2)
        if -LATTICE < step < limit:
            yield step
    for point in points:
        if (point * LATTICE).denominator == 1 and -LATTICE < point * LATTICE <= limit:
            yield int(point * LATTICE)
