"""Binomial probabilities over many rates at once, stable far into the tails."""

import math
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

WHOLE_ROW_TRIALS = 512
"""Up to this many trials a row holds every count; above it, a window (memory and time)."""

SKIPPED_MASS = 5e-13
"""Probability that a window may leave out; two arms leave out at most 1e-12 together."""

_LOG_SKIPPED = math.log(2 / SKIPPED_MASS)
_LOG_OF_ZERO = -1e300  # finite, so that 0 * log(0) is 0 and not NaN


class Rows(NamedTuple):
    """Probabilities of the counts `first[g] + c`, one row for each rate."""

    first: Ints
    pmf: Floats


@lru_cache(maxsize=256)
def log_choose(trials: int) -> Floats:
    """Return log C(trials, k) for every k, read-only."""
    counts = np.arange(trials + 1, dtype=np.float64)
    table = (
        special.gammaln(trials + 1.0)
        - special.gammaln(counts + 1.0)
        - special.gammaln(trials - counts + 1.0)
    )
    result = np.asarray(table, dtype=np.float64)
    result.setflags(write=False)
    return result


def pmf_rows(trials: int, rates: Floats) -> Rows:
    """Return the binomial probabilities of every rate, or of the window that carries them.

    A window leaves out at most `SKIPPED_MASS`, by Bernstein's inequality
    P(|X - np| >= t) <= 2 exp(-t^2 / (2 (npq + t/3))), solved for t.
    """
    if trials <= WHOLE_ROW_TRIALS:
        first = np.zeros(len(rates), dtype=np.int64)
        counts = np.arange(trials + 1)[None, :]
    else:
        first, width = _windows(trials, rates)
        counts = first[:, None] + np.arange(width)[None, :]
    with np.errstate(divide="ignore"):
        log_rate = np.maximum(np.log(rates), _LOG_OF_ZERO)[:, None]
        log_rest = np.maximum(np.log1p(-rates), _LOG_OF_ZERO)[:, None]
    exponent = log_choose(trials)[counts] + counts * log_rate + (trials - counts) * log_rest
    return Rows(first=first, pmf=np.exp(exponent))


def _windows(trials: int, rates: Floats) -> tuple[Ints, int]:
    """Return the first count of each window and their common width."""
    variance = trials * rates * (1 - rates)
    third = _LOG_SKIPPED / 3
    reach = np.ceil(third + np.sqrt(third * third + 2 * _LOG_SKIPPED * variance))
    width = min(trials + 1, int(2 * reach.max()) + 3)
    first = np.floor(trials * rates - reach).astype(np.int64)
    return np.clip(first, 0, trials + 1 - width), width


def upper_tails(rows: Rows) -> Floats:
    """Return P(first + c <= X <= last of the window) for every c, and a closing column of 0."""
    tails = np.zeros((rows.pmf.shape[0], rows.pmf.shape[1] + 1))
    tails[:, :-1] = np.cumsum(rows.pmf[:, ::-1], axis=1)[:, ::-1]
    return np.minimum(tails, 1.0)


def skipped_mass(treatment_trials: int, control_trials: int) -> float:
    """Return the most that the windows of two arms can leave out of a probability."""
    arms = (treatment_trials, control_trials)
    return SKIPPED_MASS * sum(trials > WHOLE_ROW_TRIALS for trials in arms)


def rounding(treatment_trials: int, control_trials: int) -> float:
    """Return a bound on the relative rounding error of a two-arm probability.

    The logarithms reach the size of log n!, and each of their few operations errs by half a
    unit in the last place of that size; the sums add n more units.
    """
    trials = treatment_trials + control_trials
    size = math.lgamma(treatment_trials + 1) + math.lgamma(control_trials + 1) + trials
    return 4 * float(np.finfo(np.float64).eps) * (size + 16)
