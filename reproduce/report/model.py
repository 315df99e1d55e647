"""What a report is about: the account of an investigation, and sheets for plan and progress."""

from typing import NamedTuple

from matrices import Condition, Contrast, Plan, PolicyRef, Setting
from policies import ContrastVerdict, RateFigure, Status, Tally, Verdict, VerdictReason
from reproduce.errors import ExitCode


class Arm(NamedTuple):
    """One condition with what was counted there."""

    condition: Condition
    tally: Tally
    rate: RateFigure | None
    """`None` where the policy gives no rates."""


class Account(NamedTuple):
    """Everything that a report shows of one investigation."""

    investigation: str
    plan: Plan
    verdict: Verdict
    declared_policy: PolicyRef
    entries: int
    root: str
    """The canonicalSha256 over the entries."""
    siblings: int
    """Investigations of this plan or issue in this ledger, this one included."""
    ledger: str
    """The ledger as it is shown, such as a path."""
    others: tuple[Verdict, ...] = ()
    """Verdicts of other policies on the same entries."""
    secondary: tuple[tuple[str, tuple[Tally, ...]], ...] = ()
    """The other symptoms by name, with their tallies in the order of the conditions."""
    places: tuple[Setting, ...] = ()
    """Facts of the hosts that ran the trials."""
    stop: str | None = None
    """Why no more trials were started, in words."""
    next_commands: tuple[str, ...] = ()
    closed: bool = False
    """Whether the investigation takes no more trials, so that nothing is left to bias."""

    def is_sealed(self) -> bool:
        """Whether outcomes are withheld: trials may follow and nobody opened the seal."""
        unsealed = VerdictReason.UNSEALED in reasons_of(self.verdict)
        return not (self.verdict.is_final or self.closed or unsealed)

    def is_declared(self, verdict: Verdict) -> bool:
        """Whether the verdict is of the policy that the plan declared, to the last parameter."""
        return verdict.policy == self.declared_policy

    def headline(self) -> ContrastVerdict:
        """The contrast that the status is of."""
        return headline_of(self.verdict)

    def contrast(self, contrast: ContrastVerdict) -> Contrast:
        """The contrast as the plan has it."""
        return self.plan.contrasts[contrast.contrast]

    def arm(self, condition: int) -> Arm:
        """A condition of the plan, by its position, with its counts."""
        tallies, rates = self.verdict.tallies, self.verdict.rates
        # A policy rates all conditions or some; with all, their order saves a search for each.
        found = rates[condition : condition + 1] if len(rates) == len(tallies) else rates
        rate = next((figure for figure in found if figure.condition == condition), None)
        return Arm(self.plan.conditions[condition], tallies[condition], rate)

    def arms(self, contrast: ContrastVerdict) -> tuple[Arm, Arm]:
        """The treatment and the control of a contrast."""
        pair = self.contrast(contrast)
        return self.arm(pair.treatment), self.arm(pair.control)


class Sheet(NamedTuple):
    """A table that was computed elsewhere, such as what a budget can show."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


class PlanAccount(NamedTuple):
    """Everything that the report of a sealed plan shows."""

    plan: Plan
    sheets: tuple[Sheet, ...] = ()
    notes: tuple[str, ...] = ()
    """What was found weak at sealing, in words."""
    approved: str | None = None
    """Who approved the plan; `None` while nobody did."""
    next_commands: tuple[str, ...] = ()


class Progress(NamedTuple):
    """How far an investigation is; no field says what was seen."""

    investigation: str
    plan: Plan
    state: str
    """One word, such as `running`, `interrupted`, `closed`."""
    blocks: int
    """Whole blocks from the first."""
    recorded: int
    """Trials with a terminal record."""
    unresolved: int
    running: int = 0
    slowest_us: int | None = None
    """How long the slowest running trial has run; `None` when none runs."""
    left_us: int | None = None
    """Estimated time left; `None` when there is no estimate."""
    sealed: bool = True
    next_commands: tuple[str, ...] = ()


def headline_of(verdict: Verdict) -> ContrastVerdict:
    """The contrast that a verdict's status is of."""
    return verdict.contrasts[verdict.headline]


def reasons_of(verdict: Verdict) -> tuple[VerdictReason, ...]:
    """The reasons of the headline and then those of the whole verdict, each once."""
    return tuple(dict.fromkeys(headline_of(verdict).reasons + verdict.reasons))


def exit_code_of(verdict: Verdict) -> ExitCode:
    """The exit code of a run that ended in this verdict and expected nothing of it."""
    hint = verdict.status is Status.WEAK_SIGNAL and VerdictReason.HINT in reasons_of(verdict)
    if verdict.status is Status.UNRESOLVED or hint:
        return ExitCode.NOT_ENOUGH
    return ExitCode.DONE
