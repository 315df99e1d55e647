"""A SQLite file as a ledger needs it: durable settings, whole transactions, errors in our words."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from ledger.errors import LedgerError, StoreUnavailableError, TamperedError
from ledger.sqlite_schema import check_format, check_schema, create, is_empty

_FULL = 2
"""`PRAGMA synchronous`: sync the log with every commit."""


class SqliteFile:
    """One ledger file. Reads may come from any thread; writes wait for each other."""

    def __init__(self, path: Path, *, busy_timeout_ms: int, for_audit: bool) -> None:
        """Opens the file, making it where it is missing.

        With `for_audit` nothing is made, checked or written, so that a damaged file can be read.

        Raises:
            StoreUnavailableError: it cannot be opened, or not in the durable mode.
            SchemaAlteredError: its tables or triggers are not those that guard a ledger.
            FormatTooNewError: a newer version wrote it.
        """
        self._place = str(path)
        self._busy_timeout_ms = busy_timeout_ms
        self._for_audit = for_audit
        self._lock = Lock()
        with self._in_our_words():
            if for_audit and not path.is_file():
                raise StoreUnavailableError("there is no ledger", place=self._place)
            if not for_audit:
                self._look(path)
            self._engine = create_engine(
                URL.create("sqlite", database=str(path)),
                isolation_level="AUTOCOMMIT",  # transactions are begun and ended here, in SQL
                connect_args={
                    "timeout": busy_timeout_ms / 1000,
                    "check_same_thread": False,
                },
                poolclass=QueuePool,
            )
            event.listen(self._engine, "connect", self._set_up)
            try:
                self._check()
            except BaseException:
                self._engine.dispose()
                raise

    def _look(self, path: Path) -> None:
        """Refuses another program's database before anything is written to it.

        To set the journal mode of a database is to change it.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        # Where the file cannot be made, SQLite says why.
        with suppress(OSError):
            os.close(os.open(path, flags, 0o600))
        address = f"{path.absolute().as_uri()}?mode=ro"
        timeout = self._busy_timeout_ms / 1000
        with closing(sqlite3.connect(address, uri=True, timeout=timeout)) as connection:
            if not is_empty(connection):
                check_format(connection, place=self._place)

    def close(self) -> None:
        """Closes all connections."""
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection for reading, where every statement sees the newest commit."""
        with self._in_our_words(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A connection for reading, where all statements see one commit."""
        with self.read() as connection:
            connection.exec_driver_sql("BEGIN")
            try:
                yield connection
            finally:
                connection.exec_driver_sql("ROLLBACK")

    @contextmanager
    def write(self, commit: Callable[[Connection], None]) -> Iterator[Connection]:
        """A connection inside a transaction, which `commit` ends at the end of the block.

        An error undoes the transaction. After an error of the database the connection is not
        used again: what it believes about the file may be wrong.
        """
        with self._lock, self._in_our_words(), self._engine.connect() as connection:
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
                commit(connection)
            except (DBAPIError, sqlite3.Error):
                connection.invalidate()
                raise
            # After any other error the pool rolls back.

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise _said(error.orig, self._place) from error
        except sqlite3.Error as error:
            raise _said(error, self._place) from error

    def _set_up(self, connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")
        connection.execute("PRAGMA trusted_schema = OFF")
        if self._for_audit:
            connection.execute("PRAGMA query_only = ON")
            return
        for setting in (
            "journal_mode = wal",
            "synchronous = full",
            "foreign_keys = on",
            "recursive_triggers = on",
        ):
            connection.execute(f"PRAGMA {setting}").close()

    def _check(self) -> None:
        with self._engine.connect() as connection:
            raw = _driver(connection)
            if self._for_audit:
                check_format(raw, place=self._place)
                return
            if is_empty(raw):
                raw.execute("BEGIN IMMEDIATE")
                # Another process may have been first.
                if is_empty(raw):
                    create(raw)
                raw.execute("COMMIT")
            check_format(raw, place=self._place)
            check_schema(raw, place=self._place)
            self._check_durable(raw)

    def _check_durable(self, raw: sqlite3.Connection) -> None:
        (journal,) = raw.execute("PRAGMA journal_mode").fetchone()
        (synchronous,) = raw.execute("PRAGMA synchronous").fetchone()
        if journal != "wal" or synchronous != _FULL:
            raise StoreUnavailableError(
                f"the file is in mode `{journal}` with `synchronous` {synchronous};"
                " a durable ledger needs `wal` and 2",
                place=self._place,
                hint="keep the ledger on a local disk, not on a network file system",
            )


def _driver(connection: Connection) -> sqlite3.Connection:
    raw = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)  # noqa: S101 - the engine was made for it
    return raw


def _said(error: BaseException | Any, place: str) -> LedgerError:
    """What an error of SQLite means to a caller."""
    if isinstance(error, sqlite3.OperationalError):
        return StoreUnavailableError(
            f"the ledger cannot be read or written: {error}",
            place=place,
            hint="free some space, or wait for the other writer, and run the same command again",
        )
    if isinstance(error, sqlite3.IntegrityError):
        return TamperedError(
            f"the ledger refused an entry that must fit: {error}",
            rule="refused",
            place=place,
            hint="another program wrote to the file: run `reproduce ledger audit`",
        )
    return TamperedError(
        f"the file is damaged: {error}",
        rule="file",
        place=place,
        hint="restore it from a backup or a bundle",
    )
