"""The gates and figures of `binomial/1` as text with fixed digits.

Frozen with the policy: a change of meaning is a new version beside it.
"""

from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import ceil

from policies.binomial_v1_parameters import Parameters, decimal
from policies.binomial_v1_rules import (
    NO_DIFFERENCE,
    Facts,
    too_few_valid,
    too_many_unresolved,
)
from policies.model import Gate, Tally
from policies.stats.difference import chan_zhang
from policies.stats.missing import Arm, Reading, best_reading, complete_reading, worst_reading
from policies.stats.score import p_greater, p_less

_PLAIN = Decimal("0.001")  # p-values from here on are written without an exponent
_LEAST = 1e-12  # what a comparison of large arms may skip

_GUARD = Decimal("1e-9")
"""Relative. A p-value exactly on the printed lattice, such as 1/64, would else be rounded by the
last bit of a float, and the same records would give other bytes on another machine."""

_UP = Context(rounding=ROUND_CEILING)
_THREE_DIGITS = Context(prec=3, rounding=ROUND_CEILING)
_FIVE_PLACES = Decimal("0.00001")


def budget_gates(treatment: Tally, control: Tally, wanted: Parameters) -> tuple[Gate, ...]:
    """Return the gates of rule 1: the trials are there, and enough of them are resolved."""
    recorded = [tally.planned - tally.missing for tally in (treatment, control)]
    least = ceil(treatment.planned * (1 - wanted.max_unresolved))
    return (
        Gate(
            name="budget",
            title="recorded trials in each arm",
            declared=f"{treatment.planned} / {control.planned}",
            measured=f"{recorded[0]} / {recorded[1]}",
            holds=not (treatment.missing or control.missing),
        ),
        Gate(
            name="valid",
            title="valid trials in each arm",
            declared=f"≥ {least} of {treatment.planned}",
            measured=f"{treatment.valid} / {control.valid}",
            holds=not (too_few_valid(treatment, wanted) or too_few_valid(control, wanted)),
        ),
        Gate(
            name="control_resolved",
            title="unresolved share of the control",
            declared=f"≤ {decimal(wanted.max_unresolved)}",
            measured=f"{control.unresolved} of {control.valid + control.unresolved}",
            holds=not too_many_unresolved(control, wanted),
        ),
    )


def claim_gates(
    treatment: Arm, control: Arm, facts: Facts, figures: Mapping[str, str], wanted: Parameters
) -> tuple[Gate, ...]:
    """Return the gates of `REPRODUCTION_PINNED`."""
    alpha = decimal(wanted.alpha)
    one, other = worst_reading(treatment, control)
    counts = f"{one.matched}/{one.valid} against {other.matched}/{other.valid}"
    return (
        Gate(
            name="established",
            title="p of no higher rate under treatment",
            declared=f"≤ {alpha}",
            measured=figures["p_established"],
            holds=facts.established,
        ),
        Gate(
            name="established_worst",
            title="the same with every unresolved trial read against the claim",
            declared=f"≤ {alpha}",
            measured=f"{figures['p_established_worst']} ({counts})",
            holds=facts.established_worst,
        ),
        Gate(
            name="effect_not_excluded",
            title=f"p of a difference of {decimal(wanted.min_effect)} or more",
            declared=f"> {alpha}",
            measured=figures["p_excluded"],
            holds=not facts.excluded,
        ),
    )


def figures_of(treatment: Arm, control: Arm, wanted: Parameters) -> dict[str, str]:
    """Return the figures by name, in the order in which they are given.

    The limits are exact on their lattice of 1/1000, the difference is rounded exactly; p-values
    are rounded up to three or more digits, and decisions are never made on them.
    """
    complete = complete_reading(treatment, control)
    best = best_reading(treatment, control)
    limits = chan_zhang(*complete, alpha=wanted.alpha, margins=(wanted.min_effect,))
    difference = Fraction(*complete.treatment) - Fraction(*complete.control)
    return {
        "p_established": _p_established(complete),
        "p_established_worst": _p_established(worst_reading(treatment, control)),
        "p_excluded": _p_excluded(complete, wanted),
        "p_excluded_best": _p_excluded(best, wanted),
        "difference": _fixed(difference, 4),
        "difference_lower": _fixed(limits.lower, 3),
        "difference_upper": _fixed(limits.upper, 3),
        "difference_confidence": decimal(1 - wanted.alpha),
        "min_effect": decimal(wanted.min_effect),
    }


def _p_established(reading: Reading) -> str:
    return _p_text(p_greater(*reading, margin=NO_DIFFERENCE).lower)


def _p_excluded(reading: Reading, wanted: Parameters) -> str:
    return _p_text(p_less(*reading, margin=wanted.min_effect).lower)


def _p_text(value: float) -> str:
    """Return a p-value rounded up, so that one above a level is not shown as equal to it."""
    if value < _LEAST:
        return f"< {_LEAST:.0e}"
    guarded = _UP.multiply(Decimal(value), 1 - _GUARD)
    short = _THREE_DIGITS.plus(guarded)
    if short < _PLAIN:
        return f"{float(short):.2e}"
    return f"{guarded.quantize(_FIVE_PLACES, context=_UP):f}"


def _fixed(value: Fraction, places: int) -> str:
    """Return a number with so many digits after the point, rounded exactly; 0 has no sign."""
    scaled = round(value * 10**places)
    whole, part = divmod(abs(scaled), 10**places)
    return f"{'-' * (scaled < 0)}{whole}.{part:0{places}d}"
