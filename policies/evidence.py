"""Evidence: the records of an investigation as columns in schedule order."""

from array import array
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from matrices import DurationSymptom, Plan, Symptom
from policies.model import Outcome, Reason, Tally
from policies.reading_v1 import Facts, Read, read

OUTCOMES = tuple(Outcome)
"""An outcome's code in a column is its position here."""

REASONS = tuple(Reason)
"""A reason's code in a column is its position here."""

MISSING = len(OUTCOMES)
"""Outcome code of a planned trial without a terminal record."""

NOTHING = -1
"""Fills the columns of missing trials, and the reasons of resolved ones."""

_WIDTH = 7
"""Numbers kept of an observation while the columns are gathered."""

Int8: TypeAlias = NDArray[np.int8]
Int32: TypeAlias = NDArray[np.int32]
Int64: TypeAlias = NDArray[np.int64]

Body: TypeAlias = Mapping[str, Any]
"""An observation as it was parsed from its canonical bytes."""


class Evidence(NamedTuple):
    """One row for each trial up to the last recorded one, by its number in the schedule."""

    condition: Int32
    outcome: Int8
    reason: Int8
    worker: Int32
    seed: Int64
    started_us: Int64
    workers: tuple[str, ...] = ()
    """The names that the `worker` column points at."""
    conflicts: int = 0
    """Entries that hold a second content under the key of an earlier one."""
    unsealed: bool = False
    """Whether outcomes were looked at before the policy allowed a look."""

    def whole_blocks(self, plan: Plan) -> int:
        """How many blocks, counted from the first, have a record for every trial."""
        size = len(plan.conditions)
        whole = len(self.outcome) // size
        gaps = np.flatnonzero(self.outcome[: whole * size] == MISSING)
        return int(gaps[0]) // size if len(gaps) else whole


def evidence_of(
    plan: Plan,
    observations: Iterable[Body],
    *,
    symptom: Symptom | None = None,
    conflicts: int = 0,
    unsealed: bool = False,
) -> Evidence:
    """The evidence for one symptom, by default the primary one.

    The observations come in any order; of several for one trial the first given counts.
    """
    wanted = symptom or plan.symptom()
    name = wanted.name
    timed = isinstance(wanted, DurationSymptom)
    codes: dict[Facts, tuple[int, int]] = {}
    workers: dict[str, int] = {}
    # One flat array of seven numbers a row: a million rows of tuples would take a gigabyte.
    flat = array("q")
    for body in observations:
        facts = facts_of(body, name, timed=timed)
        # Equal facts read the same, and most are equal.
        code = codes.get(facts)
        if code is None:
            code = codes[facts] = _codes(read(wanted, facts))
        worker = workers.setdefault(body["worker"], len(workers))
        row = (body["trial"], body["condition"], *code, worker, body["seed"], body["started_us"])
        flat.extend(row)
    rows = np.frombuffer(flat, dtype=np.int64).reshape(-1, _WIDTH)
    return _columns(rows, tuple(workers), conflicts=conflicts, unsealed=unsealed)


def _codes(reading: Read) -> tuple[int, int]:
    reason = NOTHING if reading.reason is None else REASONS.index(reading.reason)
    return OUTCOMES.index(reading.outcome), reason


def facts_of(body: Body, symptom: str, *, timed: bool = True) -> Facts:
    """What a reading looks at, for the symptom of this name.

    Without `timed` the duration is given as 0, for symptoms that do not read it.
    """
    found = body["findings"]
    return Facts(
        body["ending"],
        body["code"],
        body["duration_us"] if timed else 0,
        body["stdout"]["truncated"],
        body["stderr"]["truncated"],
        tuple([(f["name"], f["value"]) for f in found if f["symptom"] == symptom])
        if found
        else (),
        bool(body["knobs_not_applied"]),
    )


def _columns(rows: Int64, workers: tuple[str, ...], *, conflicts: int, unsealed: bool) -> Evidence:
    length = int(rows[:, 0].max()) + 1 if len(rows) else 0
    table = np.full((length, _WIDTH), NOTHING, dtype=np.int64)
    table[:, 2] = MISSING
    # Written backwards, so that of several rows for one trial the first given stays.
    table[rows[::-1, 0]] = rows[::-1]
    return Evidence(
        condition=table[:, 1].astype(np.int32),
        outcome=table[:, 2].astype(np.int8),
        reason=table[:, 3].astype(np.int8),
        worker=table[:, 4].astype(np.int32),
        seed=np.ascontiguousarray(table[:, 5]),
        started_us=np.ascontiguousarray(table[:, 6]),
        workers=workers,
        conflicts=conflicts,
        unsealed=unsealed,
    )


def tallies(plan: Plan, evidence: Evidence) -> tuple[Tally, ...]:
    """The trials of every condition, counted; the four counts add up to the planned trials."""
    size = len(plan.conditions)
    held = evidence.outcome != MISSING
    condition = evidence.condition[held].astype(np.int64)
    counts = np.bincount(
        condition * MISSING + evidence.outcome[held], minlength=size * MISSING
    ).reshape(size, MISSING)
    open_ = held & (evidence.reason != NOTHING)
    why = np.bincount(
        evidence.condition[open_].astype(np.int64) * len(REASONS) + evidence.reason[open_],
        minlength=size * len(REASONS),
    ).reshape(size, len(REASONS))
    return tuple(
        Tally(
            condition=index,
            role=plan.conditions[index].role,
            planned=plan.budget.trials,
            matched=int(row[0]),
            clean=int(row[1]),
            unresolved=int(row[2]),
            missing=plan.budget.trials - int(row.sum()),
            reasons=tuple(
                (reason, int(count))
                for reason, count in zip(REASONS, why[index], strict=True)
                if count
            ),
        )
        for index, row in enumerate(counts)
    )
