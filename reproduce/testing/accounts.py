"""Hand-made accounts for the reports: one for every status and for what is hard to show.

The figures are plausible, not computed: reports show what they are given.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from matrices import (
    Budget,
    Choice,
    Condition,
    Contrast,
    ExitCodeSymptom,
    OutputSymptom,
    Plan,
    PolicyRef,
    Role,
    Setting,
    Source,
    SourceKind,
    Symptom,
)
from policies import (
    ContrastVerdict,
    Figure,
    Gate,
    RateFigure,
    Reason,
    Status,
    Tally,
    Verdict,
    VerdictReason,
)
from reproduce.report.model import Account

HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \u202egnp.exe\u202c "
    '`code` | pipe <img src=x onerror=alert(1)> @maintainer #12 =HYPERLINK("http://evil.example")'
    "\r\x07\x9b2J"
)
"""A title by someone who means harm."""

BINOMIAL = PolicyRef(
    name="binomial/1",
    parameters=(
        Setting(name="alpha", value="0.05"),
        Setting(name="max_unresolved", value="0.2"),
        Setting(name="min_effect", value="0.1"),
        Setting(name="unresolved", value="0"),
    ),
)
STRICT_1 = PolicyRef(name="strict/1")
STRICT_2 = PolicyRef(name="strict/2")

NO_ERROR_RATE = "this policy states no error rate: it counts matches against fixed thresholds"
INDEPENDENCE = "independence or non-negative dependence within a block is assumed"

MATCHING = OutputSymptom(name="lost-chunk", pattern="ChunkMismatch", clean="1 passed", exit=(1,))
UNDECLARED = ExitCodeSymptom(matched=(1,), clean=(0,), declared=False)


@dataclass(frozen=True)
class Counted:
    """What was counted in one condition, with its limits as text; no limits, no rate."""

    matched: int
    clean: int
    unresolved: tuple[tuple[Reason, int], ...] = ()
    missing: int = 0
    limits: tuple[str, str] | None = None

    def planned(self) -> int:
        """All trials of the condition."""
        return self.matched + self.clean + self.missing + sum(n for _, n in self.unresolved)

    def tally(self, condition: int, role: Role) -> Tally:
        """The counts as a policy gives them."""
        return Tally(
            condition=condition,
            role=role,
            planned=self.planned(),
            matched=self.matched,
            clean=self.clean,
            unresolved=sum(count for _, count in self.unresolved),
            missing=self.missing,
            reasons=self.unresolved,
        )

    def rate(self, condition: int) -> RateFigure | None:
        """The limits as a policy gives them."""
        if self.limits is None:
            return None
        valid = self.matched + self.clean
        return RateFigure(
            condition=condition,
            rate=f"{self.matched / valid:.4f}" if valid else None,
            lower=self.limits[0],
            upper=self.limits[1],
            confidence="0.9",
        )


@dataclass(frozen=True)
class Case:
    """What a hand-made account says; one treatment against one control."""

    status: Status
    treatment: Counted
    control: Counted
    reasons: tuple[VerdictReason, ...] = ()
    policy: PolicyRef = BINOMIAL
    title: str = "test_resume loses a chunk with 8 workers"
    issue: str | None = "acme/uploader#88"
    symptom: Symptom = MATCHING
    gates: tuple[Gate, ...] = ()
    figures: Mapping[str, str] = field(default_factory=dict)
    tipping: int | None = None
    caveats: tuple[str, ...] = (INDEPENDENCE,)
    is_final: bool = True


def plan_of(case: Case) -> Plan:
    """A plan with the case's title, symptom and policy, and as many trials as it counted."""
    return Plan(
        title=case.title,
        issue=case.issue,
        source=Source(kind=SourceKind.FOLDER, tree="ab" * 32),
        symptoms=(case.symptom,),
        primary=case.symptom.name,
        conditions=(
            condition(Role.TREATMENT, "eight", stratum=""),
            condition(Role.CONTROL, "one", stratum=""),
        ),
        contrasts=(Contrast(stratum="", treatment=0, control=1),),
        budget=Budget(trials=case.treatment.planned(), parallel=2, wall_us=1_800_000_000),
        policy=case.policy,
        seed=42,
    )


def condition(role: Role, level: str, *, stratum: str) -> Condition:
    """A condition of the factor `workers`, in a stratum of its own name."""
    name = f"workers={level} {stratum}".strip()
    return Condition(
        name=name,
        choices=(Choice(factor="workers", level=level),),
        role=role,
        stratum=stratum,
        cmd=("pytest", "-q", "tests/test_upload.py::test_resume"),
        timeout_us=60_000_000,
        env=(Setting(name="WORKERS", value=level),),
    )


def verdict_of(case: Case, plan: Plan) -> Verdict:
    """The verdict that the case describes."""
    counted = (case.treatment, case.control)
    rates = tuple(one.rate(index) for index, one in enumerate(counted))
    return Verdict(
        plan=plan.digest(),
        policy=case.policy,
        reading=plan.reading,
        status=case.status,
        is_final=case.is_final,
        headline=0,
        reasons=case.reasons,
        contrasts=(
            ContrastVerdict(
                contrast=0,
                status=case.status,
                reasons=tuple(r for r in case.reasons if r not in WHOLE),
                gates=case.gates,
                figures=tuple(Figure(name=n, value=v) for n, v in case.figures.items()),
                tipping=case.tipping,
            ),
        ),
        tallies=tuple(one.tally(i, plan.conditions[i].role) for i, one in enumerate(counted)),
        rates=tuple(rate for rate in rates if rate is not None),
        caveats=case.caveats,
    )


WHOLE = (VerdictReason.UNSEALED, VerdictReason.NO_SYMPTOM_DECLARED)
"""Reasons of a verdict that belong to no contrast."""


def account_of(case: Case, *others: Case, siblings: int = 1, closed: bool = False) -> Account:
    """The account of a case, with the verdicts of other policies on the same records."""
    plan = plan_of(case)
    return Account(
        investigation="iv_" + "5e" * 16,
        plan=plan,
        verdict=verdict_of(case, plan),
        declared_policy=case.policy,
        entries=124,
        root="dbeb6b93" * 8,
        siblings=siblings,
        ledger=".reproduce/ledger.sqlite",
        others=tuple(verdict_of(other, plan) for other in others),
        places=(Setting(name="host", value="build-7"), Setting(name="cores", value="2")),
        stop="the budget is spent",
        next_commands=("reproduce explain latest", "reproduce export latest -f md"),
        closed=closed,
    )
