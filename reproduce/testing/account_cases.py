"""Named accounts: every status, the reasons that change what is said, and what is hard to show."""

from collections.abc import Mapping
from dataclasses import replace

from matrices import Condition, Contrast, Role
from policies import ContrastVerdict, Gate, RateFigure, Reason, Status, Tally, VerdictReason
from reproduce.report.model import Account
from reproduce.testing.accounts import (
    HOSTILE,
    NO_ERROR_RATE,
    STRICT_1,
    STRICT_2,
    UNDECLARED,
    Case,
    Counted,
    account_of,
    condition,
)

FIGURES: Mapping[str, str] = {
    "p_established": "2.93e-05",
    "p_established_worst": "1.12e-04",
    "p_excluded": "0.9874",
    "p_excluded_best": "0.9911",
    "difference": "0.2333",
    "difference_lower": "0.137",
    "difference_upper": "0.341",
    "difference_confidence": "0.95",
    "min_effect": "0.1",
}

NO_DIFFERENCE: Mapping[str, str] = {
    "p_established": "1.0000",
    "p_excluded": "1.41e-10",
    "difference": "0.0000",
    "difference_lower": "-0.015",
    "difference_upper": "0.015",
    "difference_confidence": "0.95",
    "min_effect": "0.1",
    "novelty_of_tomorrow": "42",
}
"""The last one is a figure that the reports do not know."""

GATES = (
    Gate(
        name="valid",
        title="valid trials in each arm",
        declared="≥ 48 of 60",
        measured="60 / 59",
        holds=True,
    ),
    Gate(
        name="established",
        title="p of no higher rate under treatment",
        declared="≤ 0.05",
        measured="2.93e-05",
        holds=True,
    ),
    Gate(
        name="established_worst",
        title="the same with every unresolved trial read against the claim",
        declared="≤ 0.05",
        measured="1.12e-04",
        holds=True,
    ),
)
EXCLUDED = (
    Gate(
        name="excluded",
        title="p of a difference of 0.1 or more",
        declared="≤ 0.05",
        measured="1.41e-10",
        holds=True,
    ),
)
BROKEN = (*GATES[:2], GATES[2].model_copy(update={"measured": "0.0873", "holds": False}))
THRESHOLD = (
    Gate(
        name="all_matched",
        title="every valid treatment trial matched",
        declared="60 of 60",
        measured="14 of 60",
        holds=False,
    ),
)

RARE = Counted(14, 46, limits=("0.1468", "0.3409"))
CLEAN = Counted(0, 59, ((Reason.TIME_LIMIT, 1),), limits=("0.0000", "0.0496"))
GAPS = Counted(
    8,
    41,
    ((Reason.UNRELATED_FAILURE, 2), (Reason.TIME_LIMIT, 5), (Reason.HARNESS_ERROR, 4)),
    limits=("0.0841", "0.2753"),
)
NEVER = Counted(0, 200, limits=("0.0000", "0.0149"))
ZERO = Counted(0, 60, limits=("0.0000", "0.0488"))
EMPTY = Counted(0, 0, ((Reason.HARNESS_ERROR, 60),), limits=("0.0000", "1.0000"))
STOPPED = Counted(6, 19, ((Reason.CANCELLED, 2),), missing=33, limits=("0.1064", "0.4233"))

PINNED = Case(Status.REPRODUCTION_PINNED, RARE, CLEAN, gates=GATES, figures=FIGURES)

_STRICT = Case(
    Status.PARTIAL, RARE, CLEAN, policy=STRICT_1, gates=THRESHOLD, caveats=(NO_ERROR_RATE,)
)


def _case(status: Status, one: Counted, other: Counted, *reasons: VerdictReason) -> Case:
    return replace(
        PINNED,
        status=status,
        treatment=one,
        control=other,
        reasons=reasons,
        tipping=None,
        gates=BROKEN if reasons else GATES,
        figures=FIGURES if (one, other) == (RARE, CLEAN) else {},
    )


CASES: Mapping[str, Case] = {
    "pinned": PINNED,
    "pinned-strict": replace(
        _STRICT,
        status=Status.REPRODUCTION_PINNED,
        treatment=Counted(60, 0, limits=("0.9512", "1.0000")),
        gates=(THRESHOLD[0].model_copy(update={"measured": "60 of 60", "holds": True}),),
    ),
    "partial-fragile": replace(
        _case(Status.PARTIAL, GAPS, CLEAN, VerdictReason.FRAGILE), tipping=0
    ),
    "partial-flagged": _case(Status.PARTIAL, RARE, CLEAN, VerdictReason.FLAGGED),
    "partial-strict": _STRICT,
    "weak-hint": _case(
        Status.WEAK_SIGNAL,
        Counted(2, 58, limits=("0.0059", "0.1009")),
        ZERO,
        VerdictReason.HINT,
    ),
    "weak-small-effect": _case(
        Status.WEAK_SIGNAL,
        Counted(21, 979, limits=("0.0141", "0.0303")),
        Counted(0, 1000, limits=("0.0000", "0.0030")),
        VerdictReason.SMALL_EFFECT,
    ),
    "weak-strict": replace(
        _STRICT, status=Status.WEAK_SIGNAL, treatment=Counted(3, 57, limits=("0.0137", "0.1239"))
    ),
    "not-reproduced": replace(
        _case(Status.NOT_REPRODUCED, NEVER, NEVER), gates=EXCLUDED, figures=NO_DIFFERENCE
    ),
    "not-reproduced-strict": replace(
        _STRICT, status=Status.NOT_REPRODUCED, treatment=Counted(0, 10), control=Counted(0, 10)
    ),
    "unresolved-budget": _case(
        Status.UNRESOLVED,
        STOPPED,
        replace(STOPPED, matched=0, clean=25, limits=("0.0000", "0.1130")),
        VerdictReason.BUDGET,
    ),
    "unresolved-empty": _case(Status.UNRESOLVED, EMPTY, EMPTY, VerdictReason.TOO_FEW_VALID),
    "unresolved-control": _case(Status.UNRESOLVED, RARE, RARE, VerdictReason.SYMPTOM_IN_CONTROL),
    "unresolved-inconclusive": _case(Status.UNRESOLVED, ZERO, ZERO, VerdictReason.INCONCLUSIVE),
    "unresolved-conflict": _case(Status.UNRESOLVED, RARE, CLEAN, VerdictReason.CONFLICT),
    "no-symptom": replace(
        PINNED, reasons=(VerdictReason.NO_SYMPTOM_DECLARED,), symptom=UNDECLARED, issue=None
    ),
    "unsealed": replace(
        _case(Status.UNRESOLVED, STOPPED, STOPPED, VerdictReason.BUDGET, VerdictReason.UNSEALED),
        is_final=False,
    ),
    "sealed": replace(
        _case(Status.UNRESOLVED, STOPPED, STOPPED, VerdictReason.BUDGET), is_final=False
    ),
    "hostile": replace(PINNED, title=HOSTILE, issue=HOSTILE),
}
"""One treatment against one control, by name."""

_OTHERS = (
    _STRICT,
    replace(_STRICT, policy=STRICT_2, reasons=(VerdictReason.FRAGILE,), tipping=1),
)


def account(name: str) -> Account:
    """The account of a named case; `pinned` comes with the verdicts of the strict policies."""
    others = _OTHERS if name == "pinned" else ()
    return account_of(CASES[name], *others, siblings=20 if name == "weak-hint" else 1)


def many(contrasts: int) -> Account:
    """An account of so many contrasts, each with its own control; the third one is pinned."""
    one = account("pinned")
    positions = range(contrasts)
    conditions: list[Condition] = []
    tallies: list[Tally] = []
    rates: list[RateFigure | None] = []
    for index in positions:
        for role, level in ((Role.TREATMENT, "eight"), (Role.CONTROL, "one")):
            at = len(conditions)
            counted = RARE if index == _PINNED_AT and role is Role.TREATMENT else ZERO
            conditions.append(condition(role, level, stratum=f"python=py{index} tz=auckland"))
            tallies.append(counted.tally(at, role))
            rates.append(counted.rate(at))
    plan = one.plan.model_copy(
        update={
            "conditions": tuple(conditions),
            "contrasts": tuple(
                Contrast(stratum=conditions[2 * i].stratum, treatment=2 * i, control=2 * i + 1)
                for i in positions
            ),
        }
    )
    verdict = one.verdict.model_copy(
        update={
            "plan": plan.digest(),
            "headline": _PINNED_AT,
            "contrasts": tuple(_contrast(one, index) for index in positions),
            "tallies": tuple(tallies),
            "rates": tuple(rate for rate in rates if rate is not None),
        }
    )
    return one._replace(plan=plan, verdict=verdict, others=())


_PINNED_AT = 2


def _contrast(one: Account, index: int) -> ContrastVerdict:
    pinned = one.headline()
    if index == _PINNED_AT:
        return pinned.model_copy(update={"contrast": index})
    inconclusive = {"status": Status.UNRESOLVED, "reasons": (VerdictReason.INCONCLUSIVE,)}
    return pinned.model_copy(update={"contrast": index, "tipping": None, **inconclusive})
