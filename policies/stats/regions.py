"""Rejection regions of the two-arm score test: all tables at least as extreme as one table.

A region is its boundary `k`, one entry for each count of control matches: it holds the tables
(i, j) with i >= k[j]. It never shrinks as treatment matches are added or control matches are
taken away (Barnard convexity), so `k` never falls from one column to the next.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from policies.stats.binomials import Flags, Floats, Ints

TIE_TOLERANCE = 1e-10
"""Scores this close, relative to the larger of 1 and the observed one, are ties at a margin."""

_ZERO_VARIANCE = 1e-18
_ZERO_DISTANCE = 1e-14
_SURE = 1e9  # stands for an infinite score: the variance is zero and the distance is not


_POLISH = 1e-6  # a Newton step above this means that the slope is unusable

Numbers: TypeAlias = npt.NDArray[Any]
"""Integers of 64 bits where they suffice, else Python's own."""


class Count(NamedTuple):
    """The valid trials of one arm and how many of them matched."""

    matched: int
    valid: int


def region(treatment: Count, control: Count, *, margin: Fraction) -> Ints:
    """Return the boundary of the region of a table, ties included.

    Raises:
        ValueError: an arm is empty or its counts are impossible.
    """
    for arm in (treatment, control):
        check(arm)
    if margin == 0:
        boundary = _exact_boundary(treatment, control)
    else:
        boundary = _margin_boundary(treatment, control, float(margin))
    return np.minimum.accumulate(boundary[::-1])[::-1]


def check(arm: Count) -> None:
    """Refuse an empty arm and impossible counts."""
    if arm.valid < 1:
        message = "an arm without valid trials cannot be compared"
        raise ValueError(message)
    if not 0 <= arm.matched <= arm.valid:
        message = f"{arm.matched} matches in {arm.valid} trials are impossible"
        raise ValueError(message)


def _exact_boundary(treatment: Count, control: Count) -> Ints:
    """Return the boundary at margin 0, where scores are compared as integers.

    With s = i + j matches of N, Z**2 is a constant times (i*n0 - j*n1)**2 / (s * (N - s)); the
    two sides of a comparison are multiplied out. 0/0 is 0, because its distance is 0 too.
    """
    n1, n0 = treatment.valid, control.valid
    largest = (n1 * n0) ** 2 * (n1 + n0) ** 2
    dtype: npt.DTypeLike = np.int64 if largest < 2**62 else object
    columns = np.arange(n0 + 1).astype(dtype)

    def halves(i: Numbers, j: Numbers) -> tuple[Numbers, Numbers]:
        distance = i * n0 - j * n1
        spread = (i + j) * (n1 + n0 - i - j)
        return distance * abs(distance), np.maximum(spread, 1)

    observed = np.array([treatment.matched], dtype=dtype), np.array([control.matched], dtype=dtype)
    score, scale = halves(*observed)

    def belongs(rows: Ints) -> Flags:
        top, bottom = halves(rows.astype(dtype), columns)
        return np.asarray(top * scale >= score * bottom, dtype=np.bool_)

    return _first_true(n1, n0, belongs)


def _margin_boundary(treatment: Count, control: Count, margin: float) -> Ints:
    """Return the boundary at another margin, where near scores count as ties."""
    n1, n0 = treatment.valid, control.valid
    columns = np.arange(n0 + 1, dtype=np.float64)
    here = np.array([treatment.matched], dtype=np.float64)
    there = np.array([control.matched], dtype=np.float64)
    observed = float(scores(here, n1, there, n0, margin=margin)[0])
    threshold = observed - TIE_TOLERANCE * max(1.0, abs(observed))

    def belongs(rows: Ints) -> Flags:
        values = scores(rows.astype(np.float64), n1, columns, n0, margin=margin)
        return np.asarray(values >= threshold, dtype=np.bool_)

    return _first_true(n1, n0, belongs)


def _first_true(n1: int, n0: int, belongs: Callable[[Ints], Flags]) -> Ints:
    """Return the first row of each column that belongs, or n1 + 1, by bisection."""
    low = np.zeros(n0 + 1, dtype=np.int64)
    high = np.full(n0 + 1, n1 + 1, dtype=np.int64)
    for _ in range((n1 + 1).bit_length()):
        middle = (low + high) // 2
        member = belongs(np.minimum(middle, n1))
        undecided = low < high
        high = np.where(undecided & member, middle, high)
        low = np.where(undecided & ~member, middle + 1, low)
    return low


def scores(i: Floats, n1: int, j: Floats, n0: int, *, margin: float) -> Floats:
    """Return the Farrington-Manning scores of tables at a margin strictly between -1 and 1."""
    rest = constrained_control_rate(i, n1, j, n0, margin=margin)
    treated = rest + margin
    variance = treated * (1 - treated) / n1 + rest * (1 - rest) / n0
    distance = i / n1 - j / n0 - margin
    distance = np.where(np.abs(distance) < _ZERO_DISTANCE, 0.0, distance)
    certain = variance <= _ZERO_VARIANCE
    ordinary = distance / np.sqrt(np.where(certain, 1.0, variance))
    return np.where(certain, np.sign(distance) * _SURE, ordinary)


def constrained_control_rate(i: Floats, n1: int, j: Floats, n0: int, *, margin: float) -> Floats:
    """Return the most likely control rate when the treatment rate lies `margin` above it.

    Closed form of Farrington and Manning (1990), appendix; one Newton step on the likelihood
    equation takes away what the trigonometric form loses near a double root.
    """
    theta = n0 / n1
    p1, p0 = i / n1, j / n0
    a = 1 + theta
    b = -(1 + theta + p1 + theta * p0 + margin * (theta + 2))
    c = margin**2 + margin * (2 * p1 + theta + 1) + p1 + theta * p0
    d = -p1 * margin * (1 + margin)
    v = (b / (3 * a)) ** 3 - b * c / (6 * a**2) + d / (2 * a)
    u = np.sqrt(np.maximum((b / (3 * a)) ** 2 - c / (3 * a), 0.0))
    u = np.where(v < 0, -u, u)
    cube = np.where(u == 0, 1.0, u**3)
    w = (np.pi + np.arccos(np.clip(v / cube, -1.0, 1.0))) / 3
    root = 2 * u * np.cos(w) - b / (3 * a)
    slope = (3 * a * root + 2 * b) * root + c
    step = (((a * root + b) * root + c) * root + d) / np.where(slope == 0, 1.0, slope)
    polished = np.where(np.abs(step) < _POLISH, root - step, root)
    return np.clip(polished - margin, max(0.0, -margin), min(1.0, 1.0 - margin))
