import hashlib
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing as closed
from pathlib import Path

import pytest
from sqlalchemy import event

import ledger.sqlite_rows
from ledger import (
    FormatTooNewError,
    SchemaAlteredError,
    StoreUnavailableError,
    TamperedError,
)
from ledger.sqlite import SqliteStore
from ledger.sqlite_schema import TABLES, TRIGGERS
from ledger.tables import LedgerTable
from reproduce.testing.ledgers import (
    INVESTIGATION,
    NOW_US,
    OTHER,
    blob_of,
    break_next_commit,
    check_chain,
    closing,
    note,
    observation,
    sample_plan,
)

ROWS = 12


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with the plan, twelve observations with output, and a second investigation."""
    path = tmp_path / "ledger.sqlite"
    with SqliteStore(path) as store:
        for investigation in (INVESTIGATION, OTHER):
            store.open_investigation(investigation, sample_plan(), recorded_us=NOW_US)
        items = [observation(n, output=b"out %d" % n) for n in range(ROWS)]
        store.append(INVESTIGATION, items, recorded_us=NOW_US)
    return path


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path) as store:
        yield store


def sql(path: Path, *statements: str, pragmas: tuple[str, ...] = ()) -> None:
    with closed(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in (*pragmas, *statements):
            connection.execute(statement)


def altered(path: Path, *statements: str) -> None:
    """Does what an owner of the file can: drops the guards, changes rows, puts the guards back."""
    drops = [f"DROP TRIGGER {name}" for name in TRIGGERS]
    sql(path, *drops, *statements, *TRIGGERS.values())


ATTACKS = [
    "UPDATE ledger_entry SET body = x'7b7d' WHERE seq = 3",
    "UPDATE ledger_entry SET seq = 99 WHERE seq = 3",
    "UPDATE OR REPLACE ledger_entry SET seq = 4 WHERE seq = 3",
    "DELETE FROM ledger_entry WHERE seq = 12",
    "DELETE FROM ledger_entry",
    (
        "INSERT OR REPLACE INTO ledger_entry SELECT inv, seq, kind, key, x'7b7d', leaf"
        " FROM ledger_entry WHERE seq = 3"
    ),
    (
        "REPLACE INTO ledger_entry SELECT inv, 13, kind, key, body, leaf FROM ledger_entry"
        " WHERE seq = 3"
    ),
    (
        "INSERT INTO ledger_entry SELECT inv, seq, kind, key, x'7b7d', leaf FROM ledger_entry"
        " WHERE inv = 1 AND seq = 3 ON CONFLICT (inv, seq) DO UPDATE SET body = x'7b7d'"
    ),
    (
        "INSERT INTO ledger_entry SELECT inv, 14, kind, 'gap', body, leaf FROM ledger_entry"
        " WHERE inv = 1 AND seq = 3"
    ),
    (
        "INSERT INTO ledger_entry SELECT inv, 13, kind, key, body, leaf FROM ledger_entry"
        " WHERE inv = 1 AND seq = 3"
    ),
    (
        "INSERT INTO ledger_entry SELECT 77, 0, kind, key, body, leaf FROM ledger_entry"
        " WHERE inv = 1 AND seq = 3"
    ),
    "UPDATE ledger_head SET size = size - 1 WHERE inv = 1",
    "UPDATE ledger_head SET size = size + 1 WHERE inv = 1",
    "UPDATE ledger_head SET fence = fence - 1 WHERE inv = 1",
    "UPDATE ledger_head SET inv = 9 WHERE inv = 1",
    "DELETE FROM ledger_head",
    "INSERT OR REPLACE INTO ledger_head VALUES (1, 0, x'', 0, 0)",
    "UPDATE investigation SET title = 'nicer'",
    "DELETE FROM investigation",
    (
        "INSERT OR REPLACE INTO investigation SELECT n, id, plan, 'nicer', issue, 0"
        " FROM investigation WHERE n = 1"
    ),
    (
        "INSERT OR REPLACE INTO investigation SELECT 9, id, plan, 'nicer', issue, 0"
        " FROM investigation WHERE n = 1"
    ),
    "UPDATE blob SET packed = x''",
    "DELETE FROM blob",
    "INSERT OR REPLACE INTO blob SELECT sha256, size, x'00' FROM blob",
]


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("attack", ATTACKS)
def test_sql_cannot_change_what_was_recorded(path: Path, attack: str, *, recursive: bool) -> None:
    pragmas = ("PRAGMA foreign_keys = off", f"PRAGMA recursive_triggers = {int(recursive)}")

    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        sql(path, attack, pragmas=pragmas)

    with SqliteStore(path) as store:
        check_chain(store)
        assert store.audit(INVESTIGATION).size == ROWS + 1


def test_sql_cannot_add_to_a_closed_ledger_or_open_it(store: SqliteStore, path: Path) -> None:
    store.append(INVESTIGATION, [closing()], recorded_us=NOW_US)

    for attack in (
        "UPDATE ledger_head SET closed = 0 WHERE inv = 1",
        (
            "INSERT INTO ledger_entry SELECT inv, 14, kind, 'late', body, leaf FROM ledger_entry"
            " WHERE inv = 1 AND seq = 3"
        ),
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            sql(path, attack)


@pytest.mark.parametrize("name", TRIGGERS)
def test_a_file_without_one_of_its_triggers_is_refused(path: Path, name: str) -> None:
    sql(path, f"DROP TRIGGER {name}")

    with pytest.raises(SchemaAlteredError, match=f"trigger `{name}` is missing") as caught:
        SqliteStore(path)

    assert caught.value.place == str(path)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "CREATE TRIGGER more AFTER INSERT ON ledger_entry BEGIN DELETE FROM observation; END",
            "object `more` is foreign",
        ),
        ("CREATE TABLE mine (x)", "object `mine` is foreign"),
        ("ALTER TABLE ledger_entry ADD COLUMN outcome TEXT", "table `ledger_entry` is changed"),
        ("DROP TABLE observation", "table `observation` is missing"),
    ],
)
def test_a_file_with_other_tables_or_triggers_is_refused(
    path: Path, statement: str, said: str
) -> None:
    sql(path, statement)

    with pytest.raises(SchemaAlteredError, match=said):
        SqliteStore(path)


def test_a_weakened_trigger_is_refused(path: Path) -> None:
    weaker = TRIGGERS["ledger_entry_update"].replace("UPDATE ON", "UPDATE OF leaf ON")
    sql(path, "DROP TRIGGER ledger_entry_update", weaker)

    with pytest.raises(SchemaAlteredError, match="trigger `ledger_entry_update` is changed"):
        SqliteStore(path)


def test_statistics_that_sqlite_keeps_are_no_alteration(path: Path) -> None:
    sql(path, "ANALYZE")

    with SqliteStore(path) as store:
        assert store.audit(INVESTIGATION).size == ROWS + 1


def test_a_newer_format_is_refused_and_left_as_it_is(path: Path) -> None:
    sql(path, "PRAGMA user_version = 2")
    before = path.read_bytes()

    for for_audit in (False, True):
        with pytest.raises(FormatTooNewError, match="format 2"):
            SqliteStore(path, for_audit=for_audit)

    assert path.read_bytes() == before


def test_another_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    sql(path, "CREATE TABLE t (x)")

    with pytest.raises(SchemaAlteredError, match="not a ledger"):
        SqliteStore(path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("this is not a database, it only has its place\n" * 100)

    with pytest.raises(TamperedError, match="not a database"):
        SqliteStore(path)


def test_a_folder_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError):
        SqliteStore(tmp_path / "missing" / "ledger.sqlite")
    with pytest.raises(StoreUnavailableError, match="no ledger"):
        SqliteStore(tmp_path / "ledger.sqlite", for_audit=True)
    assert list(tmp_path.iterdir()) == []


def test_every_connection_is_durable_and_guarded(store: SqliteStore) -> None:
    def setting(name: str) -> object:
        with store._file.read() as connection:
            return connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()

    assert setting("journal_mode") == "wal"
    assert setting("synchronous") == 2
    assert setting("foreign_keys") == 1
    assert setting("recursive_triggers") == 1


def test_the_tables_for_reading_are_those_of_the_file(path: Path) -> None:
    with closed(sqlite3.connect(path)) as connection:
        for name, table in LedgerTable.metadata.tables.items():
            info = connection.execute(f"PRAGMA table_info({name})").fetchall()
            in_file = [(row[1], bool(row[3]), bool(row[5])) for row in info]
            read = [(c.name, not c.nullable, c.primary_key) for c in table.columns]
            assert in_file == read
    assert set(LedgerTable.metadata.tables) == set(TABLES)


SWAP = (
    "UPDATE ledger_entry SET seq = 1000 WHERE inv = 1 AND seq = 3",
    "UPDATE ledger_entry SET seq = 3 WHERE inv = 1 AND seq = 5",
    "UPDATE ledger_entry SET seq = 5 WHERE inv = 1 AND seq = 1000",
)
ALTERATIONS: dict[str, tuple[tuple[str, ...], int | None, str]] = {
    "a byte of a body": (
        (
            (
                "UPDATE ledger_entry SET body = CAST(replace(CAST(body AS TEXT),"
                " '\"code\":0', '\"code\":1') AS BLOB) WHERE inv = 1 AND seq = 7"
            ),
        ),
        7,
        "leaf",
    ),
    "a hash": (
        ("UPDATE ledger_entry SET leaf = zeroblob(32) WHERE inv = 1 AND seq = 2",),
        2,
        "leaf",
    ),
    "entries swapped": (SWAP, 3, "columns"),
    "an entry dropped": (("DELETE FROM ledger_entry WHERE inv = 1 AND seq = 4",), 4, "dense"),
    "the plan dropped": (("DELETE FROM ledger_entry WHERE inv = 1 AND seq = 0",), 0, "dense"),
    "the last dropped": (("DELETE FROM ledger_entry WHERE inv = 1 AND seq = 12",), 12, "dense"),
    "a key": (("UPDATE ledger_entry SET key = 'x' WHERE inv = 1 AND seq = 6",), 6, "columns"),
    "an entry of another investigation": (
        (
            (
                "INSERT INTO ledger_entry SELECT 2, seq, kind, key, body, leaf FROM ledger_entry"
                " WHERE inv = 1 AND seq = 1"
            ),
            "DELETE FROM ledger_entry WHERE inv = 1 AND seq = 1",
        ),
        1,
        "dense",
    ),
    "the listed plan": (("UPDATE investigation SET plan = zeroblob(32)",), 0, "plan"),
    "the size of the head": (
        ("UPDATE ledger_head SET size = 12, frontier = zeroblob(64) WHERE inv = 1",),
        12,
        "dense",
    ),
    "the frontier": (
        ("UPDATE ledger_head SET frontier = zeroblob(length(frontier)) WHERE inv = 1",),
        None,
        "root",
    ),
    "the length of the frontier": (
        ("UPDATE ledger_head SET frontier = x'' WHERE inv = 1",),
        None,
        "head",
    ),
    "closed": (("UPDATE ledger_head SET closed = 1 WHERE inv = 1",), None, "closed"),
    "a typed column": (
        ("UPDATE observation SET code = 1 WHERE inv = 1 AND trial = 4",),
        5,
        "projection",
    ),
    "a typed row dropped": (("DELETE FROM observation WHERE trial = 4",), 5, "projection"),
    "a typed row added": (
        (
            (
                "INSERT INTO observation SELECT 1, 50, trial, block, condition, attempt, seed,"
                " worker, ending, code, started_us, duration_us FROM observation WHERE seq = 1"
            ),
        ),
        50,
        "projection",
    ),
}


@pytest.mark.parametrize("name", ALTERATIONS)
def test_what_the_owner_of_a_file_altered_is_named(path: Path, name: str) -> None:
    statements, seq, rule = ALTERATIONS[name]
    altered(path, *statements)

    with SqliteStore(path) as store, pytest.raises(TamperedError) as caught:
        store.audit(INVESTIGATION)

    assert (caught.value.seq, caught.value.rule) == (seq, rule)
    with SqliteStore(path, for_audit=True) as reader, pytest.raises(TamperedError) as again:
        reader.audit(INVESTIGATION)
    assert (again.value.seq, again.value.rule) == (seq, rule)


def test_an_edited_byte_of_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with SqliteStore(path) as store:
        store.open_investigation(INVESTIGATION, sample_plan(), recorded_us=NOW_US)
        items = [observation(n, code=100 + n) for n in range(ROWS)]
        store.append(INVESTIGATION, items, recorded_us=NOW_US)
    data = path.read_bytes()
    assert data.count(b'"code":107') == 1
    path.write_bytes(data.replace(b'"code":107', b'"code":007'))

    with SqliteStore(path) as store, pytest.raises(TamperedError) as caught:
        store.audit(INVESTIGATION)

    assert (caught.value.seq, caught.value.rule) == (8, "leaf")


def test_a_damaged_page_is_tampering_and_not_a_crash(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for page in range(8192, len(data), 4096):
        data[page : page + 100] = b"\xff" * 100
    path.write_bytes(data)

    with pytest.raises(TamperedError), SqliteStore(path) as store:
        store.audit(INVESTIGATION)


def test_dropped_triggers_do_not_stop_an_audit(path: Path) -> None:
    sql(path, "DROP TRIGGER ledger_entry_delete", "DELETE FROM ledger_entry WHERE seq = 4")

    with SqliteStore(path, for_audit=True) as reader, pytest.raises(TamperedError) as caught:
        reader.audit(INVESTIGATION)

    assert caught.value.seq == 4


def test_a_reader_for_an_audit_writes_nothing(path: Path) -> None:
    with SqliteStore(path, for_audit=True) as reader:
        assert reader.audit(INVESTIGATION).size == ROWS + 1
        with pytest.raises(StoreUnavailableError, match="readonly"):
            reader.append(INVESTIGATION, [note("n", "x")], recorded_us=NOW_US)


def test_nothing_is_appended_behind_a_dropped_entry(path: Path) -> None:
    altered(path, "DELETE FROM ledger_entry WHERE inv = 1 AND seq = 12")

    with SqliteStore(path) as store, pytest.raises(TamperedError) as caught:
        store.append(INVESTIGATION, [note("n", "x")], recorded_us=NOW_US)

    assert caught.value.rule == "refused"


def test_columns_are_rebuilt_from_the_entries(path: Path) -> None:
    with SqliteStore(path) as store:
        before = list(store.observations(INVESTIGATION))
    sql(path, "DELETE FROM observation WHERE trial > 3", "UPDATE observation SET code = 9")

    with SqliteStore(path) as store:
        assert store.rebuild(INVESTIGATION) == ROWS
        assert list(store.observations(INVESTIGATION)) == before
        assert store.audit(INVESTIGATION).observations == ROWS


def test_columns_are_not_rebuilt_from_altered_entries(path: Path) -> None:
    altered(path, "DELETE FROM ledger_entry WHERE inv = 1 AND seq = 4")

    with SqliteStore(path) as store:
        before = list(store.observations(INVESTIGATION))
        with pytest.raises(TamperedError):
            store.rebuild(INVESTIGATION)
        assert list(store.observations(INVESTIGATION)) == before


@pytest.mark.parametrize("size", [10, 300_000])
def test_an_altered_blob_is_named(path: Path, size: int) -> None:
    noise = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(size // 32 + 1))
    blob = blob_of(noise[:size])
    with SqliteStore(path) as store:
        store.append(OTHER, [observation(0, output=blob.data)], recorded_us=NOW_US)
    other = path.parent / "blobs" / blob.sha256[:2] / f"{blob.sha256}.zst"
    assert other.exists() == (size > 64 * 1024)
    if other.exists():
        other.write_bytes(other.read_bytes()[:-1])
    else:
        altered(path, "UPDATE blob SET packed = (SELECT packed FROM blob WHERE size = 5)")

    with SqliteStore(path) as store, pytest.raises(TamperedError) as caught:
        store.blob(blob.sha256)

    assert caught.value.rule == "blob"


def test_a_blob_whose_file_is_gone_is_not_there(store: SqliteStore, path: Path) -> None:
    noise = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(5000))
    store.append(OTHER, [observation(0, output=noise)], recorded_us=NOW_US)
    for file in (path.parent / "blobs").rglob("*.zst"):
        file.unlink()

    assert store.blob(blob_of(noise).sha256) is None


def test_the_same_output_is_stored_once(store: SqliteStore, path: Path) -> None:
    noise = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(5000))
    for trial in range(20):
        store.append(
            OTHER, [observation(trial, output=noise), note(f"{trial}", "x")], recorded_us=NOW_US
        )

    assert len(list((path.parent / "blobs").rglob("*.*"))) == 1
    with store._file.read() as connection:
        count = connection.exec_driver_sql("SELECT count(*) FROM blob").scalar_one()
    assert count == ROWS + 1


def test_more_blobs_than_one_statement_takes_are_looked_up(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger.sqlite_rows, "_MAX_PARAMETERS", 5)
    items = [observation(n, output=b"%d" % n) for n in range(23)]

    store.append(OTHER, items, recorded_us=NOW_US)
    store.append(OTHER, items, recorded_us=NOW_US)

    assert all(store.blob(blob_of(b"%d" % n).sha256) == b"%d" % n for n in range(23))


def limit_pages(store: SqliteStore, pages: int) -> Callable[[], None]:
    """Makes the database full at that size; returns what makes it large again."""
    engine = store._file._engine

    def set_limit(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    event.listen(engine, "connect", set_limit)
    engine.dispose()

    def lift() -> None:
        event.remove(engine, "connect", set_limit)
        engine.dispose()

    return lift


@pytest.mark.faults
def test_a_full_database_is_unavailable_and_takes_the_batch_afterwards(
    store: SqliteStore,
) -> None:
    items = [observation(n, output=b"y" * n) for n in range(300)]
    lift = limit_pages(store, 30)

    for _ in range(3):
        with pytest.raises(StoreUnavailableError, match="full"):
            store.append(OTHER, items, recorded_us=NOW_US)
        check_chain(store)
        assert store.head(OTHER).size == 1
    lift()

    assert store.append(OTHER, items, recorded_us=NOW_US).written == 300
    check_chain(store)


FULL_DISK = """
import resource, sys
from pathlib import Path
from ledger import StoreUnavailableError
from ledger.sqlite import SqliteStore
from reproduce.testing.ledgers import *

store = SqliteStore(Path(sys.argv[1]))
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
for first in range(0, 10_000, 50):
    items = [observation(trial, output=b"%d" % trial) for trial in range(first, first + 50)]
    try:
        store.append(OTHER, items, recorded_us=NOW_US)
    except StoreUnavailableError:
        break
else:
    sys.exit("never full")
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
assert store.head(OTHER).size == first + 1, store.head(OTHER)
check_chain(store)
assert store.append(OTHER, items, recorded_us=NOW_US).written == 50
check_chain(store)
store.audit(OTHER)
store.close()
print("done", first)
"""


@pytest.mark.faults
@pytest.mark.slow
def test_a_file_that_cannot_grow_is_unavailable_and_takes_the_batch_afterwards(
    path: Path,
) -> None:
    ended = run_script(FULL_DISK, path)

    assert ended.stdout.startswith("done"), ended.stderr


@pytest.mark.faults
def test_a_blob_that_finds_no_space_is_unavailable(store: SqliteStore, path: Path) -> None:
    noise = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(5000))
    items = [observation(0, output=noise)]
    (path.parent / "blobs").write_text("in the way")

    with pytest.raises(StoreUnavailableError):
        store.append(OTHER, items, recorded_us=NOW_US)
    assert store.head(OTHER).size == 1
    (path.parent / "blobs").unlink()

    assert store.append(OTHER, items, recorded_us=NOW_US).written == 1
    assert store.blob(blob_of(noise).sha256) == noise
    check_chain(store)


@pytest.mark.faults
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "error", [sqlite3.OperationalError("disk I/O error"), KeyboardInterrupt()], ids=repr
)
def test_the_connection_is_fresh_after_an_error_of_the_database(
    store: SqliteStore, when: str, error: BaseException
) -> None:
    assert when in ("before", "after")
    expected = StoreUnavailableError if isinstance(error, sqlite3.Error) else KeyboardInterrupt
    break_next_commit(store, "before" if when == "before" else "after", error)

    with pytest.raises(expected):
        store.append(OTHER, [observation(0)], recorded_us=NOW_US)

    check_chain(store)
    assert store.append(OTHER, [observation(0)], recorded_us=NOW_US).size == 2
    check_chain(store)


@pytest.mark.faults
def test_a_writer_that_waits_too_long_is_told_so(path: Path) -> None:
    with (
        SqliteStore(path, busy_timeout_ms=50) as store,
        closed(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="locked"):
            store.append(OTHER, [observation(0)], recorded_us=NOW_US)
        assert store.head(OTHER).size == 1
        other.execute("ROLLBACK")

        assert store.append(OTHER, [observation(0)], recorded_us=NOW_US).written == 1


WRITER = """
import sys
from pathlib import Path
from ledger.sqlite import SqliteStore
from reproduce.testing.ledgers import *

with SqliteStore(Path(sys.argv[1])) as store:
    for trial in range(int(sys.argv[2]), int(sys.argv[3])):
        appended = store.append(OTHER, [observation(trial, output=b"%d" % trial)], recorded_us=0)
        assert appended.written == 1
        print(trial, flush=True)
"""


def run_script(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def start_writer(path: Path, first: int, end: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first), str(end)],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.faults
@pytest.mark.slow
def test_two_writers_wait_for_each_other_and_lose_nothing(path: Path) -> None:
    writers = [start_writer(path, 0, 100), start_writer(path, 100, 200)]
    codes = []
    for writer in writers:
        with writer:
            writer.communicate(timeout=60)
        codes.append(writer.returncode)

    assert codes == [0, 0]
    with SqliteStore(path) as store:
        check_chain(store)
        assert {row.trial for row in store.observations(OTHER)} == set(range(200))
        assert store.audit(OTHER).size == 201


@pytest.mark.faults
@pytest.mark.slow
def test_what_was_acknowledged_survives_a_kill(path: Path) -> None:
    acknowledged: list[int] = []
    for kill_after in (1, 7, 30):
        first = len(acknowledged) and acknowledged[-1] + 1000
        with start_writer(path, first, first + 10_000) as writer:
            assert writer.stdout is not None
            for line in writer.stdout:
                acknowledged.append(int(line))
                if int(line) == first + kill_after:
                    writer.kill()

        with SqliteStore(path) as store:
            check_chain(store)
            kept = {row.trial for row in store.observations(OTHER)}
            assert kept >= set(acknowledged)
            assert store.audit(OTHER).size == len(kept) + 1


def test_importing_the_package_loads_no_database() -> None:
    ended = run_script("import ledger, sys; print(*sys.modules)")

    loaded = {name.partition(".")[0] for name in ended.stdout.split()}
    assert "ledger" in loaded
    assert loaded.isdisjoint({"sqlalchemy", "sqlmodel", "zstandard", "sqlite3"})


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
FALSE_ENTRIES = "1 AS inv, i AS seq, 'note' AS kind, i AS key, x'' AS body, x'' AS leaf FROM n"
FALSE_LIST = "i AS n, i AS id, x'' AS plan, '' AS title, NULL AS issue, 0 AS opened_us FROM n"

DISGUISES = {
    "an endless view": (
        "DROP TABLE ledger_entry",
        f"CREATE VIEW ledger_entry AS {ENDLESS} {FALSE_ENTRIES}",
    ),
    "an endless list": (
        "DROP TABLE investigation",
        f"CREATE VIEW investigation AS {ENDLESS} {FALSE_LIST}",
    ),
    "a table of other columns": (
        "DROP TABLE blob",
        "CREATE TABLE blob (sha256, size, packed AS (zeroblob(1000000000)))",
    ),
    "a view beside the tables": ("CREATE VIEW more AS SELECT 1",),
    "an index of its own": ("CREATE INDEX more ON ledger_entry (kind)",),
    "a table of its own": ("CREATE TABLE more (x)",),
}


@pytest.mark.parametrize("name", DISGUISES)
def test_a_reader_for_an_audit_reads_tables_only(path: Path, name: str) -> None:
    drops = [f"DROP TRIGGER {trigger}" for trigger in TRIGGERS]
    sql(path, "PRAGMA foreign_keys = OFF", *drops, *DISGUISES[name])

    with pytest.raises(SchemaAlteredError):
        SqliteStore(path, for_audit=True)


def test_the_digests_of_blobs_come_in_order_and_pages(store: SqliteStore) -> None:
    every = store.blob_digests()

    assert every == sorted({blob_of(b"out %d" % n).sha256 for n in range(ROWS)})
    assert store.blob_digests(after=every[4]) == every[5:]
    assert store.blob_digests(after=every[-1]) == []


@pytest.mark.parametrize("marked", [False, True])
def test_another_programs_database_is_refused_and_left_byte_for_byte(
    tmp_path: Path, *, marked: bool
) -> None:
    other = tmp_path / "other.sqlite"
    sql(other, "CREATE TABLE visits (url TEXT)")
    if marked:
        sql(other, "PRAGMA application_id = 252006673", "PRAGMA user_version = 1")
    before = other.read_bytes()
    (tmp_path / "ledger.sqlite").symlink_to(other)

    with pytest.raises(SchemaAlteredError, match="is not a ledger"):
        SqliteStore(tmp_path / "ledger.sqlite")

    assert other.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.sqlite", "other.sqlite"]


def test_a_ledger_of_a_newer_format_is_refused_and_left_byte_for_byte(path: Path) -> None:
    sql(path, "PRAGMA user_version = 2", "PRAGMA journal_mode = delete")
    before = path.read_bytes()

    with pytest.raises(FormatTooNewError):
        SqliteStore(path)

    assert path.read_bytes() == before


def test_other_users_cannot_read_a_ledger(path: Path, store: SqliteStore) -> None:
    store.lease(INVESTIGATION)

    files = [path, path.with_name("ledger.sqlite-wal"), path.with_name("ledger.sqlite-shm")]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * 3
