"""The verdict of an investigation on a terminal."""

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from policies import ContrastVerdict, Gate, Status, Verdict
from reproduce.report import words
from reproduce.report.figures import bar, difference, interval, level, limits
from reproduce.report.look import Look, columns, draw, indent, item
from reproduce.report.model import Account, Arm, headline_of
from reproduce.report.text import one_line

MAX_ROWS = 16
"""Conditions that a verdict lists before it folds: about one screen, as long names wrap."""

_BAR_WIDTHS = (20, 40)
"""Least and most columns of an interval bar; it widens where the names leave room."""

_BARS_FROM = 76
"""Width of a terminal below which there are no bars."""

_FIGURES_WIDTH = 38
"""Columns of the counts and of the rate, with the gaps around the name and the bar."""

_MISSING_WIDTH = 9
"""What a bar gives up for the column of missing trials."""


def verdict_text(account: Account, look: Look, *, rows: int = MAX_ROWS) -> str:
    """The verdict as lines of text; only that outcomes are sealed while they are.

    At most about `rows` conditions are listed, those of the headline first; the others are
    counted by how their contrasts read.
    """
    if account.is_sealed():
        return withheld_text(account, look)
    return draw(_verdict(account, look, rows), look)


def withheld_text(account: Account, look: Look) -> str:
    """That outcomes may not be shown yet, and what may."""
    parts = [
        look.text(f"{words.SEALED_MARK} SEALED  {one_line(account.plan.title)}", "bold"),
        indent(look.text(_identity(account))),
        indent(look.text(words.withheld(account))),
        *_end(account, look),
    ]
    return draw(parts, look)


def compare_text(account: Account, look: Look) -> str:
    """The policies side by side on the same records, saying which one was declared."""
    if account.is_sealed():
        return withheld_text(account, look)
    table = columns(look, ("policy", "verdict", "decided by", "figures"))
    table.columns[1].no_wrap = True
    for verdict in (account.verdict, *account.others):
        table.add_row(*_comparison(verdict, look, declared=account.is_declared(verdict)))
    parts = [
        look.text(one_line(account.plan.title), "bold"),
        *_records(account, look),
        Text(),
        indent(table),
        Text(),
        indent(look.text(words.which_declared(account))),
        *_next(account, look),
    ]
    return draw(parts, look)


def _comparison(verdict: Verdict, look: Look, *, declared: bool) -> list[Text]:
    contrast = headline_of(verdict)
    name = verdict.policy.name
    return [
        look.text(f"{name} (declared)" if declared else name),
        look.status(verdict.status),
        look.text(words.deciding(verdict.contrasts, verdict.headline)),
        look.text(", ".join(_compared(contrast)) or "–"),
    ]


def _compared(contrast: ContrastVerdict) -> Iterator[str]:
    p, spanned = contrast.figure("p_established"), limits(contrast)
    if p is not None:
        yield words.p_value(p)
    if spanned is not None:
        yield spanned
    if contrast.tipping is not None:
        yield f"tipping {contrast.tipping}"


def _verdict(account: Account, look: Look, rows: int) -> Iterator[RenderableType]:
    verdict, contrast = account.verdict, account.headline()
    yield (
        look.status(verdict.status)
        .append("  ")
        .append(look.text(one_line(account.plan.title), "bold"))
    )
    yield indent(look.text(_identity(account)))
    yield Text()
    yield indent(look.text(words.claim(account)))
    yield Text()
    yield from _arms(account, look, rows)
    if contrast.gates:
        yield Text()
        yield indent(gate_table(contrast.gates, look))
    yield from _figures(contrast, look)
    yield Text()
    yield from _listed("ruled out", words.ruled_out(account), look)
    yield from _listed("not shown, or assumed", words.not_shown(account), look)
    yield from _why(account, look)
    yield from _end(account, look)


def _identity(account: Account) -> str:
    plan, verdict = account.plan, account.verdict
    declared = "declared" if account.is_declared(verdict) else "exploratory, not declared"
    parts = [f"policy {verdict.policy.name} ({declared})", f"plan {plan.short_name()}"]
    if plan.issue is not None:
        parts.append(f"issue {one_line(plan.issue)}")
    return " · ".join(parts)


def _arms(account: Account, look: Look, rows: int) -> Iterator[RenderableType]:
    listed, folded = _listing(account, rows)
    arms = [account.arm(index) for index in listed]
    yield indent(_arm_table(arms, look))
    for arm in arms:
        because = words.unresolved_because(arm.tally)
        if because:
            yield indent(look.text(f"unresolved under {words.arm_name(arm)}: {because}"))
    confidences = dict.fromkeys(arm.rate.confidence for arm in arms if arm.rate is not None)
    for confidence in confidences:
        yield indent(look.text(f"{level(confidence)} intervals, each condition by itself", "dim"))
    for line in folded:
        yield indent(look.text(line))
    for name, tallies in account.secondary:
        counted = ", ".join(
            f"{words.arm_name(Arm(account.plan.conditions[i], tallies[i], None))} "
            f"{words.share(tallies[i])}"
            for i in listed
        )
        yield indent(look.text(f"also counted, {one_line(name)}: {counted}"))


def _listing(account: Account, rows: int) -> tuple[list[int], list[str]]:
    """The conditions to list, by position, and lines on the contrasts that are not listed."""
    order = list(Status)
    ranked = sorted(
        account.verdict.contrasts,
        key=lambda c: (c is not account.headline(), order.index(c.status), c.contrast),
    )
    listed: dict[int, None] = {}
    left: dict[Status, int] = {}
    for contrast in ranked:
        pair = account.contrast(contrast)
        wanted = dict.fromkeys((pair.treatment, pair.control))
        if listed and len(listed | wanted) > rows:
            left[contrast.status] = left.get(contrast.status, 0) + 1
        else:
            listed |= wanted
    lines = [f"and {count} more contrasts that read {status}" for status, count in left.items()]
    if lines:
        lines.append("`--json` and `explain` list every contrast")
    return list(listed), lines


def _arm_table(arms: Iterable[Arm], look: Look) -> Table:
    shown = list(arms)
    missing = any(arm.tally.missing for arm in shown)
    names = [f"{arm.condition.role} {one_line(arm.condition.name)}" for arm in shown]
    width = _bar_width(look, names) - _MISSING_WIDTH * missing
    table = columns(look, ("condition",))
    for title in ("matched /valid", "unresolved", *(["missing"] * missing)):
        least = max(len(word) for word in title.split())
        table.add_column(look.text(title), justify="right", header_style="dim", width=least)
    if width > 0:
        scale = f"0 %{'100 %':>{width - 3}}"
        table.add_column(look.text(scale), no_wrap=True, min_width=width, header_style="dim")
    table.add_column(look.text("rate"), no_wrap=True, min_width=11, header_style="dim")
    for name, arm in zip(names, shown, strict=True):
        tally = arm.tally
        cells = [name, words.share(tally), str(tally.unresolved)]
        cells += [str(tally.missing)] * missing
        row = [look.text(cell) for cell in cells]
        if width > 0:
            row.append(Text(bar(arm, width=width, unicode=look.unicode)))
        table.add_row(*row, look.text(interval(arm.rate)))
    return table


def _bar_width(look: Look, names: Iterable[str]) -> int:
    """The columns of a bar, with those that a column of missing trials would take; 0 for none."""
    if look.width < _BARS_FROM:
        return 0
    least, most = _BAR_WIDTHS
    return max(least, min(most, look.width - _FIGURES_WIDTH - max(map(len, names))))


def gate_table(gates: Iterable[Gate], look: Look) -> Table:
    """The gates of a policy: the mark, the rule, what was declared and what was measured."""
    table = columns(look, ("", words.GATES, "declared", "measured"))
    for gate in gates:
        cells = (look.text(text) for text in (gate.title, gate.declared, gate.measured))
        table.add_row(look.holds(holds=gate.holds), *cells)
    return table


def _figures(contrast: ContrastVerdict, look: Look) -> Iterator[RenderableType]:
    lines = []
    shown = difference(contrast)
    if shown is not None:
        lines.append(f"difference {shown}")
    tipping = words.tipping(contrast)
    if tipping is not None:
        lines.append(tipping)
    if lines:
        yield Text()
    for line in lines:
        yield indent(look.text(line))


def _listed(title: str, lines: tuple[str, ...], look: Look) -> Iterator[RenderableType]:
    if lines:
        yield indent(look.text(title, "bold"))
    for line in lines:
        yield indent(item(look, line), 4)


def _why(account: Account, look: Look) -> Iterator[RenderableType]:
    lines = tuple(
        f"{reason}: {known.meaning}. {known.remedy[0].upper()}{known.remedy[1:]}."
        for reason, known in words.reason_lines(account)
    )
    yield from _listed("why", lines, look)


def _end(account: Account, look: Look) -> Iterator[RenderableType]:
    yield Text()
    if account.stop is not None:
        yield indent(look.text(f"stopped: {one_line(account.stop)}"))
    if account.places:
        ran = ", ".join(f"{place.name} {place.value}" for place in account.places)
        yield indent(look.text(f"ran on: {one_line(ran)}"))
    yield indent(look.text(words.siblings(account)))
    yield from _records(account, look)
    yield from _next(account, look)


def _records(account: Account, look: Look) -> Iterator[RenderableType]:
    place = f"ledger {one_line(account.ledger)} · {account.entries} entries"
    yield indent(look.text(f"{place} · {account.investigation}"))
    yield indent(look.text(f"root {account.root}"))


def _next(account: Account, look: Look) -> Iterator[RenderableType]:
    if account.next_commands:
        yield look.text(f"Next:  {' · '.join(one_line(c) for c in account.next_commands)}", "bold")
