"""Opens the ledger that a command is about, and finds the investigation that it names."""

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ledger.errors import LedgerError
from ledger.store import InvestigationRow, LedgerStore
from matrices import short_plan
from reproduce.errors import InfrastructureError, UsageError
from reproduce.running import open_store, refuse_tracked, translated
from reproduce.state import State, nearest_state


class Opened(NamedTuple):
    """An open ledger."""

    store: LedgerStore
    state: State
    path: Path
    shown: str


@contextmanager
def ledger(
    path: Path | None, *, state: State | None = None, for_audit: bool = False
) -> Iterator[Opened]:
    """The ledger at `path`, or the one of the state folder, which is made if `state` is given.

    Raises:
        UsageError: there is no ledger here.
        IntegrityError: the state folder may be somebody else's.
        ReproduceError: the ledger cannot be opened or read.
    """
    home = state or nearest_state(Path.cwd())
    if state is None:
        refuse_tracked(home)
    where = path or home.ledger
    _check_readable(where)
    if state is None and not where.is_file():
        message = "no ledger is here" if path is None else f"no ledger is at `{path}`"
        hint = "`reproduce run FILE` makes one; `--ledger PATH` names another"
        raise UsageError(message, hint=hint)
    try:
        with open_store(where, for_audit=for_audit) as store:
            yield Opened(store, home, where, _shown(where))
    except LedgerError as error:
        raise translated(error) from error


def _check_readable(path: Path) -> None:
    """Refuses a ledger that this user may not open, before a database says it less well.

    Raises:
        InfrastructureError: names the file and the way out.
    """
    try:
        is_there = path.exists()
    except PermissionError as error:
        message = "you may not look into this folder"
        hint = "run as its owner, or name a ledger of your own with `--ledger PATH`"
        raise InfrastructureError(message, place=str(path.parent), hint=hint) from error
    if is_there and not os.access(path, os.R_OK | os.W_OK):
        message = "you may not read and write this file, and a database needs both to be opened"
        hint = "copy it to a folder of your own and name the copy with `--ledger PATH`"
        raise InfrastructureError(message, place=str(path), hint=hint)


def _shown(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def find(store: LedgerStore, wanted: str) -> InvestigationRow:
    """The investigation that `wanted` names.

    Raises:
        UsageError: none or several fit.
    """
    rows = store.investigations()
    if not rows:
        raise UsageError("the ledger is empty", hint="`reproduce run FILE` fills it")
    if wanted == "latest":
        return rows[-1]
    found = [row for row in rows if _named(row, wanted)]
    if len(found) > 1 and wanted.startswith("pl_"):
        return found[-1]
    if len(found) == 1:
        return found[0]
    if not found:
        message = f"no investigation is called `{wanted}`"
        raise UsageError(message, hint="`reproduce ledger list` shows them all")
    names = ", ".join(f"`{row.id}`" for row in found[:5])
    raise UsageError(f"`{wanted}` fits {len(found)} investigations", hint=f"one of {names}")


def _named(row: InvestigationRow, wanted: str) -> bool:
    if wanted.startswith("pl_"):
        return short_plan(row.plan).startswith(wanted) or row.plan.startswith(wanted[3:])
    return bool(wanted) and (row.id.startswith(wanted) or row.id.startswith(f"iv_{wanted}"))


def current_user() -> str:
    """The name under which approvals and notes are recorded."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
