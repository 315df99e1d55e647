"""Exact limits for the rate of one condition."""

import math
from fractions import Fraction
from typing import NamedTuple

from scipy import special

_LOG_TIE = 1e-9  # logarithms this close are compared again as exact powers


class Interval(NamedTuple):
    """A closed interval for a rate."""

    lower: float
    upper: float


def clopper_pearson(matches: int, trials: int, *, confidence: Fraction) -> Interval:
    """Return the two-sided interval with equal tails (Clopper and Pearson 1934).

    Raises:
        ValueError: the arm is empty, the counts are impossible or the level is not in (0, 1).
    """
    tail = (1 - confidence) / 2
    return Interval(
        lower=lower_limit(matches, trials, alpha=tail),
        upper=upper_limit(matches, trials, alpha=tail),
    )


def lower_limit(matches: int, trials: int, *, alpha: Fraction) -> float:
    """Return the one-sided lower limit at 1 - alpha: the p with P(X >= matches) = alpha."""
    _check(matches, trials, alpha)
    if matches == 0:
        return 0.0
    return float(special.betaincinv(matches, trials - matches + 1, float(alpha)))


def upper_limit(matches: int, trials: int, *, alpha: Fraction) -> float:
    """Return the one-sided upper limit at 1 - alpha: the p with P(X <= matches) = alpha."""
    _check(matches, trials, alpha)
    if matches == trials:
        return 1.0
    if matches == 0:
        return zero_matches_bound(trials, alpha=alpha)
    return float(special.betainccinv(matches + 1, trials - matches, float(alpha)))


def zero_matches_bound(trials: int, *, alpha: Fraction) -> float:
    """Return the one-sided upper limit after no match: 1 - alpha**(1/trials)."""
    _check(0, trials, alpha)
    return -math.expm1(_log(alpha) / trials)


def clean_trials_needed(rate: Fraction, *, alpha: Fraction) -> int:
    """Return the smallest n with (1 - rate)**n <= alpha, decided exactly."""
    if not 0 < rate <= 1:
        message = f"a rate above 0 and at most 1 was expected, not {rate}"
        raise ValueError(message)
    _check(0, 1, alpha)
    if rate == 1:
        return 1
    trials = max(1, math.ceil(_log(alpha) / _log(1 - rate)) - 1)
    while not _power_at_most(1 - rate, trials, alpha):
        trials += 1
    return trials


def _power_at_most(base: Fraction, exponent: int, limit: Fraction) -> bool:
    """Tell whether base**exponent <= limit, exactly where logarithms cannot tell."""
    gap = exponent * _log(base) - _log(limit)
    scale = max(1.0, abs(_log(limit)))
    if abs(gap) > _LOG_TIE * scale:
        return gap < 0
    return bool(base**exponent <= limit)


def _log(value: Fraction) -> float:
    """Return the logarithm of a positive rational, precise near 1 too."""
    if Fraction(1, 2) < value < 1:
        return math.log1p(-float(1 - value))
    return math.log(value.numerator) - math.log(value.denominator)


def _check(matches: int, trials: int, alpha: Fraction) -> None:
    if trials < 1:
        message = "an arm without valid trials has no limits"
        raise ValueError(message)
    if not 0 <= matches <= trials:
        message = f"{matches} matches in {trials} trials are impossible"
        raise ValueError(message)
    if not 0 < alpha < 1:
        message = f"a level strictly between 0 and 1 was expected, not {alpha}"
        raise ValueError(message)
