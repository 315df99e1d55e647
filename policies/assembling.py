"""Puts a verdict together from how its contrasts read: headline, rates, reasons.

What every policy shares stands here: a conflict in the ledger blocks every claim, an unsealed
look is said, and the headline is the most positive contrast.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor

from matrices import ExitCodeSymptom, Plan, PolicyRef
from policies.evidence import Evidence
from policies.model import (
    HEADLINE_ORDER,
    ContrastVerdict,
    RateFigure,
    Status,
    Tally,
    Verdict,
    VerdictReason,
)
from policies.stats.rates import clopper_pearson

RATE_CONFIDENCE = Fraction(9, 10)
"""Two-sided confidence of printed rates where a policy declares none: each limit holds at 95 %."""


def assemble(
    plan: Plan,
    evidence: Evidence,
    counted: tuple[Tally, ...],
    contrasts: Sequence[ContrastVerdict],
    *,
    name: str,
    parameters: PolicyRef | None = None,
    confidence: Fraction = RATE_CONFIDENCE,
    caveats: tuple[str, ...] = (),
) -> Verdict:
    """The verdict over all contrasts, final once no planned trial is missing."""
    read = tuple(_blocked(contrast) if evidence.conflicts else contrast for contrast in contrasts)
    headline = min(
        range(len(read)), key=lambda index: (HEADLINE_ORDER.index(read[index].status), index)
    )
    return Verdict(
        plan=plan.digest(),
        policy=parameters or PolicyRef(name=name),
        reading=plan.reading,
        status=read[headline].status,
        is_final=not any(tally.missing for tally in counted),
        headline=headline,
        reasons=(*read[headline].reasons, *_plan_reasons(plan, evidence)),
        contrasts=read,
        tallies=counted,
        rates=tuple(rate_figure(tally, confidence) for tally in counted),
        caveats=caveats,
    )


def _blocked(contrast: ContrastVerdict) -> ContrastVerdict:
    """The contrast unresolved: an exclusion rests on the records as much as a positive claim."""
    reasons = (VerdictReason.CONFLICT, *contrast.reasons)
    update = {"status": Status.UNRESOLVED, "reasons": reasons, "tipping": None}
    return contrast.model_copy(update=update)


def _plan_reasons(plan: Plan, evidence: Evidence) -> tuple[VerdictReason, ...]:
    reasons = []
    if evidence.unsealed:
        reasons.append(VerdictReason.UNSEALED)
    symptom = plan.symptom()
    if isinstance(symptom, ExitCodeSymptom) and not symptom.declared:
        reasons.append(VerdictReason.NO_SYMPTOM_DECLARED)
    return tuple(reasons)


def rate_figure(tally: Tally, confidence: Fraction) -> RateFigure:
    """The rate of one condition with its Clopper-Pearson limits, rounded outward to 4 digits."""
    if tally.valid == 0:
        # An empty arm has no rate; all that is known of it is that it lies between 0 and 1.
        return RateFigure(
            condition=tally.condition,
            rate=None,
            lower="0.0000",
            upper="1.0000",
            confidence=str(float(confidence)),
        )
    limits = clopper_pearson(tally.matched, tally.valid, confidence=confidence)
    return RateFigure(
        condition=tally.condition,
        rate=_digits(round(Fraction(tally.matched, tally.valid) * _SCALE)),
        lower=_digits(floor(limits.lower * _SCALE + _GUARD)),
        upper=_digits(ceil(limits.upper * _SCALE - _GUARD)),
        confidence=str(float(confidence)),
    )


_SCALE = 10_000

_GUARD = 1e-9
"""In units of the last digit. A limit exactly on the lattice, such as 0.05 after 1 match in 1
trial, would else fall on either side of it by the last bit of a float, and the same records would
give other bytes on another machine. It moves a limit by at most 1e-13."""


def _digits(scaled: int) -> str:
    return f"{scaled // _SCALE}.{scaled % _SCALE:04d}"
