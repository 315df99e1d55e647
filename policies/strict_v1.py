"""`strict/1`: the published threshold rule, as published. It states no error rate.

It reads the trials that there are; a verdict on fewer than were planned says so (`budget`).
Frozen: a change of meaning is a new version beside it.
"""

from collections.abc import Mapping

from matrices import Plan, Setting
from policies.assembling import assemble
from policies.evidence import Evidence, tallies
from policies.model import ContrastVerdict, Gate, Tally, Verdict, VerdictReason
from policies.threshold_rule import (
    MIN_VALID,
    NO_ERROR_RATE,
    condition_class,
    contrast_class,
    no_parameters,
    valid_gate,
)

NAME = "strict/1"


def parameters(given: Mapping[str, str]) -> tuple[Setting, ...]:
    """No parameters; raises `PolicyError` where one was given."""
    return no_parameters(given, policy=NAME)


def reduce(plan: Plan, evidence: Evidence) -> Verdict:
    """The verdict of the published rule on the valid trials; unresolved ones are not counted."""
    counted = tallies(plan, evidence)
    contrasts = tuple(
        judge(index, counted[contrast.treatment], counted[contrast.control])
        for index, contrast in enumerate(plan.contrasts)
    )
    return assemble(plan, evidence, counted, contrasts, name=NAME, caveats=(NO_ERROR_RATE,))


def judge(contrast: int, treatment: Tally, control: Tally) -> ContrastVerdict:
    """How one contrast reads from its two tallies."""
    treated = condition_class(treatment.matched, treatment.valid)
    controlled = condition_class(control.matched, control.valid)
    found = contrast_class(treated, controlled)
    budget = (VerdictReason.BUDGET,) if treatment.missing or control.missing else ()
    gates = (
        valid_gate(treatment, control),
        Gate(
            name="treatment_matched",
            title="treatment trials that matched",
            declared="all",
            measured=f"{treatment.matched}/{treatment.valid}: {treated}",
            holds=treatment.valid >= MIN_VALID and treatment.matched == treatment.valid,
        ),
        Gate(
            name="control_clean",
            title="control trials that matched",
            declared="0",
            measured=f"{control.matched}/{control.valid}: {controlled}",
            holds=control.valid >= MIN_VALID and control.matched == 0,
        ),
    )
    return ContrastVerdict(
        contrast=contrast, status=found.status, reasons=(*found.reasons, *budget), gates=gates
    )
