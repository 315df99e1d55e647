"""The sealed plan: everything that is fixed before the first trial."""

from enum import StrEnum
from typing import Literal

from pydantic import Field, model_validator

from matrices.arms import Pair, Role
from matrices.errors import MatrixError
from matrices.factors import Assignment, Choice, Name, Setting
from matrices.record import Digest, Natural, Record, domain_digest
from matrices.symptoms import Symptom

PLAN_DOMAIN = "reproduce-plan-v1"
ID_DIGITS = 12
"""Hex digits shown of a digest: 48 bits, so that two plans of one project do not share a name."""


class SourceKind(StrEnum):
    """Where the tree that a trial runs in comes from."""

    NONE = "none"
    FOLDER = "folder"
    GIT = "git"


class Source(Record):
    """The tree of a trial, named by its content."""

    kind: SourceKind
    tree: Digest | None = None
    """The digest of the stored tree; `None` for an empty working folder."""
    revision: str | None = None
    """The git commit that was read, where there is one."""
    modified: bool = False
    """Whether the working tree differed from that commit."""


class Environment(Record):
    """A requirements file and set-up commands, built once wherever trials run."""

    requirements: str | None = None
    """The text of the requirements file."""
    setup: tuple[tuple[str, ...], ...] = ()


class Condition(Record):
    """One cell of the matrix, resolved: all that its trials need to know."""

    name: str
    choices: tuple[Choice, ...]
    role: Role
    stratum: str
    cmd: tuple[str, ...] = Field(min_length=1)
    timeout_us: int = Field(ge=1000)
    env: tuple[Setting, ...] = ()
    """The child's variables before knobs, sorted by name; values may hold placeholders."""
    knobs: tuple[Setting, ...] = ()
    """Knob settings sorted by name, each value as canonical JSON text."""
    environment: int | None = None
    """Position in the plan's `environments`; `None` without requirements and set-up."""


class Contrast(Record):
    """A treatment condition against the control of its stratum, by positions in `conditions`."""

    stratum: str
    treatment: Natural
    control: Natural


class Budget(Record):
    """How much may be spent."""

    trials: int = Field(ge=1, le=20_000_000)
    """Trials for each condition, which is the number of blocks."""
    wall_us: int | None = Field(default=None, ge=1)
    parallel: int = Field(ge=1, le=1024)
    min_delay_us: Natural = 0
    """Upper end of the seeded delay before each start; 0 starts at once."""


class PolicyRef(Record):
    """A policy by name and version, with every parameter written out."""

    name: str = Field(pattern=r"^[a-z]+/[1-9][0-9]*$")
    parameters: tuple[Setting, ...] = ()

    def parameter(self, name: str) -> str | None:
        """The text of one parameter, or `None` where the policy has no such parameter."""
        for setting in self.parameters:
            if setting.name == name:
                return setting.value
        return None


class Plan(Record):
    """A sealed investigation; its digest is its name."""

    format: Literal["reproduce-plan/1"] = "reproduce-plan/1"
    title: str
    issue: str | None = None
    """Untrusted text: shown, never executed."""
    source: Source
    sandbox: Literal["process"] = "process"
    environments: tuple[Environment, ...] = ()
    symptoms: tuple[Symptom, ...] = Field(min_length=1)
    primary: Name
    """The symptom that the verdict is about; the others are counted."""
    reading: Literal["reading/1"] = "reading/1"
    """The version of the rules that turn facts into outcomes."""
    conditions: tuple[Condition, ...] = Field(min_length=2)
    contrasts: tuple[Contrast, ...] = Field(min_length=1)
    budget: Budget
    policy: PolicyRef
    seed: Natural

    @model_validator(mode="after")
    def _holds_together(self) -> "Plan":
        names = [symptom.name for symptom in self.symptoms]
        if len(set(names)) != len(names) or self.primary not in names:
            message = "symptom names are unique and `primary` is one of them"
            raise MatrixError(message, place="symptom")
        for contrast in self.contrasts:
            roles = []
            for index in (contrast.treatment, contrast.control):
                if index >= len(self.conditions):
                    message = "a contrast names a condition that the plan does not have"
                    raise MatrixError(message, place="contrasts")
                roles.append(self.conditions[index].role)
            if roles != [Role.TREATMENT, Role.CONTROL]:
                message = "a contrast compares a treatment with a control"
                raise MatrixError(message, place="contrasts")
        return self

    def digest(self) -> str:
        """SHA-256 over the canonical plan, under a domain of its own."""
        return domain_digest(PLAN_DOMAIN, self.canonical())

    def short_name(self) -> str:
        """How the plan is shown: `pl_` and the first digits of its digest."""
        return short_plan(self.digest())

    def trial_count(self) -> int:
        """All trials of the plan: its conditions times its blocks."""
        return len(self.conditions) * self.budget.trials

    def symptom(self) -> Symptom:
        """The primary symptom."""
        return next(symptom for symptom in self.symptoms if symptom.name == self.primary)


def short_plan(digest: str) -> str:
    """How a plan with this digest is shown."""
    return f"pl_{digest[:ID_DIGITS]}"


def contrasts_of(pairs: tuple[Pair, ...]) -> tuple[Contrast, ...]:
    """The pairs as they are written into a plan."""
    return tuple(
        Contrast(stratum=pair.stratum, treatment=pair.treatment, control=pair.control)
        for pair in pairs
    )


__all__ = [
    "Assignment",
    "Budget",
    "Condition",
    "Contrast",
    "Environment",
    "Plan",
    "PolicyRef",
    "Source",
    "SourceKind",
    "contrasts_of",
    "short_plan",
]
