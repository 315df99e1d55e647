"""The trials of an investigation as CSV, one row each, safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from matrices import Plan
from policies import Outcome, Reason
from reproduce.report.text import one_line

OPEN_COLUMNS = ("trial", "block", "condition", "attempt", "seed", "worker", "started_us")
"""What may be shown while outcomes are sealed."""

SEALED_COLUMNS = (
    "ending",
    "code",
    "duration_us",
    "cpu_us",
    "max_rss_kb",
    "leftovers",
    "detail",
)
"""What tells an outcome or comes close to it; a duration tells of a hang."""

STREAM_COLUMNS = ("stdout", "stderr")

HEADER = (
    *OPEN_COLUMNS,
    "name",
    "role",
    "outcome",
    "reason",
    *SEALED_COLUMNS,
    *(f"{stream}_{part}" for stream in STREAM_COLUMNS for part in ("size", "sha256")),
    "knobs_not_applied",
)

FORMULA_STARTS = "=+-@\t\r\n＝＋－＠"
"""Characters that make a spreadsheet compute what follows (OWASP, CSV injection)."""

Cell = str | int | None


class TrialRow(NamedTuple):
    """One observation, as it was parsed from its canonical bytes, and how it reads."""

    body: Mapping[str, Any]
    outcome: Outcome
    reason: Reason | None


def trial_csv(plan: Plan, rows: Iterable[TrialRow], *, sealed: bool) -> Iterator[str]:
    """The header and one line for each row, in the order given; every line ends in a line feed.

    While `sealed` the columns that tell an outcome are empty.
    """
    yield _line(HEADER)
    for row in rows:
        yield _line([_safe(cell) for cell in _cells(plan, row, sealed=sealed)])


def _cells(plan: Plan, row: TrialRow, *, sealed: bool) -> list[Cell]:
    body = row.body
    condition = plan.conditions[body["condition"]]
    cells: list[Cell] = [body[name] for name in OPEN_COLUMNS]
    cells += [condition.name, condition.role.value]
    if sealed:
        return cells + [None] * (len(HEADER) - len(cells))
    cells += [row.outcome.value, None if row.reason is None else row.reason.value]
    cells += [body[name] for name in SEALED_COLUMNS]
    for stream in STREAM_COLUMNS:
        cells += [body[stream]["size"], body[stream]["sha256"]]
    cells.append(" ".join(body["knobs_not_applied"]))
    return cells


def _safe(cell: Cell) -> Cell:
    if not isinstance(cell, str):
        return cell
    # A leading tab or line break is a danger of its own, so the text is judged before and after
    # it is made printable.
    shown = one_line(cell)
    starts = cell[:1] + shown[:1]
    return f"'{shown}" if any(start in FORMULA_STARTS for start in starts) else shown


def _line(cells: Iterable[Cell]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerow(cells)
    return file.getvalue()
