"""The published threshold rule: classes of conditions and of contrasts from counts.

Both strict policies read it. Frozen: a change of meaning is a new module beside it.
"""

from collections.abc import Mapping
from typing import NamedTuple

from matrices import Setting
from policies.model import Gate, PolicyError, Status, Tally, VerdictReason

MIN_VALID = 10
"""Valid trials below which the published rule says nothing."""

MIN_PARTIAL = 4
"""Matches from which the published rule speaks of a partial reproduction."""

NO_ERROR_RATE = "this policy states no error rate: it counts matches against fixed thresholds"
"""What both strict policies print beside a verdict."""


class Classified(NamedTuple):
    """A class, and why where the class is not plain from the counts."""

    status: Status
    reasons: tuple[VerdictReason, ...] = ()


def condition_class(matched: int, valid: int) -> Status:
    """The class of one condition from its matches among its valid trials."""
    if valid < MIN_VALID:
        return Status.UNRESOLVED
    if matched == valid:
        return Status.REPRODUCTION_PINNED
    if matched >= MIN_PARTIAL:
        return Status.PARTIAL
    if matched >= 1:
        return Status.WEAK_SIGNAL
    return Status.NOT_REPRODUCED


_BESIDE_A_WEAK_CONTROL: Mapping[Status, Status] = {
    Status.REPRODUCTION_PINNED: Status.PARTIAL,
    Status.WEAK_SIGNAL: Status.UNRESOLVED,
}
"""Beside a weak control a treatment is at most partial, and a weak one says nothing."""


def contrast_class(treatment: Status, control: Status) -> Classified:
    """The class of a contrast from the classes of its two conditions."""
    match control:
        case Status.NOT_REPRODUCED:
            if treatment is Status.UNRESOLVED:
                return Classified(Status.UNRESOLVED, (VerdictReason.TOO_FEW_VALID,))
            return Classified(treatment)
        case Status.WEAK_SIGNAL:
            status = _BESIDE_A_WEAK_CONTROL.get(treatment, treatment)
            return Classified(status, (VerdictReason.SYMPTOM_IN_CONTROL,))
        case Status.UNRESOLVED:
            return Classified(Status.UNRESOLVED, (VerdictReason.TOO_FEW_VALID,))
        case _:
            return Classified(Status.UNRESOLVED, (VerdictReason.SYMPTOM_IN_CONTROL,))


def no_parameters(given: Mapping[str, str], *, policy: str) -> tuple[Setting, ...]:
    """No parameters: the thresholds are part of the policy.

    Raises:
        PolicyError: a parameter was given.
    """
    for name in given:
        message = f"`{policy}` has no parameter `{name}`"
        raise PolicyError(message, place=f"policy.{name}", hint="remove it")
    return ()


def valid_gate(treatment: Tally, control: Tally) -> Gate:
    """The gate of the published rule on the valid trials of both arms."""
    return Gate(
        name="valid",
        title="valid trials in each arm",
        declared=f"≥ {MIN_VALID}",
        measured=f"{treatment.valid} / {control.valid}",
        holds=min(treatment.valid, control.valid) >= MIN_VALID,
    )
