"""What a durable observation costs in the ledger, beside a bare SQLite insert of the same rows.

The two take turns, so that a busy machine slows both. Neither has a floor to stand on by itself:
read the ratio.
"""

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from ledger import Item, StoredEntry
from ledger.memory import MemoryStore
from ledger.sqlite import SqliteStore
from reproduce.testing.ledgers import INVESTIGATION, NOW_US, observation, sample_plan

BATCH = 256
BATCHES = 80
SINGLES = 300

Row = tuple[object, ...]


def main() -> None:
    """Prints rates, times and ratios."""
    items = [observation(trial) for trial in range(BATCH * BATCHES + SINGLES)]
    rows = bare_rows(items)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            SqliteStore(folder / "ledger.sqlite") as store,
            closing(bare(folder / "bare.sqlite")) as connection,
        ):
            store.open_investigation(INVESTIGATION, sample_plan(), recorded_us=NOW_US)
            fence = store.lease(INVESTIGATION)

            def append(first: int, end: int) -> None:
                store.append(INVESTIGATION, items[first:end], recorded_us=NOW_US, fence=fence)

            def insert(first: int, end: int) -> None:
                insert_bare(connection, rows[first:end])

            for label, size, count, offset in (
                ("group commit", BATCH, BATCHES, 0),
                ("single commit", 1, SINGLES, BATCH * BATCHES),
            ):
                report(label, size, *paired(append, insert, size, count, offset))
            started = time.perf_counter()
            audited = store.audit(INVESTIGATION)
            seconds = time.perf_counter() - started
            print(f"audit: {audited.size / seconds:,.0f} entries/s")
            stored = sum(file.stat().st_size for file in folder.glob("ledger.sqlite"))
            print(f"file: {stored / audited.size:,.0f} bytes an observation")


def bare_rows(items: Sequence[Item]) -> list[Row]:
    """The same entries as finished rows: what they hold and nothing that has to be computed."""
    model = MemoryStore()
    model.open_investigation(INVESTIGATION, sample_plan(), recorded_us=NOW_US)
    model.append(INVESTIGATION, items, recorded_us=NOW_US)
    return [row(entry) for entry in model.entries(INVESTIGATION, start=1)]


def row(entry: StoredEntry) -> Row:
    """One entry with its columns."""
    return (1, *entry)


def bare(path: Path) -> sqlite3.Connection:
    """A database with one table, as durable as the ledger, without triggers and projection."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("PRAGMA synchronous = full")
    connection.execute(
        "CREATE TABLE entry (inv INTEGER, seq INTEGER, kind TEXT, key TEXT, body BLOB,"
        " leaf BLOB, PRIMARY KEY (inv, seq), UNIQUE (inv, key))"
    )
    return connection


def insert_bare(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """One durable commit of finished rows."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.execute("COMMIT")


def paired(
    append: Callable[[int, int], None],
    insert: Callable[[int, int], None],
    size: int,
    count: int,
    offset: int,
) -> tuple[list[float], list[float]]:
    """Seconds of each commit, for the ledger and for the bare table, taken in turns."""
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(count):
        first = offset + number * size
        turns = [(append, ours), (insert, theirs)]
        for write, seconds in turns if number % 2 else reversed(turns):
            started = time.perf_counter()
            write(first, first + size)
            seconds.append(time.perf_counter() - started)
    return ours, theirs


def report(label: str, size: int, ours: list[float], theirs: list[float]) -> None:
    """Prints one line for the ledger beside the bare table."""
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    for name, seconds in (("ledger", ours), ("bare", theirs)):
        rate = size * len(seconds) / sum(seconds)
        median = statistics.median(seconds) * 1000
        last = statistics.quantiles(seconds, n=100)[98] * 1000
        print(
            f"{label} of {size}, {name}: {rate:,.0f} observations/s,"
            f" median {median:.2f} ms, p99 {last:.2f} ms"
        )
    print(f"{label} of {size}, ledger / bare: {ratio:.2f} (median of pairs)")


if __name__ == "__main__":
    main()
