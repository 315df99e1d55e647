"""The types of a verdict: outcomes, tallies, gates, figures and reasons."""

from enum import StrEnum
from typing import Literal

from matrices import Digest, Natural, PolicyRef, Record, Role


class Outcome(StrEnum):
    """How an observation reads."""

    MATCHED = "matched"
    CLEAN = "clean"
    UNRESOLVED = "unresolved"


class Reason(StrEnum):
    """Why an observation is unresolved."""

    UNRELATED_FAILURE = "unrelated_failure"
    CONFLICTING_EVIDENCE = "conflicting_evidence"
    INCONCLUSIVE_EXIT = "inconclusive_exit"
    TIME_LIMIT = "time_limit"
    SETUP_FAILED = "setup_failed"
    KNOB_UNAVAILABLE = "knob_unavailable"
    KNOB_NOT_APPLIED = "knob_not_applied"
    NOT_STARTED = "not_started"
    KILLED_BY_SIGNAL = "killed_by_signal"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_LIMIT = "output_limit"
    HARNESS_ERROR = "harness_error"
    WORKER_LOST = "worker_lost"
    DRIVER_LOST = "driver_lost"
    CANCELLED = "cancelled"
    BUDGET = "budget"


class Status(StrEnum):
    """What the records of an investigation prove under a policy."""

    REPRODUCTION_PINNED = "REPRODUCTION_PINNED"
    PARTIAL = "PARTIAL"
    WEAK_SIGNAL = "WEAK_SIGNAL"
    UNRESOLVED = "UNRESOLVED"
    NOT_REPRODUCED = "NOT_REPRODUCED"


HEADLINE_ORDER = (
    Status.REPRODUCTION_PINNED,
    Status.PARTIAL,
    Status.WEAK_SIGNAL,
    Status.UNRESOLVED,
    Status.NOT_REPRODUCED,
)
"""Of several contrasts the first in this order is the headline."""


class VerdictReason(StrEnum):
    """Why a contrast reads as it does."""

    BUDGET = "budget"
    """Planned trials are missing."""
    TOO_FEW_VALID = "too_few_valid"
    CONTROL_UNRESOLVED = "control_unresolved"
    TREATMENT_UNRESOLVED = "treatment_unresolved"
    FRAGILE = "fragile"
    """The claim fails at the worst reading of the unresolved trials."""
    FLAGGED = "flagged"
    SMALL_EFFECT = "small_effect"
    HINT = "hint"
    """Seen, but no error rate is claimed for it."""
    SYMPTOM_IN_CONTROL = "symptom_in_control"
    INCONCLUSIVE = "inconclusive"
    CONFLICT = "conflict"
    """The ledger holds two contents under one key."""
    UNSEALED = "unsealed"
    """Outcomes were looked at before the policy allowed a look."""
    NO_SYMPTOM_DECLARED = "no_symptom_declared"


class Tally(Record):
    """The trials of one condition; the four counts add up to `planned`."""

    condition: Natural
    role: Role
    planned: Natural
    matched: Natural
    clean: Natural
    unresolved: Natural
    missing: Natural
    reasons: tuple[tuple[Reason, Natural], ...] = ()
    """Why trials are unresolved, each reason with its count, in the order of `Reason`."""

    @property
    def valid(self) -> int:
        """Trials that read as matched or clean."""
        return self.matched + self.clean


class Gate(Record):
    """One rule of a policy: what the plan declared, what was measured, whether it holds."""

    name: str
    """Stable identifier, such as `established`."""
    title: str
    """The rule in words, for people."""
    declared: str
    measured: str
    holds: bool


class Figure(Record):
    """A number for people: its value as text with fixed digits."""

    name: str
    value: str


class ContrastVerdict(Record):
    """How one contrast reads."""

    contrast: Natural
    """Position in the plan's contrasts."""
    status: Status
    reasons: tuple[VerdictReason, ...] = ()
    gates: tuple[Gate, ...] = ()
    figures: tuple[Figure, ...] = ()
    tipping: Natural | None = None
    """Unresolved control trials that would have to be matches for the claim to fail."""

    def figure(self, name: str) -> str | None:
        """The text of one figure, or `None` where the policy gives no such figure."""
        return next((figure.value for figure in self.figures if figure.name == name), None)


class RateFigure(Record):
    """The rate of one condition with its limits, as fixed-digit text."""

    condition: Natural
    rate: str | None
    """`None` where no trial is valid."""
    lower: str
    upper: str
    confidence: str
    """Of the two-sided interval; each limit alone holds with half the error."""


class Verdict(Record):
    """How a policy reads an investigation. The same records always give the same verdict."""

    format: Literal["reproduce-verdict/1"] = "reproduce-verdict/1"
    plan: Digest
    policy: PolicyRef
    reading: str
    status: Status
    is_final: bool
    """False while the policy's own rules forbid a look."""
    headline: Natural
    """Position in `contrasts` of the one that the status is of."""
    reasons: tuple[VerdictReason, ...] = ()
    contrasts: tuple[ContrastVerdict, ...]
    tallies: tuple[Tally, ...]
    """In the order of the plan's conditions."""
    rates: tuple[RateFigure, ...] = ()
    caveats: tuple[str, ...] = ()
    """What the policy does not claim, in words."""


class PolicyError(ValueError):
    """A policy cannot serve a plan; says why and the way out."""

    def __init__(self, message: str, *, place: str = "policy", hint: str = "") -> None:
        """Takes what was found, the `place` in the file and a way out."""
        super().__init__(message)
        self.place = place
        self.hint = hint
