"""What a budget can show, said before it is spent."""

from typing import NamedTuple

from matrices import Plan
from policies.registry import planning
from reproduce.report.model import Sheet


class Prospect(NamedTuple):
    """What a plan can claim, as tables, and what is weak about it."""

    sheets: tuple[Sheet, ...]
    notes: tuple[str, ...]


def prospect(plan: Plan) -> Prospect:
    """What the plan's budget can show.

    Raises:
        PolicyError: it cannot reach the declared claim; the hint says what would.
    """
    found = planning(plan.policy.name)(plan)
    if found is None:
        return Prospect((), ())
    rows = tuple((row.title, floored(row.established), floored(row.pinned)) for row in found.power)
    effect = plan.policy.parameter("min_effect") or ""
    sheet = Sheet(
        title=f"What {found.trials} trials a condition can show of a difference of {effect}",
        header=("if", "difference established", "REPRODUCTION_PINNED"),
        rows=rows,
        note="chances beside a control that never matches; trials taken as independent",
    )
    return Prospect((sheet,), tuple(_notes(found, effect)))


def floored(chance: float) -> str:
    """A chance with three digits, never rounded up to what it does not reach."""
    return f"{int(chance * 1000 + 1e-9) / 1000:.3f}"


def _notes(found: "object", effect: str) -> list[str]:
    from policies.binomial_v1_planning import Reach  # noqa: PLC0415 - scipy, loaded by now

    assert isinstance(found, Reach)  # noqa: S101 - the one kind there is
    notes = []
    if found.weak:
        more = found.trials_for_power
        enough = "no number of trials up to 20,000 is" if more is None else f"{more} trials are"
        notes.append(
            f"weak: a true difference of {effect} is pinned with a chance of only "
            f"{floored(found.power[0].pinned)}; {enough} enough for 0.8 or the declared power"
        )
    if not found.excludes:
        notes.append(
            f"no match in either arm would not exclude a difference of {effect}; "
            f"that takes {found.trials_excluding} trials a condition"
        )
    return notes
