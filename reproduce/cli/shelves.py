"""What `reproduce ledger` does, once heavy libraries may be loaded."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from ledger.records import EntryKind
from ledger.store import InvestigationRow, StoredEntry
from matrices import short_plan
from reproduce.cli.opening import Opened, find, ledger
from reproduce.cli.output import emit, emit_json, say
from reproduce.cli.reading import Reading, account, verify_ledger
from reproduce.errors import UsageError
from reproduce.judging import bodies
from reproduce.report.text import one_line, printable
from reproduce.state import nearest_state

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
        emit(
            f"{one_line(row.id)}  {short_plan(row.plan)}  {state:<8}  {row.size:>7}"
            f"  {one_line(row.title)}"
        )


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
        shown = (_shown(entry, sealed=sealed) for entry in opened.store.entries(row.id))
        if as_json:
            _emit_entries(row.id, shown)
            return
        for value in shown:
            seq, kind, key = (one_line(str(value[name])) for name in ("seq", "kind", "key"))
            emit(f"{seq:>7}  {kind:<12}  {key:<24}  {_short(value['body'])}")


def _shown(entry: StoredEntry, *, sealed: bool) -> dict[str, Any]:
    """An entry as it may be shown."""
    value: dict[str, Any] = orjson.loads(entry.body)
    if sealed and entry.kind in SEALED:
        value["body"] = {"trial": value["body"].get("trial"), "withheld": "outcomes are sealed"}
    return value


def _emit_entries(investigation: str, entries: Iterator[dict[str, Any]]) -> None:
    """One document, written as it is read: a ledger may be larger than memory."""
    named = json.dumps(investigation)
    emit(f'{{"schema": "reproduce.entries/1", "investigation": {named}, "entries": [')
    for index, value in enumerate(entries):
        # In ASCII: what strangers wrote must not move a cursor.
        emit(("," if index else "") + json.dumps(value, separators=(",", ":")))
    emit("]}")


def _short(body: Mapping[str, Any]) -> str:
    return one_line(orjson.dumps(body).decode(), limit=100)


def _sealed(opened: Opened, row: InvestigationRow, *, unseal: bool) -> bool:
    return account(opened, row, Reading(unseal=unseal)).is_sealed()


def show_log(
    name: str, trial: int, *, ledger_path: Path | None, unseal: bool, as_json: bool
) -> None:
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
        texts = {
            stream: _stored_text(opened, body[stream]["sha256"]) for stream in ("stdout", "stderr")
        }
    if as_json:
        emit_json({"schema": "reproduce.log/1", "observation": body, **texts})
        return
    for stream, text in texts.items():
        size, stored = body[stream]["size"], body[stream]["stored"]
        say(one_line(f"--- {stream}: {size} bytes, {stored} stored"))
        emit(text)


def _stored_text(opened: Opened, sha256: str) -> str:
    data = opened.store.blob(sha256) or b""
    return printable(data.decode("utf-8", errors="replace"), lines=True)


def rebuild(name: str, *, ledger_path: Path | None, as_json: bool) -> None:
    """Makes the projections of an investigation anew."""
    with ledger(ledger_path) as opened:
        row = find(opened.store, name)
        count = opened.store.rebuild(row.id)
    if as_json:
        emit_json({"schema": "reproduce.rebuild/1", "investigation": row.id, "written": count})
    else:
        emit(f"{count} observations written for {one_line(row.id)}")


def audit(*, ledger_path: Path | None, as_json: bool) -> None:
    """Verifies every investigation of the ledger."""
    path = ledger_path or nearest_state(Path.cwd()).ledger
    if not path.is_file():
        raise UsageError(f"no ledger is at `{path}`", hint="`--ledger PATH` names one")
    verify_ledger(str(path), ledger_path=None, as_json=as_json)
