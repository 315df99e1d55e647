"""A sealed plan and the progress of an investigation on a terminal; neither shows an outcome."""

from collections.abc import Iterator
from typing import assert_never

from rich.console import RenderableType
from rich.text import Text

from matrices import (
    DurationSymptom,
    ExitCodeSymptom,
    JunitSymptom,
    OutputSymptom,
    Plan,
    Role,
    Source,
    SourceKind,
    Symptom,
    TimeoutSymptom,
)
from reproduce.report.contents import contents_of, warnings_of
from reproduce.report.look import Look, columns, draw, indent
from reproduce.report.model import PlanAccount, Progress, Sheet
from reproduce.report.text import one_line

MAX_CONDITIONS = 12
"""Conditions that a plan lists by name for each arm; the others are counted."""

_SECOND = 1_000_000
_MINUTE = 60
_HOUR = 60 * _MINUTE


def plan_text(account: PlanAccount, look: Look) -> str:
    """The plan in a few lines, what its budget can show, and whether it is approved."""
    return draw(_plan(account, look), look)


def status_text(progress: Progress, look: Look) -> str:
    """How far an investigation is."""
    plan = progress.plan
    planned, blocks = plan.trial_count(), plan.budget.trials
    name = f"{progress.investigation} {progress.state}  {one_line(plan.title)}"
    counted = (
        f"{progress.blocks} of {blocks} blocks",
        f"{progress.recorded} of {planned} trials",
        f"{progress.unresolved} unresolved",
        f"{progress.running} running",
    )
    lines = [f"plan {plan.short_name()} · policy {plan.policy.name}", " · ".join(counted)]
    if progress.slowest_us is not None:
        lines.append(f"slowest running trial {duration(progress.slowest_us)}")
    if progress.left_us is not None:
        lines.append(f"about {duration(progress.left_us)} left")
    if progress.sealed:
        lines.append("outcomes are sealed until the policy allows a look")
    parts: list[RenderableType] = [look.text(name, "bold")]
    parts += [indent(look.text(line)) for line in lines]
    return draw((*parts, *_next(progress.next_commands, look)), look)


def duration(microseconds: int) -> str:
    """A span of time as people say it, such as `2 h 05 m`, `3 m 20 s` or `0.4 s`."""
    seconds = microseconds // _SECOND
    if seconds >= _HOUR:
        return f"{seconds // _HOUR} h {seconds % _HOUR // _MINUTE:02d} m"
    if seconds >= _MINUTE:
        return f"{seconds // _MINUTE} m {seconds % _MINUTE:02d} s"
    tenths = microseconds // (_SECOND // 10)
    return f"{seconds} s" if tenths % 10 == 0 else f"{seconds}.{tenths % 10} s"


def source(found: Source) -> str:
    """Where the tree of a trial comes from, with its whole digest."""
    if found.kind is SourceKind.NONE:
        return "an empty folder"
    parts = [found.kind.value]
    if found.revision is not None:
        parts.append(f"at {found.revision}{', modified' if found.modified else ''}")
    if found.tree is not None:
        parts.append(f"tree {found.tree}")
    return " ".join(parts)


def symptom(found: Symptom) -> str:
    """What a symptom says matched and clean look like."""
    match found:
        case ExitCodeSymptom():
            return f"matched: exit {_numbers(found.matched)}; clean: exit {_numbers(found.clean)}"
        case OutputSymptom():
            exits = f"exit {_numbers(found.exit)}" if found.exit else "any exit but 0"
            return (
                f"matched: /{found.pattern}/ on {found.stream} with {exits}; "
                f"clean: {_clean(found)}"
            )
        case TimeoutSymptom():
            return (
                f"matched: time limit after /{found.alive}/ on {found.stream}; "
                f"clean: exit {_numbers(found.clean)}"
            )
        case JunitSymptom():
            return f"matched: {found.test} with /{found.message}/; clean: it ran without"
        case DurationSymptom():
            limit = duration(found.longer_than_us)
            return f"matched: longer than {limit}; clean: within it; exit {_numbers(found.exit)}"
        case _:
            assert_never(found)


def _clean(found: OutputSymptom) -> str:
    parts = [f"/{found.clean}/"] if found.clean is not None else []
    if found.clean_exit:
        parts.append(f"exit {_numbers(found.clean_exit)}")
    return " or ".join(parts) or "nothing declared"


def _numbers(codes: tuple[int, ...]) -> str:
    return ", ".join(str(code) for code in codes)


def _plan(account: PlanAccount, look: Look) -> Iterator[RenderableType]:
    plan = account.plan
    yield look.text(f"Plan {plan.short_name()}  {one_line(plan.title)}", "bold")
    table = columns(look, ("", ""))
    table.show_header = False
    for name, value in _facts(plan):
        table.add_row(look.text(name), look.text(one_line(value)))
    yield indent(table)
    for sheet in account.sheets:
        yield Text()
        yield from _sheet(sheet, look)
    for warning in warnings_of(plan):
        yield indent(look.text(f"warning: {warning}", "bold"))
    for note in account.notes:
        yield indent(look.text(f"note: {one_line(note)}"))
    yield Text()
    yield look.text(_approval(account))
    yield from _next(account.next_commands, look)


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    if plan.issue is not None:
        yield "issue", plan.issue
    yield "source", source(plan.source)
    yield "sandbox", plan.sandbox
    yield from contents_of(plan, duration=duration)
    for found in plan.symptoms:
        primary = "" if found.name == plan.primary else f" {found.name} (counted only)"
        yield f"symptom{primary}", symptom(found)
    for role in Role:
        yield role.value, _names(plan, role)
    yield "budget", _budget(plan)
    yield "policy", _policy(plan)
    yield "digest", plan.digest()


def _names(plan: Plan, role: Role) -> str:
    names = [condition.name for condition in plan.conditions if condition.role is role]
    shown = ", ".join(names[:MAX_CONDITIONS])
    left = len(names) - MAX_CONDITIONS
    return f"{shown} and {left} more" if left > 0 else shown


def _budget(plan: Plan) -> str:
    budget = plan.budget
    parts = [
        f"{budget.trials} trials for each of {len(plan.conditions)} conditions",
        f"{plan.trial_count()} in all",
        f"{budget.parallel} at a time",
    ]
    if budget.wall_us is not None:
        parts.append(f"stops after {duration(budget.wall_us)}")
    if budget.min_delay_us:
        parts.append(f"up to {duration(budget.min_delay_us)} before each start")
    return " · ".join((*parts, f"seed {plan.seed}"))


def _policy(plan: Plan) -> str:
    parameters = [f"{setting.name} {setting.value}" for setting in plan.policy.parameters]
    return " · ".join((plan.policy.name, *parameters))


def _sheet(sheet: Sheet, look: Look) -> Iterator[RenderableType]:
    yield look.text(sheet.title, "bold")
    table = columns(look, sheet.header)
    for row in sheet.rows:
        table.add_row(*(look.text(cell) for cell in row))
    yield indent(table)
    if sheet.note:
        yield indent(look.text(sheet.note))


def _approval(account: PlanAccount) -> str:
    if account.approved is None:
        return "Not approved."
    return f"Approved by {one_line(account.approved)}."


def _next(commands: tuple[str, ...], look: Look) -> Iterator[RenderableType]:
    if commands:
        yield look.text(f"Next:  {' · '.join(one_line(c) for c in commands)}", "bold")
