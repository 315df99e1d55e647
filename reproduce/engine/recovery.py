"""What earlier sessions of an investigation left: recorded trials, spooled results, lost attempts."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from ledger.records import Ending, EntryKind
from ledger.store import LedgerStore, StoredEntry
from matrices import Plan, Schedule, Symptom, Trial, schedule
from policies.evidence import facts_of
from policies.model import Outcome
from policies.reading_v1 import read
from reproduce.engine.recorder import Recorder
from reproduce.engine.worlds import Worlds
from reproduce.errors import InfrastructureError
from reproduce.executors.model import Order
from reproduce.executors.spool import Spool, read_spool, wait_until_gone

GONE_S = 30.0
"""How long the processes of a killed driver are given to disappear."""


class Recovered(NamedTuple):
    """Where a session begins."""

    next_block: int
    """The first block of which no trial was ever intended."""
    redo: tuple[tuple[Trial, int], ...]
    """Intended trials that provably never started, with their next attempt, in schedule order."""
    whole_blocks: int
    """Blocks of the unbroken prefix whose trials all have a record."""
    partial: Mapping[int, int]
    """Recorded trials of later blocks, by block."""
    recorded: int
    unresolved: int
    spent_us: int
    """Time that earlier sessions ran for, as far as their entries show."""


class Session(NamedTuple):
    """One start of a driver, as its intents tell."""

    boot: str
    slots: int
    blocks: tuple[tuple[int, int], ...]


class History(NamedTuple):
    """What the entries of an investigation say about its trials."""

    recorded: bytearray
    """One byte for each trial up to the last intended one: 1 where it has a terminal record."""
    attempts: Mapping[int, int]
    """For trials that were tried and never started, the next attempt."""
    sessions: Mapping[str, Session]
    end_block: int
    unresolved: int
    spent_us: int


def history(plan: Plan, entries: Iterable[StoredEntry]) -> History:
    """Reads the entries once; memory grows by one byte for each intended trial."""
    size = len(plan.conditions)
    recorded = bytearray()
    attempts: dict[int, int] = {}
    sessions: dict[str, Session] = {}
    symptom = plan.symptom()
    end_block = unresolved = spent = 0
    began = last = 0
    for entry in entries:
        if entry.kind in {EntryKind.PLAN, EntryKind.APPROVAL}:
            continue
        value = orjson.loads(entry.body)
        body, at = value["body"], value["recorded_us"]
        if entry.kind == EntryKind.INTENT:
            if body["session"] not in sessions:
                spent += max(0, last - began)
                began = at
            sessions[body["session"]] = _extended(sessions.get(body["session"]), body)
            end_block = max(end_block, body["end_block"])
            recorded.extend(bytes(max(0, end_block * size - len(recorded))))
        elif entry.kind == EntryKind.OBSERVATION:
            recorded[body["trial"]] = 1
            unresolved += _is_unresolved(symptom, body)
        elif entry.kind == EntryKind.ATTEMPT_NEVER_STARTED:
            attempts[body["trial"]] = body["attempt"] + 1
        last = at
    spent += max(0, last - began)
    return History(recorded, attempts, sessions, end_block, unresolved, spent)


def _is_unresolved(symptom: Symptom, body: Mapping[str, Any]) -> bool:
    return read(symptom, facts_of(body, symptom.name)).outcome is Outcome.UNRESOLVED


def _extended(session: Session | None, body: Mapping[str, Any]) -> Session:
    blocks = (body["first_block"], body["end_block"])
    if session is not None:
        return session._replace(blocks=(*session.blocks, blocks))
    slots = next((int(s["value"]) for s in body["place"] if s["name"] == "slots"), 0)
    return Session(boot=body["boot"], slots=slots, blocks=(blocks,))


def recover(
    worlds: Worlds,
    store: LedgerStore,
    investigation: str,
    recorder: Recorder,
    *,
    spools: Path,
    boot: str,
) -> Recovered:
    """Adopts spooled results, closes started attempts without an end, and says where to go on.

    A trial whose start cannot be excluded and whose end is not there becomes a record with the
    ending `driver_lost`; it is never run again. What this writes is durable when it returns.

    Raises:
        InfrastructureError: processes of an earlier session are still there.
    """
    plan = worlds.plan
    past = history(plan, store.entries(investigation))
    plan_schedule = schedule(plan)
    for name, session in past.sessions.items():
        spooled = _spools(spools / name, slots=session.slots)
        if _is_torn(spools / name):
            # What stood before the damage is unknown: as after another boot.
            session = session._replace(boot="")  # noqa: PLW2901 - the session as it can be read
        _adopt(worlds, session, spooled, past, recorder)
        for order, slot in _suspects(worlds, plan_schedule, session, spooled, past, boot=boot):
            recorder.lost(
                order, slot=slot, ending=Ending.DRIVER_LOST, detail="the driver was lost"
            )
            past.recorded[order.number] = 1
    recorder.flush()
    return _where(plan_schedule, past)


def _spools(folder: Path, *, slots: int) -> list[Spool]:
    """The spools of a session's own slots, once the processes that wrote them are gone."""
    found = []
    for path in sorted(folder.glob("*.spool")):
        spool = read_spool(path)
        if spool.header is not None and not 0 <= spool.header.slot < slots:
            continue
        if spool.header is not None and not wait_until_gone(spool.header, GONE_S):
            message = "processes of an earlier run are still there"
            raise InfrastructureError(message, place=str(path), hint="end them, then `run` again")
        # Read again: the host may have written its last frame while it was ending.
        found.append(read_spool(path))
    return found


def _is_torn(folder: Path) -> bool:
    """Whether a spool of the session holds something and does not say whose it is."""
    return any(
        path.stat().st_size > 0 and read_spool(path).header is None
        for path in folder.glob("*.spool")
    )


def _adopt(
    worlds: Worlds, session: Session, spooled: list[Spool], past: History, recorder: Recorder
) -> None:
    """Records the spooled reports that can be of this session's trials.

    A trial runs as the user who owns the spools. A report that no order of the session's slots can
    have led to is nobody's evidence, and its trial is then closed as lost.
    """
    plan_schedule = schedule(worlds.plan)
    for spool in spooled:
        for report in spool.reports:
            if report.number >= len(past.recorded) or past.recorded[report.number]:
                continue
            if not any(first <= report.block < end for first, end in session.blocks):
                continue
            order = worlds.order(plan_schedule.trial(report.number), attempt=report.attempt)
            asked = (order.block, order.condition, order.seed)
            if asked != (report.block, report.condition, report.seed):
                continue
            recorder.observe(report)
            past.recorded[report.number] = 1


def _suspects(
    worlds: Worlds,
    plan_schedule: Schedule,
    session: Session,
    spooled: list[Spool],
    past: History,
    *,
    boot: str,
) -> Iterator[tuple[Order, int]]:
    """Trials without a record whose start in this session cannot be excluded."""
    slots = {spool.header.slot for spool in spooled if spool.header is not None}
    if session.boot == boot and len(slots) >= session.slots:
        for spool in spooled:
            slot = spool.header.slot if spool.header is not None else 0
            for number, attempt in spool.started:
                if number < len(past.recorded) and not past.recorded[number]:
                    yield worlds.order(plan_schedule.trial(number), attempt=attempt), slot
        return
    # After another boot the unsynced end of a spool may be gone, and a missing spool says
    # nothing: any intended trial may have started.
    for first, end in session.blocks:
        for block in range(first, end):
            for trial in plan_schedule.block(block):
                if not past.recorded[trial.number]:
                    attempt = past.attempts.get(trial.number, 0)
                    yield worlds.order(trial, attempt=attempt), 0


def _where(plan_schedule: Schedule, past: History) -> Recovered:
    size = plan_schedule.conditions
    redo: list[tuple[Trial, int]] = []
    partial: dict[int, int] = {}
    whole = past.end_block
    for block in range(past.end_block):
        held = past.recorded[block * size : (block + 1) * size]
        if all(held):
            if block > whole:
                partial[block] = size
            continue
        whole = min(whole, block)
        partial[block] = sum(held)
        redo += [
            (trial, past.attempts.get(trial.number, 0))
            for trial in plan_schedule.block(block)
            if not past.recorded[trial.number]
        ]
    return Recovered(
        next_block=past.end_block,
        redo=tuple(redo),
        whole_blocks=whole,
        partial={block: count for block, count in partial.items() if count},
        recorded=sum(past.recorded),
        unresolved=past.unresolved,
        spent_us=past.spent_us,
    )
