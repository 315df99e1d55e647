"""Readings of the unresolved trials: what they could do to a comparison.

With the totals fixed, the p-value falls with each treatment match and rises with each control
match, so the worst and the best of all readings are single corners (Manski bounds).
"""

from fractions import Fraction
from typing import NamedTuple

from policies.stats.regions import Count
from policies.stats.score import rejects


class Arm(NamedTuple):
    """The trials of one arm."""

    matched: int
    valid: int
    unresolved: int

    @property
    def resolved(self) -> Count:
        """The valid trials alone."""
        return Count(matched=self.matched, valid=self.valid)

    def read(self, matches: int) -> Count:
        """Return all trials, with that many of the unresolved ones read as matched."""
        return Count(matched=self.matched + matches, valid=self.valid + self.unresolved)


class Reading(NamedTuple):
    """Both arms as a comparison sees them."""

    treatment: Count
    control: Count


def complete_reading(treatment: Arm, control: Arm) -> Reading:
    """Return the reading that leaves the unresolved trials out."""
    return Reading(treatment=treatment.resolved, control=control.resolved)


def worst_reading(treatment: Arm, control: Arm) -> Reading:
    """Return the reading least in favour of a difference: treatment clean, control matched."""
    return Reading(treatment=treatment.read(0), control=control.read(control.unresolved))


def best_reading(treatment: Arm, control: Arm) -> Reading:
    """Return the reading most in favour of a difference: treatment matched, control clean."""
    return Reading(treatment=treatment.read(treatment.unresolved), control=control.read(0))


def tipping(treatment: Arm, control: Arm, *, margin: Fraction, alpha: Fraction) -> int | None:
    """Return how many unresolved control trials would have to be matches to undo a rejection.

    The smallest b for which D > margin is not established at (m1 of v1 + u1; m0 + b of
    v0 + u0). 0 means fragile to the unresolved treatment trials alone, `None` robust.

    Raises:
        ValueError: an arm is empty.
    """

    def holds(matches: int) -> bool:
        return rejects(treatment.read(0), control.read(matches), margin=margin, alpha=alpha)

    if holds(control.unresolved):
        return None
    low, high = -1, control.unresolved
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high


def rate_bounds(arm: Arm) -> tuple[Fraction, Fraction]:
    """Return the rates of an arm under the two extreme readings, exactly."""
    least, most = arm.read(0), arm.read(arm.unresolved)
    return Fraction(least.matched, least.valid), Fraction(most.matched, most.valid)
