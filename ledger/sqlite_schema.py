"""What a ledger file of format 1 holds: its tables and the triggers that guard them.

The text is the format. SQLite keeps it verbatim, so a file is checked by comparing it; a changed
character here is a new format. `ledger.tables` describes the same tables for reading.
"""

import sqlite3
from collections.abc import Mapping, Sequence

from ledger.errors import FormatTooNewError, SchemaAlteredError

FORMAT = 1
"""Kept in `PRAGMA user_version`."""

APPLICATION_ID = 0x52505244
"""`RPRD` in `PRAGMA application_id`: says to `file` and to us whose database this is."""

TABLES: Mapping[str, str] = {
    "investigation": """CREATE TABLE investigation (
  n INTEGER NOT NULL PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  plan BLOB NOT NULL CHECK (length(plan) = 32),
  title TEXT NOT NULL,
  issue TEXT,
  opened_us INTEGER NOT NULL
) STRICT""",
    "ledger_head": """CREATE TABLE ledger_head (
  inv INTEGER NOT NULL PRIMARY KEY REFERENCES investigation (n),
  size INTEGER NOT NULL CHECK (size >= 0),
  frontier BLOB NOT NULL,
  fence INTEGER NOT NULL DEFAULT 0,
  closed INTEGER NOT NULL DEFAULT 0 CHECK (closed IN (0, 1))
) STRICT""",
    "ledger_entry": """CREATE TABLE ledger_entry (
  inv INTEGER NOT NULL REFERENCES investigation (n),
  seq INTEGER NOT NULL CHECK (seq >= 0),
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  body BLOB NOT NULL,
  leaf BLOB NOT NULL CHECK (length(leaf) = 32),
  PRIMARY KEY (inv, seq),
  UNIQUE (inv, key)
) STRICT""",
    "blob": """CREATE TABLE blob (
  sha256 BLOB NOT NULL PRIMARY KEY CHECK (length(sha256) = 32),
  size INTEGER NOT NULL CHECK (size >= 0),
  packed BLOB
) STRICT""",
    "observation": """CREATE TABLE observation (
  inv INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  trial INTEGER NOT NULL,
  block INTEGER NOT NULL,
  condition INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  seed INTEGER NOT NULL,
  worker TEXT NOT NULL,
  ending TEXT NOT NULL,
  code INTEGER,
  started_us INTEGER NOT NULL,
  duration_us INTEGER NOT NULL,
  PRIMARY KEY (inv, seq)
) STRICT, WITHOUT ROWID""",
}
"""By name. `observation` is a projection and unguarded; an audit compares it with the entries."""

# The insert triggers also stop INSERT OR REPLACE and upserts, which fire no delete trigger unless
# `recursive_triggers` is on, and that is off by default in every new connection.
_INSERT_GUARDS = {
    "investigation": "EXISTS (SELECT 1 FROM investigation WHERE n = NEW.n OR id = NEW.id)",
    "ledger_head": "NEW.size <> 0 OR NEW.closed <> 0"
    " OR EXISTS (SELECT 1 FROM ledger_head WHERE inv = NEW.inv)",
    "ledger_entry": "NEW.seq <> (SELECT coalesce(max(seq) + 1, 0) FROM ledger_entry"
    " WHERE inv = NEW.inv)\n"
    "  OR EXISTS (SELECT 1 FROM ledger_entry WHERE inv = NEW.inv AND key = NEW.key)\n"
    "  OR coalesce((SELECT closed FROM ledger_head WHERE inv = NEW.inv), 1)",
    "blob": "EXISTS (SELECT 1 FROM blob WHERE sha256 = NEW.sha256)",
}
_INSERT_RULES = {
    "investigation": "an investigation is opened once",
    "ledger_head": "a head begins empty and once",
    "ledger_entry": "a gap, a key that is there, or a closed ledger",
    "blob": "a blob is stored once",
}
_HEAD_GUARD = (
    "NEW.inv <> OLD.inv OR NEW.size < OLD.size OR NEW.fence < OLD.fence"
    " OR NEW.closed < OLD.closed\n"
    "  OR NEW.size <> (SELECT coalesce(max(seq) + 1, 0) FROM ledger_entry WHERE inv = NEW.inv)"
)


def _trigger(name: str, event: str, when: str | None, rule: str) -> str:
    condition = f"\nWHEN {when}" if when else ""
    return (
        f"CREATE TRIGGER {name} BEFORE {event}{condition}\n"
        f"BEGIN SELECT RAISE(ABORT, 'append-only: {rule}'); END"
    )


def _triggers() -> dict[str, str]:
    found = {}
    for table, guard in _INSERT_GUARDS.items():
        name = f"{table}_insert"
        found[name] = _trigger(name, f"INSERT ON {table}", guard, _INSERT_RULES[table])
        name = f"{table}_delete"
        found[name] = _trigger(name, f"DELETE ON {table}", None, "nothing is deleted")
        name = f"{table}_update"
        is_head = table == "ledger_head"
        rule = "a head only grows, with its entries" if is_head else "nothing is updated"
        guard_or_none = _HEAD_GUARD if is_head else None
        found[name] = _trigger(name, f"UPDATE ON {table}", guard_or_none, rule)
    return found


TRIGGERS: Mapping[str, str] = _triggers()
"""By name: what refuses change, whoever writes through SQL."""


def create(connection: sqlite3.Connection) -> None:
    """Makes the tables and triggers in an empty file, inside the caller's transaction."""
    for statement in (*TABLES.values(), *TRIGGERS.values()):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the file holds nothing yet."""
    (found,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return not found and not _pragma(connection, "user_version")


def check_format(connection: sqlite3.Connection, *, place: str) -> None:
    """Refuses a file that is not a ledger, or one of a newer format.

    Raises:
        FormatTooNewError: a newer version wrote it.
        SchemaAlteredError: it is some other database.
    """
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise SchemaAlteredError(
            "the database is not a ledger", rule="schema", place=place, hint="name another file"
        )
    found = _pragma(connection, "user_version")
    if found > FORMAT:
        raise FormatTooNewError(
            f"the ledger has format {found}, and this version knows format {FORMAT}",
            place=place,
            hint="install a newer version of `reproduce-flaky`",
        )


def check_schema(connection: sqlite3.Connection, *, place: str) -> None:
    """Refuses a file whose tables and triggers are not exactly those of its format.

    Raises:
        SchemaAlteredError: names the first table, index or trigger that differs.
    """
    live = dict(
        connection.execute(
            "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        )
    )
    expected = {**TABLES, **TRIGGERS}
    for name in sorted({*live, *expected}):
        if live.get(name) != expected.get(name):
            kind = "table" if name in TABLES else "trigger" if name in TRIGGERS else "object"
            what = "missing" if name not in live else "changed" if name in expected else "foreign"
            raise SchemaAlteredError(
                f"{kind} `{name}` is {what}",
                rule="schema",
                place=place,
                hint="entries may have been altered: run `reproduce ledger audit`",
            )


OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_schema"
"""What `check_tables` takes. Reading it runs nothing that a file brings."""


def check_tables(objects: Sequence[tuple[str, str, str, str | None]], *, place: str) -> None:
    """Refuses a file that cannot be read as it is: where a name of ours is no table of ours.

    A view or a virtual table in its place would run what its author wrote, without end if they
    like. Triggers may be anything: they do nothing to a reader.

    Raises:
        SchemaAlteredError: names the first object that differs.
    """
    tables = {name: sql for kind, name, owner, sql in objects if kind == "table" and name == owner}
    for name, expected in TABLES.items():
        if tables.get(name) != expected:
            raise _unreadable(
                f"table `{name}` is {'changed' if name in tables else 'missing'}", place
            )
    for kind, name, _, sql in objects:
        ours = name in TABLES or name.startswith("sqlite_stat")
        automatic = kind == "index" and sql is None
        if kind != "trigger" and not automatic and not (kind == "table" and ours):
            raise _unreadable(f"{kind} `{name}` is foreign", place)


def _unreadable(message: str, place: str) -> SchemaAlteredError:
    return SchemaAlteredError(
        message, rule="schema", place=place, hint="restore the file from a backup or a bundle"
    )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
