"""`strict/2`: the published thresholds, held to the worst reading. It states no error rate.

Unresolved trials count against the claim: the class is the lower of the complete-case and the
worst-reading classes. Missing trials leave it unresolved. Frozen: a change of meaning is a new
version beside it.
"""

from collections.abc import Mapping

from matrices import Plan, Setting
from policies.assembling import assemble
from policies.evidence import Evidence, tallies
from policies.model import (
    ContrastVerdict,
    Gate,
    Status,
    Tally,
    Verdict,
    VerdictReason,
)
from policies.threshold_rule import (
    NO_ERROR_RATE,
    Classified,
    condition_class,
    contrast_class,
    no_parameters,
    valid_gate,
)

NAME = "strict/2"

MAX_UNRESOLVED_PARTS = 5
"""An arm may have one unresolved trial in this many; above 1/5 it says nothing."""

_STRENGTH = (
    Status.UNRESOLVED,
    Status.NOT_REPRODUCED,
    Status.WEAK_SIGNAL,
    Status.PARTIAL,
    Status.REPRODUCTION_PINNED,
)
"""From the weakest claim to the strongest; unresolved claims nothing at all."""


def parameters(given: Mapping[str, str]) -> tuple[Setting, ...]:
    """No parameters; raises `PolicyError` where one was given."""
    return no_parameters(given, policy=NAME)


def reduce(plan: Plan, evidence: Evidence) -> Verdict:
    """The verdict of the published thresholds under the worst reading of unresolved trials."""
    counted = tallies(plan, evidence)
    contrasts = tuple(
        judge(index, counted[contrast.treatment], counted[contrast.control])
        for index, contrast in enumerate(plan.contrasts)
    )
    return assemble(plan, evidence, counted, contrasts, name=NAME, caveats=(NO_ERROR_RATE,))


def judge(contrast: int, treatment: Tally, control: Tally) -> ContrastVerdict:
    """How one contrast reads from its two tallies."""
    complete = _class(treatment.matched, treatment.valid, control.matched, control.valid)
    worst = _worst(treatment, control, extra_matches=control.unresolved)
    found = _classify(treatment, control, complete=complete, worst=worst)
    tipping = None
    if complete.status is Status.REPRODUCTION_PINNED and found.status is not Status.UNRESOLVED:
        tipping = tipping_number(treatment, control)
    return ContrastVerdict(
        contrast=contrast,
        status=found.status,
        reasons=found.reasons,
        gates=_gates(treatment, control, complete=complete, worst=worst),
        tipping=tipping,
    )


def _class(matched1: int, valid1: int, matched0: int, valid0: int) -> Classified:
    return contrast_class(condition_class(matched1, valid1), condition_class(matched0, valid0))


def _worst(treatment: Tally, control: Tally, *, extra_matches: int) -> Classified:
    """The class with every unresolved trial valid and `extra_matches` of the control's matched."""
    return _class(
        treatment.matched,
        treatment.valid + treatment.unresolved,
        control.matched + extra_matches,
        control.valid + control.unresolved,
    )


def too_many_unresolved(tally: Tally) -> bool:
    """Whether more than one in five of the arm's recorded trials are unresolved."""
    return MAX_UNRESOLVED_PARTS * tally.unresolved > tally.valid + tally.unresolved


def _classify(
    treatment: Tally, control: Tally, *, complete: Classified, worst: Classified
) -> Classified:
    if treatment.missing or control.missing:
        return Classified(Status.UNRESOLVED, (VerdictReason.BUDGET,))
    if too_many_unresolved(control):
        return Classified(Status.UNRESOLVED, (VerdictReason.CONTROL_UNRESOLVED,))
    if complete.status is Status.REPRODUCTION_PINNED and worst.status != complete.status:
        return Classified(Status.PARTIAL, (VerdictReason.FRAGILE,))
    found = min(complete, worst, key=lambda item: _STRENGTH.index(item.status))
    if found.status is not Status.NOT_REPRODUCED:
        if found.status != complete.status:
            reasons = tuple(r for r in found.reasons if _was_seen(r, control))
            return Classified(found.status, (VerdictReason.FRAGILE, *reasons))
        return found
    if too_many_unresolved(treatment):
        return Classified(Status.UNRESOLVED, (VerdictReason.TREATMENT_UNRESOLVED,))
    best = condition_class(
        treatment.matched + treatment.unresolved, treatment.valid + treatment.unresolved
    )
    if best is not Status.NOT_REPRODUCED:
        return Classified(Status.UNRESOLVED, (VerdictReason.TREATMENT_UNRESOLVED,))
    return found


def _was_seen(reason: VerdictReason, control: Tally) -> bool:
    """Whether a reason of the worst reading holds of the trials, not only of how they are read."""
    return reason is not VerdictReason.SYMPTOM_IN_CONTROL or control.matched > 0


def tipping_number(treatment: Tally, control: Tally) -> int | None:
    """How many unresolved control trials must have matched for the class not to be pinned.

    0 where the unresolved treatment trials alone decide it; `None` where nothing unresolved can.
    """
    for extra in range(control.unresolved + 1):
        found = _worst(treatment, control, extra_matches=extra)
        if found.status is not Status.REPRODUCTION_PINNED:
            return extra
    return None


def _gates(
    treatment: Tally, control: Tally, *, complete: Classified, worst: Classified
) -> tuple[Gate, ...]:
    recorded = control.valid + control.unresolved
    return (
        valid_gate(treatment, control),
        Gate(
            name="control_resolved",
            title="unresolved control trials",
            declared=f"≤ 1 in {MAX_UNRESOLVED_PARTS}",
            measured=f"{control.unresolved} of {recorded}",
            holds=not too_many_unresolved(control),
        ),
        Gate(
            name="complete",
            title="class of the valid trials",
            declared=Status.REPRODUCTION_PINNED,
            measured=complete.status,
            holds=complete.status is Status.REPRODUCTION_PINNED,
        ),
        Gate(
            name="worst",
            title="class if every unresolved trial counts against it",
            declared=Status.REPRODUCTION_PINNED,
            measured=worst.status,
            holds=worst.status is Status.REPRODUCTION_PINNED,
        ),
    )
