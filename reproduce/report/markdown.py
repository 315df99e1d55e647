"""A verdict as Markdown for an issue, in which no stranger's text can link, mention or format."""

import re
from collections.abc import Iterable, Iterator

from policies import ContrastVerdict, Gate
from reproduce.report import words
from reproduce.report.figures import bar, difference, interval, level
from reproduce.report.model import Account, Arm
from reproduce.report.text import one_line
from reproduce.report.words import MARKS, SEALED_MARK

MAX_BYTES = 64 * 1024
"""What issue trackers take in one comment."""

MAX_TITLE = 200
MAX_CONDITIONS = 24
"""Conditions in the table; the others are counted."""

BAR_WIDTH = 32

_CUT = "_Cut at 64 KiB. `reproduce export -f json` has everything._"

_BREAK = "&#8203;"
"""A space of no width: behind it a name, a number or an address is plain text."""

_WRITTEN = {
    **{char: f"\\{char}" for char in "\\`*_[]|~$"},
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "@": f"@{_BREAK}",
    "#": f"\\#{_BREAK}",
    "\0": "\\",
    "\1": _BREAK,
}
"""Characters that format, embed, mention or link, and how each is written to show as itself.

No printable text holds 0 and 1, so these stand for what `escape` inserts.
"""

_LINKED = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)|(?<=\bgh-)(?=\d)", re.IGNORECASE)
"""Where an address or the number of an issue would become a link."""

_BLOCK = re.compile(r"^(?:(?=[-+=])|\d+(?=[.)](?:\s|$)))")
"""Where the first character of a text would begin a list or a heading."""


def verdict_markdown(account: Account) -> str:
    """The verdict within 64 KiB; only that outcomes are sealed while they are.

    Where it had to be cut, the last line says so.
    """
    lines = _withheld(account) if account.is_sealed() else _verdict(account)
    return _within(lines)


def escape(text: str, *, limit: int | None = None) -> str:
    """The text on one line, as Markdown that shows it as it is."""
    shown = _LINKED.sub("\1", one_line(text, limit=limit))
    broken = _BLOCK.sub(lambda start: f"{start[0]}\0", shown)
    return "".join(_WRITTEN.get(char, char) for char in broken)


def _within(lines: Iterable[str]) -> str:
    """The lines up to the limit, whole; the limit counts the note that they were cut."""
    kept: list[str] = []
    size = 0
    room = MAX_BYTES - len(_CUT) - 2
    for line in lines:
        size += len(line.encode()) + 1
        if size > room:
            kept += ["", _CUT]
            break
        kept.append(line)
    return "\n".join(kept) + "\n"


def _withheld(account: Account) -> Iterator[str]:
    yield f"### {SEALED_MARK} SEALED: {escape(account.plan.title, limit=MAX_TITLE)}"
    yield ""
    yield escape(words.withheld(account))
    yield ""
    yield from _records(account)


def _verdict(account: Account) -> Iterator[str]:
    verdict, contrast = account.verdict, account.headline()
    title = escape(account.plan.title, limit=MAX_TITLE)
    yield f"### {MARKS[verdict.status]} {verdict.status}: {title}"
    yield ""
    yield escape(words.claim(account))
    yield ""
    yield from _arms(account)
    shown = difference(contrast)
    if shown is not None:
        yield from ("", escape(f"Difference {shown}."))
    yield from _list("Ruled out", words.ruled_out(account))
    yield from _list("Not shown, or assumed", words.not_shown(account))
    why = (f"{reason}: {known.meaning}" for reason, known in words.reason_lines(account))
    yield from _list("Why", tuple(why))
    if contrast.gates:
        yield from ("", f"**Gates, {words.GATES}**", "")
        yield from _gates(contrast.gates)
    if account.others:
        yield from ("", "**Other policies on the same records**", "")
        yield from _others(account)
    yield ""
    yield from _records(account)


def _arms(account: Account) -> Iterator[str]:
    pairs = (account.contrast(c) for c in _ranked(account))
    order = list(dict.fromkeys(i for pair in pairs for i in (pair.treatment, pair.control)))
    arms = [account.arm(index) for index in order[:MAX_CONDITIONS]]
    confidences = {level(arm.rate.confidence) for arm in arms if arm.rate is not None}
    title = f"{' / '.join(sorted(confidences))} interval" if confidences else "interval"
    yield f"| condition | matched / valid | unresolved | missing | {title} | 0 to 100 % |"
    yield "| --- | ---: | ---: | ---: | --- | --- |"
    for arm in arms:
        yield _arm(arm)
    left = len(order) - len(arms)
    if left > 0:
        yield from ("", f"and {left} more conditions")


def _ranked(account: Account) -> list[ContrastVerdict]:
    headline = account.headline()
    return sorted(account.verdict.contrasts, key=lambda contrast: contrast is not headline)


def _arm(arm: Arm) -> str:
    tally = arm.tally
    because = words.unresolved_because(tally)
    unresolved = f"{tally.unresolved} ({escape(because)})" if because else str(tally.unresolved)
    cells = [
        escape(words.arm_name(arm)),
        words.share(tally),
        unresolved,
        str(tally.missing),
        interval(arm.rate),
        f"`{bar(arm, width=BAR_WIDTH)}`",
    ]
    return f"| {' | '.join(cells)} |"


def _gates(gates: tuple[Gate, ...]) -> Iterator[str]:
    yield "| | gate | declared | measured |"
    yield "| --- | --- | --- | --- |"
    for gate in gates:
        mark = "✓" if gate.holds else "✗"
        cells = " | ".join(escape(text) for text in (gate.title, gate.declared, gate.measured))
        yield f"| {mark} | {cells} |"


def _others(account: Account) -> Iterator[str]:
    yield "| policy | verdict | decided by |"
    yield "| --- | --- | --- |"
    for verdict in (account.verdict, *account.others):
        cells = (
            escape(verdict.policy.name),
            f"{MARKS[verdict.status]} {verdict.status}",
            escape(words.deciding(verdict.contrasts, verdict.headline)),
        )
        yield f"| {' | '.join(cells)} |"
    yield from ("", escape(words.which_declared(account)))


def _list(title: str, lines: tuple[str, ...]) -> Iterator[str]:
    if lines:
        yield from ("", f"**{title}**", "")
    for line in lines:
        yield f"- {escape(line)}"


def _records(account: Account) -> Iterator[str]:
    plan, policy = account.plan, account.verdict.policy.name
    declared = "declared" if account.is_declared(account.verdict) else "exploratory, not declared"
    yield f"Plan `{plan.digest()}` · policy {escape(policy)} ({declared})"
    if plan.issue is not None:
        yield f"· issue {escape(plan.issue, limit=MAX_TITLE)}"
    yield f"· {account.entries} entries, canonicalSha256 `{account.root}`"
    yield f"· {escape(words.siblings(account))}"
