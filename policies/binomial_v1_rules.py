"""The rules of `binomial/1`: four exact facts, and the class that follows from them.

Frozen with the policy: a change of meaning is a new version beside it.
"""

from fractions import Fraction
from typing import NamedTuple

from policies.binomial_v1_parameters import Parameters
from policies.model import Status, Tally, VerdictReason
from policies.stats.missing import Arm, Reading, best_reading, complete_reading, worst_reading
from policies.stats.score import rejects, rejects_less

NO_DIFFERENCE = Fraction(0)
"""The margin at which a difference is established."""


class Facts(NamedTuple):
    """What the rules ask about one contrast, in the order of DESIGN section 8."""

    established: bool
    """E: the treatment rate is higher."""
    excluded: bool
    """X: a difference of `min_effect` is excluded."""
    established_worst: bool
    """Ew: E at the worst reading of the unresolved trials."""
    excluded_best: bool
    """Xb: X at their best reading."""


class Classified(NamedTuple):
    """A class with its reasons in rule order."""

    status: Status
    reasons: tuple[VerdictReason, ...] = ()


def read(
    treatment: Tally, control: Tally, wanted: Parameters, *, flags: tuple[VerdictReason, ...]
) -> Classified:
    """Return the class of a contrast by all rules in their order."""
    if reasons := unread(treatment, control, wanted):
        return Classified(Status.UNRESOLVED, reasons)
    one, other = arm_of(treatment), arm_of(control)
    return classify(one, other, facts_of(one, other, wanted), flags)


def arm_of(tally: Tally) -> Arm:
    """Return the counts of a tally as the exact tests take them."""
    return Arm(matched=tally.matched, valid=tally.valid, unresolved=tally.unresolved)


def classify(
    treatment: Arm, control: Arm, facts: Facts, flags: tuple[VerdictReason, ...]
) -> Classified:
    """Return the class of a contrast whose trials are all there, by rules 2 to 6."""
    firm = facts.established_worst and not flags
    if facts.established and not facts.excluded:
        if firm:
            return Classified(Status.REPRODUCTION_PINNED)
        fragile = () if facts.established_worst else (VerdictReason.FRAGILE,)
        return Classified(Status.PARTIAL, (*fragile, *flags))
    if facts.established:
        reason = VerdictReason.SMALL_EFFECT if firm and facts.excluded_best else VerdictReason.HINT
        return Classified(Status.WEAK_SIGNAL, (reason,))
    if control.matched == 0:
        if treatment.matched > 0:
            return Classified(Status.WEAK_SIGNAL, (VerdictReason.HINT,))
        if facts.excluded and facts.excluded_best:
            return Classified(Status.NOT_REPRODUCED)
    if control.matched > 0 and facts.excluded:
        return Classified(Status.UNRESOLVED, (VerdictReason.SYMPTOM_IN_CONTROL,))
    return Classified(Status.UNRESOLVED, (VerdictReason.INCONCLUSIVE,))


def unread(treatment: Tally, control: Tally, wanted: Parameters) -> tuple[VerdictReason, ...]:
    """Return why rule 1 leaves a contrast unresolved; nothing where it does not."""
    if treatment.missing or control.missing:
        return (VerdictReason.BUDGET,)
    reasons = []
    if too_few_valid(treatment, wanted) or too_few_valid(control, wanted):
        reasons.append(VerdictReason.TOO_FEW_VALID)
    if too_many_unresolved(control, wanted):
        reasons.append(VerdictReason.CONTROL_UNRESOLVED)
    if too_many_unresolved(treatment, wanted):
        reasons.append(VerdictReason.TREATMENT_UNRESOLVED)
    return tuple(reasons)


def too_few_valid(tally: Tally, wanted: Parameters) -> bool:
    """Tell whether v < n (1 - max_unresolved)."""
    return tally.valid < tally.planned * (1 - wanted.max_unresolved)


def too_many_unresolved(tally: Tally, wanted: Parameters) -> bool:
    """Tell whether u / (v + u) > max_unresolved."""
    return tally.unresolved > (tally.valid + tally.unresolved) * wanted.max_unresolved


def facts_of(treatment: Arm, control: Arm, wanted: Parameters) -> Facts:
    """Return E, X, Ew and Xb, decided exactly."""
    complete = complete_reading(treatment, control)
    return Facts(
        established=_established(complete, wanted),
        excluded=_excluded(complete, wanted),
        established_worst=_established(worst_reading(treatment, control), wanted),
        excluded_best=_excluded(best_reading(treatment, control), wanted),
    )


def _established(reading: Reading, wanted: Parameters) -> bool:
    return rejects(*reading, margin=NO_DIFFERENCE, alpha=wanted.alpha)


def _excluded(reading: Reading, wanted: Parameters) -> bool:
    return rejects_less(*reading, margin=wanted.min_effect, alpha=wanted.alpha)
