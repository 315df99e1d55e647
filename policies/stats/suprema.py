"""Certified suprema of a region's probability over the nuisance rate.

On the line p1 = p0 + margin the probability f(p0) is bounded on [a, b] in two ways, and both
are proofs:
- monotone: the region grows with treatment matches and shrinks with control matches, so
  f <= P(region | p1 = b + margin, p0 = a) (Roehmel and Mansmann 1999);
- curved: f'' = E[1_R (S**2 + l'')] for the likelihood l and its score S. The bracket has mean 0
  and E S**2 = E(-l'') = I, so |f''| <= I = n1/(p1 q1) + n0/(p0 q0), which is convex in p0, and
  f <= max(f(a), f(b)) + max(I(a), I(b)) (b - a)**2 / 8.
Intervals whose bound does not settle the question are halved.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from policies.stats.binomials import (
    WHOLE_ROW_TRIALS,
    Floats,
    Ints,
    pmf_rows,
    rounding,
    skipped_mass,
    upper_tails,
)

_CHUNK_CELLS = 2**19  # cells evaluated at once: about 30 MB of temporaries
_MOST_ROUNDS = 48
_MOST_INTERVALS = 2**16  # open at once while a level is asked about
_MOST_SHOWN = 2**12  # the same for a p-value that is only shown
_FINE, _COARSE = 1e-10, 1e-5  # relative gap of a bracket, small designs and large ones


class Supremum(NamedTuple):
    """A bracket that holds the supremum, and the control rate where `lower` is reached."""

    lower: float
    upper: float
    at: float


@dataclass(frozen=True, eq=False)
class Surface:
    """The probability of a region as a function of the two rates."""

    boundary: Ints
    treatment_trials: int
    control_trials: int
    margin: float

    def probability(self, treatment_rates: Floats, control_rates: Floats) -> Floats:
        """Return P(X1 >= boundary[X0]), at most `skipped_mass` too small."""
        width = min(max(self.treatment_trials, self.control_trials), 3 * WHOLE_ROW_TRIALS)
        step = max(1, _CHUNK_CELLS // width)
        parts = [
            self._chunk(treatment_rates[i : i + step], control_rates[i : i + step])
            for i in range(0, len(control_rates), step)
        ]
        return np.concatenate(parts)

    def on_line(self, control_rates: Floats) -> Floats:
        """Return the probability where the treatment rate is `margin` above the control's."""
        return self.probability(self.shifted(control_rates), control_rates)

    def shifted(self, control_rates: Floats) -> Floats:
        """Return the treatment rates that belong to control rates on the line."""
        return np.clip(control_rates + self.margin, 0.0, 1.0)

    def information(self, control_rates: Floats) -> Floats:
        """Return the Fisher information along the line, infinite at its ends."""
        p1, p0 = self.shifted(control_rates), control_rates
        with np.errstate(divide="ignore"):
            return self.treatment_trials / (p1 * (1 - p1)) + self.control_trials / (p0 * (1 - p0))

    def _chunk(self, treatment_rates: Floats, control_rates: Floats) -> Floats:
        treatment = pmf_rows(self.treatment_trials, treatment_rates)
        tails = upper_tails(treatment)
        control = pmf_rows(self.control_trials, control_rates)
        if self.treatment_trials <= WHOLE_ROW_TRIALS and self.control_trials <= WHOLE_ROW_TRIALS:
            return _row_sums(control.pmf, tails[:, self.boundary])
        columns = control.first[:, None] + np.arange(control.pmf.shape[1])[None, :]
        place = self.boundary[columns] - treatment.first[:, None]
        heights = np.take_along_axis(tails, np.clip(place, 0, tails.shape[1] - 1), axis=1)
        return _row_sums(control.pmf, heights)


def _row_sums(left: Floats, right: Floats) -> Floats:
    """Return the inner product of each pair of rows."""
    sums: Floats = np.einsum("gj,gj->g", left, right)
    return sums


def surface_of(boundary: Ints, n1: int, n0: int, *, margin: Fraction) -> Surface:
    """Return the surface of a region at a margin strictly between -1 and 1."""
    return Surface(boundary=boundary, treatment_trials=n1, control_trials=n0, margin=float(margin))


def bracket(surface: Surface, *, level: float | None = None) -> Supremum:
    """Return a bracket of the supremum, as narrow as the question needs.

    With a `level`, the search ends as soon as the bracket lies on one side of it; a bracket that
    still holds the level is the narrowest that floating point can give. Without one, the
    bracket's width is about 1e-12 plus 1e-10 of its value. Above 512 trials an arm it is what
    some thousand intervals give: `lower` is still close to the supremum, `upper` is a proof.
    """
    n1, n0 = surface.treatment_trials, surface.control_trials
    error, missing = rounding(n1, n0), skipped_mass(n1, n0)
    # Twice the error, so that rounding the bound up again cannot carry it past the level.
    inner = None if level is None else (level - missing) * (1 - 2 * error)
    best, at, bound = _search(surface, inner)
    return Supremum(
        lower=max(0.0, best * (1 - error)),
        upper=min(1.0, max(best, bound) * (1 + error) + missing),
        at=at,
    )


def _search(surface: Surface, level: float | None) -> tuple[float, float, float]:
    """Return the best value found, where, and a bound on what was not searched."""
    edges = _grid(surface)
    line = surface.on_line(edges)
    best, at = _best(line, edges, 0.0, 0.0)
    if level is None:
        best, at = _climb(surface, edges, int(line.argmax()), best, at)
    a, b, fa, fb = edges[:-1], edges[1:], line[:-1], line[1:]
    settled = 0.0
    most = _MOST_SHOWN if level is None else _MOST_INTERVALS
    for round_ in range(_MOST_ROUNDS):
        goal = _goal(surface, best) if level is None else level
        bounds = _bounds(surface, a, b, np.maximum(fa, fb), goal)
        open_ = bounds > goal
        settled = max(settled, float(bounds[~open_].max(initial=0.0)))
        if not open_.any():
            return best, at, settled
        last = round_ == _MOST_ROUNDS - 1 or int(open_.sum()) > most
        if last or (level is not None and best > level * (1 + 1e-9)):
            return best, at, max(settled, float(bounds[open_].max()))
        a, b, fa, fb = a[open_], b[open_], fa[open_], fb[open_]
        middle = (a + b) / 2
        fm = surface.on_line(middle)
        best, at = _best(fm, middle, best, at)
        a, b = np.concatenate([a, middle]), np.concatenate([middle, b])
        fa, fb = np.concatenate([fa, fm]), np.concatenate([fm, fb])
    return best, at, settled


def _goal(surface: Surface, best: float) -> float:
    """Return the value above which an interval stays open when no level is asked about."""
    large = max(surface.treatment_trials, surface.control_trials) > WHOLE_ROW_TRIALS
    return best + 1e-12 + (_COARSE if large else _FINE) * best


def _bounds(surface: Surface, a: Floats, b: Floats, ends: Floats, goal: float) -> Floats:
    """Return the smaller of the two bounds; the monotone one only where it is needed."""
    curvature = np.maximum(surface.information(a), surface.information(b))
    width = b - a
    # An interval of one point has the value there; its information may be infinite.
    rise = np.multiply(curvature, width**2 / 8, out=np.zeros_like(width), where=width > 0)
    result = ends + rise
    wide = result > goal
    if wide.any():
        monotone = surface.probability(surface.shifted(b[wide]), a[wide])
        result[wide] = np.minimum(result[wide], monotone)
    return result


def _best(values: Floats, rates: Floats, best: float, at: float) -> tuple[float, float]:
    index = int(values.argmax())
    value = float(values[index])
    return (value, float(rates[index])) if value > best else (best, at)


def _climb(
    surface: Surface, edges: Floats, index: int, best: float, at: float
) -> tuple[float, float]:
    """Refine the maximum of the grid, so that the search starts from a high value."""
    low, high = edges[max(index - 1, 0)], edges[min(index + 1, len(edges) - 1)]
    for _ in range(8):
        inner = np.linspace(low, high, 17)
        values = surface.on_line(inner)
        best, at = _best(values, inner, best, at)
        top = int(values.argmax())
        low, high = inner[max(top - 1, 0)], inner[min(top + 1, 16)]
    return best, at


def _grid(surface: Surface) -> Floats:
    """Return control rates whose spacing follows the standard error, ends included."""
    low, high = max(0.0, -surface.margin), min(1.0, 1.0 - surface.margin)
    cells = 24 + 4 * int(np.sqrt(surface.treatment_trials + surface.control_trials))
    angles = np.linspace(0.0, np.pi / 2, cells + 1)
    return low + (high - low) * np.sin(angles) ** 2
