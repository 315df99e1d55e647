"""What a planned comparison can establish: frontiers, power and the trials that are needed.

E is "a difference above 0 is established", X "an effect of `min_effect` is excluded". For a
given count of control matches, E holds from some count of treatment matches on and X up to
some count, so that two frontiers describe all tables of a design.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from policies.stats.binomials import Floats, pmf_rows
from policies.stats.regions import Count, scores
from policies.stats.score import rejects, rejects_less

MOST_TRIALS = 20_000
"""Trials a condition above which no plan is made."""

_NEGLIGIBLE = 1e-13  # columns less likely than this are left out of a power
_LOOK_BACK = 8  # power rises in a saw-tooth; its teeth are narrower than this


class Design(NamedTuple):
    """Both arms of a comparison with fixed numbers of valid and unresolved trials."""

    treatment_valid: int
    control_valid: int
    treatment_unresolved: int
    control_unresolved: int
    alpha: Fraction
    min_effect: Fraction


class Classes(NamedTuple):
    """Probabilities of the classes of `binomial/1`, and of E by itself."""

    pinned: float
    partial: float
    weak_signal: float
    not_reproduced: float
    unresolved: float
    established: float


@lru_cache(maxsize=2**16)
def first_established(
    treatment_valid: int, control_valid: int, control_matched: int, alpha: Fraction
) -> int:
    """Return the smallest number of treatment matches with E, or one more than there are."""
    control = Count(matched=control_matched, valid=control_valid)

    def holds(matched: int) -> bool:
        treatment = Count(matched=matched, valid=treatment_valid)
        return rejects(treatment, control, margin=Fraction(0), alpha=alpha)

    guess = _below(treatment_valid, control, Fraction(0), float(special.ndtri(1 - float(alpha))))
    return _first(holds, guess, treatment_valid + 1)


@lru_cache(maxsize=2**16)
def last_excluded(
    treatment_valid: int,
    control_valid: int,
    control_matched: int,
    alpha: Fraction,
    min_effect: Fraction,
) -> int:
    """Return the largest number of treatment matches with X, or -1."""
    control = Count(matched=control_matched, valid=control_valid)

    def fails(matched: int) -> bool:
        treatment = Count(matched=matched, valid=treatment_valid)
        return not rejects_less(treatment, control, margin=min_effect, alpha=alpha)

    guess = _below(treatment_valid, control, min_effect, float(special.ndtri(float(alpha))))
    return _first(fails, guess, treatment_valid + 1) - 1


def established_frontier(
    treatment_valid: int, control_valid: int, *, alpha: Fraction
) -> tuple[int, ...]:
    """Return `first_established` for every number of control matches."""
    columns = range(control_valid + 1)
    return tuple(first_established(treatment_valid, control_valid, j, alpha) for j in columns)


def excluded_frontier(
    treatment_valid: int, control_valid: int, *, alpha: Fraction, min_effect: Fraction
) -> tuple[int, ...]:
    """Return `last_excluded` for every number of control matches."""
    columns = range(control_valid + 1)
    return tuple(
        last_excluded(treatment_valid, control_valid, j, alpha, min_effect) for j in columns
    )


def classes(design: Design, treatment_rate: Fraction, control_rate: Fraction) -> Classes:
    """Return the probabilities of the classes when the rates are as given.

    The numbers of unresolved trials are fixed and say nothing about the outcomes behind them.
    Each probability is exact but for columns of total mass below 1e-13 times their number.
    """
    treated = _pmf(design.treatment_valid, treatment_rate)
    control = _pmf(design.control_valid, control_rate)
    sums = np.zeros(len(Classes._fields))
    for j in np.flatnonzero(control >= _NEGLIGIBLE).tolist():
        sums += control[j] * _column(design, j) @ treated
    return Classes(*(min(1.0, value) for value in sums.tolist()))


def _column(design: Design, j: int) -> Floats:
    """Return one row for each field of `Classes`: which treatment counts give it."""
    v1, v0, u1, u0, alpha, effect = design
    i = np.arange(v1 + 1)
    e = i >= first_established(v1, v0, j, alpha)
    x = i <= last_excluded(v1, v0, j, alpha, effect)
    if u1 == u0 == 0:
        ew, xb = e, x
    else:
        ew = i >= first_established(v1 + u1, v0 + u0, j + u0, alpha)
        xb = i + u1 <= last_excluded(v1 + u1, v0 + u0, j, alpha, effect)
    pinned, partial, both = e & ~x & ew, e & ~x & ~ew, e & x
    nothing = ~e & x & xb & (i == 0) & (j == 0)
    hint = ~e & (i > 0) & (j == 0)
    rest = ~(pinned | partial | both | nothing | hint)
    return np.array([pinned, partial, both | hint, nothing, rest, e], dtype=np.float64)


def established_power(
    trials: int, treatment_rate: Fraction, control_rate: Fraction, *, alpha: Fraction
) -> float:
    """Return P(E) with that many valid trials in each arm."""
    treated = _pmf(trials, treatment_rate)
    reached = np.append(np.cumsum(treated[::-1])[::-1], 0.0)
    control = _pmf(trials, control_rate)
    return sum(
        float(control[j] * reached[first_established(trials, trials, j, alpha)])
        for j in np.flatnonzero(control >= _NEGLIGIBLE).tolist()
    )


def trials_needed(
    treatment_rate: Fraction, control_rate: Fraction, *, alpha: Fraction, power: Fraction
) -> int | None:
    """Return the first number of trials an arm with P(E) >= power; `None` above 20,000.

    Power rises in a saw-tooth. With a control that never matches every number is looked at;
    otherwise the first one is sought by bisection and a look back over eight smaller numbers.
    """
    goal = float(power)
    if control_rate == 0:
        reaching = (
            n for n in range(1, MOST_TRIALS + 1) if _reaches(n, treatment_rate, alpha, goal)
        )
        return next(reaching, None)

    def reaches(trials: int) -> bool:
        return established_power(trials, treatment_rate, control_rate, alpha=alpha) >= goal

    return first_reaching(reaches)


def first_reaching(reaches: Callable[[int], bool]) -> int | None:
    """Return the first number of trials that reaches a power, by bisection and a look back."""
    low, high = 0, 4
    while not reaches(high):
        if high == MOST_TRIALS:
            return None
        low, high = high, min(2 * high, MOST_TRIALS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    while earlier := [n for n in range(max(1, high - _LOOK_BACK), high) if reaches(n)]:
        high = earlier[0]
    return high


def clean_after_needed(before: Count, *, alpha: Fraction) -> int | None:
    """Return the first number of clean trials after a fix that shows a lower rate than before.

    `None` above 20,000, and where nothing matched before.
    """
    if before.matched == 0:
        return None
    for trials in range(1, MOST_TRIALS + 1):
        after = Count(matched=0, valid=trials)
        if rejects(before, after, margin=Fraction(0), alpha=alpha):
            return trials
    return None


def _reaches(trials: int, rate: Fraction, alpha: Fraction, goal: float) -> bool:
    """Tell whether P(E) >= goal when the control never matches.

    E starts at some count e, and P(X1 >= e) >= goal exactly if e is at most the largest count
    whose tail still reaches the goal: one comparison instead of a search for e.
    """
    tails = np.cumsum(_pmf(trials, rate)[::-1])[::-1]
    largest = int(np.flatnonzero(tails >= goal - _NEGLIGIBLE).max(initial=0))
    treatment, control = Count(largest, trials), Count(0, trials)
    return largest > 0 and rejects(treatment, control, margin=Fraction(0), alpha=alpha)


def _pmf(trials: int, rate: Fraction) -> Floats:
    """Return the probabilities of every count; a window is padded with zeros."""
    rows = pmf_rows(trials, np.array([float(rate)]))
    result = np.zeros(trials + 1)
    start = int(rows.first[0])
    result[start : start + rows.pmf.shape[1]] = rows.pmf[0]
    return result


def _below(treatment_valid: int, control: Count, margin: Fraction, quantile: float) -> int:
    """Return how many treatment counts have a score below a normal quantile: a first guess."""
    counts = np.arange(treatment_valid + 1, dtype=np.float64)
    matched = np.full_like(counts, control.matched)
    values = scores(counts, treatment_valid, matched, control.valid, margin=float(margin))
    return int(np.count_nonzero(values < quantile))


def _first(holds: Callable[[int], bool], guess: int, end: int) -> int:
    """Return the first value from 0 that holds, or `end`, galloping away from a guess."""
    low, high, reach = -1, end, 1
    probe = min(guess, end - 1)
    while low < probe < high:
        if holds(probe):
            high, probe = probe, probe - reach
        else:
            low, probe = probe, probe + reach
        reach *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
