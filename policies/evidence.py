"""Evidence: the records of an investigation as columns in schedule order."""

from array import array
from collections.abc import Iterable, Iterator, Mapping
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

_KINDS = (np.int64, np.int32, np.int8, np.int8, np.int32, np.int64, np.int64)
"""Of the trial's number and then of each column, in the order of `Evidence`."""

_WIDTH = len(_KINDS)
_PORTION = 65_536
"""Rows gathered before they are packed: a few megabytes."""

Int8: TypeAlias = NDArray[np.int8]
Int32: TypeAlias = NDArray[np.int32]
Int64: TypeAlias = NDArray[np.int64]

_Part: TypeAlias = tuple[NDArray[Any], ...]

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
    workers: dict[str, int] = {}
    parts: list[_Part] = []
    # Rows are gathered as plain numbers and packed in portions: a million rows of tuples would
    # take a gigabyte, and wide columns of all of them twice what the packed ones take.
    flat = array("q")
    for row in _rows(wanted, observations, workers):
        flat.extend(row)
        if len(flat) >= _PORTION * _WIDTH:
            parts.append(_packed(flat))
            flat = array("q")
    parts.append(_packed(flat))
    return _columns(parts, tuple(workers), conflicts=conflicts, unsealed=unsealed)


def _rows(
    symptom: Symptom, observations: Iterable[Body], workers: dict[str, int]
) -> Iterator[tuple[int, ...]]:
    """Trial, condition, outcome, reason, worker, seed and start of each observation."""
    name, timed = symptom.name, isinstance(symptom, DurationSymptom)
    codes: dict[Facts, tuple[int, int]] = {}
    for body in observations:
        facts = facts_of(body, name, timed=timed)
        # Equal facts read the same, and most are equal; durations hardly ever are.
        code = codes.get(facts)
        if code is None:
            code = _codes(read(symptom, facts))
            if not timed:
                codes[facts] = code
        worker = workers.setdefault(body["worker"], len(workers))
        yield (body["trial"], body["condition"], *code, worker, body["seed"], body["started_us"])


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


def _packed(flat: "array[int]") -> _Part:
    """The rows of a portion, each column as narrow as it may be."""
    rows = np.frombuffer(flat, dtype=np.int64).reshape(-1, _WIDTH)
    return tuple(
        np.ascontiguousarray(rows[:, column], dtype=kind) for column, kind in enumerate(_KINDS)
    )


def _columns(
    parts: list[_Part], workers: tuple[str, ...], *, conflicts: int, unsealed: bool
) -> Evidence:
    length = max((int(part[0].max()) + 1 for part in parts if len(part[0])), default=0)
    columns: list[NDArray[Any]] = [np.full(length, NOTHING, dtype=kind) for kind in _KINDS[1:]]
    columns[1][:] = MISSING
    # Written backwards, so that of several rows for one trial the first given stays.
    while parts:
        trials, *values = parts.pop()
        for column, value in zip(columns, values, strict=True):
            column[trials[::-1]] = value[::-1]
    condition, outcome, reason, worker, seed, started_us = columns
    return Evidence(
        condition=condition,
        outcome=outcome,
        reason=reason,
        worker=worker,
        seed=seed,
        started_us=started_us,
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
