"""What `reproduce ledger` does, once heavy libraries may be loaded."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import typer

from ledger.errors import TamperedError
from ledger.records import EntryKind
from ledger.store import InvestigationRow
from matrices import short_plan
from reproduce.cli.opening import Opened, find, ledger
from reproduce.cli.output import emit, emit_json, say
from reproduce.cli.reading import Reading, account, verify_ledger
from reproduce.errors import UsageError
from reproduce.judging import bodies
from reproduce.report.text import one_line, printable

SEALED = frozenset({EntryKind.OBSERVATION, EntryKind.LATE_RESULT, EntryKind.CONFLICT})
"""Kinds that tell outcomes."""


def list_investigations(*, ledger_path: Path | None, as_json: bool) -> None:
    """Prints one line for each investigation."""
    with ledger(ledger_path) as opened:
        rows = opened.store.investigations()
    if as_json:
        emit_json({"schema": "reproduce.ledger/1", "investigations": [_row(row) for row in rows]})
        return
    for row in rows:
        state = "finished" if row.closed else "open"
        emit(f"{row.id}  {short_plan(row.plan)}  {state:<8}  {row.size:>7}  {one_line(row.title)}")


def _row(row: InvestigationRow) -> dict[str, object]:
    return {
        "investigation": row.id,
        "plan": row.plan,
        "title": row.title,
        "issue": row.issue,
        "opened_us": row.opened_us,
        "entries": row.size,
        "closed": row.closed,
    }


def show_entries(name: str, *, ledger_path: Path | None, unseal: bool, as_json: bool) -> None:
    """Prints the entries; what tells outcomes is withheld while they are sealed."""
    with ledger(ledger_path) as opened:
        row = find(opened.store, name)
        sealed = _sealed(opened, row, unseal=unseal)
        for entry in opened.store.entries(row.id):
            value = orjson.loads(entry.body)
            body = value["body"]
            if sealed and entry.kind in SEALED:
                body = {"trial": body.get("trial"), "withheld": "outcomes are sealed"}
            if as_json:
                emit(orjson.dumps({**value, "body": body}).decode())
            else:
                emit(f"{entry.seq:>7}  {entry.kind:<12}  {entry.key:<24}  {_short(body)}")


def _short(body: Mapping[str, Any]) -> str:
    return one_line(orjson.dumps(body).decode(), limit=100)


def _sealed(opened: Opened, row: InvestigationRow, *, unseal: bool) -> bool:
    return account(opened, row, Reading(unseal=unseal)).is_sealed()


def show_log(name: str, trial: int, *, ledger_path: Path | None, unseal: bool) -> None:
    """Prints the stored output of one trial."""
    with ledger(ledger_path) as opened:
        row = find(opened.store, name)
        if _sealed(opened, row, unseal=unseal):
            hint = "wait for the end, or `--unseal`, which is recorded"
            raise UsageError("outcomes are sealed while trials may follow", hint=hint)
        body = next((one for one in bodies(opened.store, row.id) if one["trial"] == trial), None)
        if body is None:
            message = f"no record of trial {trial}"
            raise UsageError(message, hint="`reproduce ledger show` lists the records")
        for stream in ("stdout", "stderr"):
            facts = body[stream]
            say(f"--- {stream}: {facts['size']} bytes, {facts['stored']} stored")
            data = opened.store.blob(facts["sha256"]) or b""
            emit(printable(data.decode("utf-8", errors="replace"), lines=True))


def rebuild(name: str, *, ledger_path: Path | None) -> None:
    """Makes the projections of an investigation anew."""
    with ledger(ledger_path) as opened:
        row = find(opened.store, name)
        count = opened.store.rebuild(row.id)
    emit(f"{count} observations written for {row.id}")


def audit(*, ledger_path: Path | None, as_json: bool) -> None:
    """Verifies every investigation of the ledger."""
    try:
        with ledger(ledger_path) as opened:
            rows = opened.store.investigations()
            path = opened.shown
    except TamperedError as error:
        raise typer.Exit(6) from error
    if not rows:
        say("the ledger is empty")
    verify_ledger(path, ledger_path=None, as_json=as_json)
