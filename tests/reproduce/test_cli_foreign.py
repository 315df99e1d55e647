"""A state folder that came with a stranger's repository: nothing in it approves anything here."""

import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from ledger import decode
from ledger.records import EntryKind
from ledger.sqlite import SqliteStore
from ledger.store import Item
from matrices import Plan
from reproduce.cli.app import run
from reproduce.engine.session import approve
from reproduce.judging import story_of
from reproduce.running import register, seal_file
from reproduce.testing.commands import at_terminal, investigations, state, write_investigation

GIT = shutil.which("git") or "git"
HARMLESS = '[ "$1" = 1 ] && echo LOST && exit 1\nexit 0\n'


class Elsewhere:
    """Does things as another user, who has another key."""

    def __init__(self, patch: pytest.MonkeyPatch, home: Path) -> None:
        self._patch, self._home = patch, home

    def __enter__(self) -> None:
        self._patch.setenv("XDG_STATE_HOME", str(self._home / "theirs"))

    def __exit__(self, *_: object) -> None:
        self._patch.setenv("XDG_STATE_HOME", str(self._home / "ours"))


@pytest.fixture
def elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Elsewhere:
    home = tmp_path_factory.mktemp("homes")
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "ours"))
    return Elsewhere(monkeypatch, home)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_investigation(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def approved_there(folder: Path, elsewhere: Elsewhere) -> Path:
    """A ledger with an approval by another user, and nothing run."""
    with elsewhere:
        assert run(["plan", "reproduce.toml"]) == 0
        assert run(["approve", "latest", "--yes"]) == 0
    return folder


@pytest.fixture
def finished_there(folder: Path, elsewhere: Elsewhere) -> Path:
    """A ledger with a finished investigation of another user."""
    with elsewhere:
        assert run(["run", "reproduce.toml", "--yes", "--quiet"]) == 0
    return folder


def kinds(folder: Path) -> list[str]:
    with SqliteStore(state(folder).ledger) as store:
        (row,) = store.investigations()
        return [entry.kind for entry in store.entries(row.id)]


@pytest.mark.parametrize("target", ["reproduce.toml", "latest"])
def test_an_approval_that_came_with_the_ledger_runs_nothing(
    approved_there: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    assert run(["run", target, "--quiet"]) == 4

    assert "was approved elsewhere, not by you" in capsys.readouterr().err
    assert kinds(approved_there) == [EntryKind.PLAN, EntryKind.APPROVAL]


def test_without_a_seal_an_approval_is_nobodys(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = seal_file(folder / "reproduce.toml").sealed.plan
    with SqliteStore(state(folder).ledger) as store:
        name = register(store, plan)
        forged_approval(store, name, plan)

    assert run(["run", "reproduce.toml", "--quiet"]) == 4
    assert "was approved elsewhere" in capsys.readouterr().err


def forged_approval(store: SqliteStore, name: str, plan: Plan) -> None:
    body = {"plan": plan.digest(), "by": "you", "method": "self"}
    store.append(name, [Item(EntryKind.APPROVAL, "approval", body)], recorded_us=1)


def test_a_ledger_that_was_approved_elsewhere_is_approved_here_once_more_and_runs(
    approved_there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", "reproduce.toml", "--approve", "--quiet"]) == 0
    assert "only your own approval counts" in capsys.readouterr().err
    assert kinds(approved_there)[:3] == [EntryKind.PLAN, EntryKind.APPROVAL, EntryKind.APPROVAL]

    assert run(["verify"]) == 0
    shown = capsys.readouterr().out
    assert "sealed elsewhere, not checkable here" in shown
    assert "sealed with this user's key" in shown


def test_at_a_terminal_the_plan_is_shown_and_asked_for_again(approved_there: Path) -> None:
    code, shown = at_terminal(approved_there, "run", "reproduce.toml", answer=b"n\n")

    assert code == 4
    assert "only your own approval counts" in shown
    assert "[y/N]" in shown
    assert EntryKind.INTENT not in kinds(approved_there)


@pytest.mark.usefixtures("finished_there")
def test_a_finished_ledger_of_somebody_else_says_that_nothing_ran_here(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["run", "reproduce.toml", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert "was approved and recorded elsewhere; nothing ran here" in shown.err
    assert "REPRODUCTION_PINNED" in shown.out

    assert run(["verify"]) == 0
    assert "sealed elsewhere, not checkable here" in capsys.readouterr().out

    assert run(["approve", "latest", "--yes"]) == 2
    assert "was approved elsewhere" in capsys.readouterr().err


def test_somebody_elses_plan_runs_here_as_a_sibling(
    finished_there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", "latest", "--again", "--yes", "--quiet"]) == 0

    assert "elsewhere" not in capsys.readouterr().err
    assert [row.closed for row in investigations(finished_there)] == [True, True]


def test_trials_that_were_recorded_elsewhere_are_counted_out_loud(
    finished_there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SqliteStore(state(finished_there).ledger) as store:
        (row,) = store.investigations()
        plan = Plan.from_canonical(store.plan_bytes(row.id))
        kept = [decode(entry.body) for entry in store.entries(row.id)][1:-2]
    path = finished_there / "half.sqlite"
    with SqliteStore(path) as half:
        half.open_investigation(row.id, plan, recorded_us=1)
        for entry in kept:
            item = Item(EntryKind(entry["kind"]), entry["key"], entry["body"])
            half.append(row.id, [item], recorded_us=1)

    assert run(["run", row.id, "--ledger", str(path), "--yes", "--quiet"]) == 0

    shown = capsys.readouterr().err
    assert f"24 trials of `{row.id}` were recorded elsewhere, not run by you" in shown


def test_ones_own_finished_run_is_not_called_anybody_elses(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", "reproduce.toml", "--yes", "--quiet"]) == 0
    assert run(["run", "reproduce.toml"]) == 0

    assert "elsewhere" not in capsys.readouterr().err
    assert run(["verify"]) == 0
    assert "sealed with this user's key" in capsys.readouterr().out
    assert kinds(folder).count(EntryKind.APPROVAL) == 1


def test_a_seal_of_one_investigation_does_not_open_another(folder: Path) -> None:
    plan = seal_file(folder / "reproduce.toml").sealed.plan
    with SqliteStore(state(folder).ledger) as store:
        name = register(store, plan)
        approve(store, name, plan, by="someone")
        (approval,) = story_of(store, name).approvals
        other = "iv_" + "0" * 32
        store.open_investigation(other, plan, recorded_us=1)
        body = {"plan": approval.plan, "by": "you", "method": "self", "seal": approval.seal}
        store.append(other, [Item(EntryKind.APPROVAL, "approval", body)], recorded_us=1)

    assert run(["run", other, "--quiet"]) == 4


@pytest.fixture
def swapped(folder: Path) -> Path:
    """A ledger that lists a hostile plan under the digest of the plan in the file."""
    mark = folder / "ran"
    write_investigation(folder, probe=f"touch {mark}\n", name="hostile.toml")
    hostile = seal_file(folder / "hostile.toml").sealed.plan
    write_investigation(folder, probe=HARMLESS)
    harmless = seal_file(folder / "reproduce.toml").sealed.plan
    assert hostile.digest() != harmless.digest()
    ledger = state(folder).ledger
    with SqliteStore(ledger) as store:
        register(store, hostile)
    with closing(sqlite3.connect(ledger)) as connection:
        (trigger,) = connection.execute(
            "SELECT sql FROM sqlite_schema WHERE name = 'investigation_update'"
        ).fetchone()
        connection.execute("DROP TRIGGER investigation_update")
        listed = bytes.fromhex(harmless.digest())
        connection.execute("UPDATE investigation SET plan = ?", (listed,))
        connection.execute(trigger)
        connection.commit()
    return mark


def test_a_plan_that_is_listed_under_the_digest_of_another_runs_nothing(
    swapped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        ["run", "reproduce.toml", "--yes", "--quiet"],
        ["run", "latest", "--yes", "--quiet"],
        ["approve", "latest", "--yes"],
    ):
        assert run(arguments) == 6
        assert "is not the one that is listed" in capsys.readouterr().err
    assert not swapped.exists()


def git(folder: Path, *arguments: str) -> None:
    subprocess.run([GIT, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize(
    "arguments",
    [["run", "reproduce.toml", "--yes", "--quiet"], ["verify"], ["plan", "reproduce.toml"]],
)
def test_a_state_folder_that_git_tracks_is_refused(
    finished_there: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    git(finished_there, "init", "--quiet")
    git(finished_there, "add", "--force", ".reproduce/ledger.sqlite")

    assert run(arguments) == 6

    shown = capsys.readouterr()
    assert "tracked by git" in shown.out + shown.err


def test_a_state_folder_beside_git_that_it_does_not_track_is_used(folder: Path) -> None:
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    assert run(["run", "reproduce.toml", "--yes", "--quiet"]) == 0
    git(folder, "add", ".")

    assert run(["run", "reproduce.toml", "--quiet"]) == 0


def test_a_linked_ledger_is_refused_and_its_target_left_as_it_is(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path_factory.mktemp("browser") / "history.sqlite"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE visits (url TEXT)")
        connection.commit()
    before = other.read_bytes()
    (folder / ".reproduce").mkdir()
    (folder / ".reproduce" / "ledger.sqlite").symlink_to(other)

    assert run(["run", "reproduce.toml", "--yes", "--quiet"]) == 6
    assert run(["status"]) == 6

    assert "a link stands in" in capsys.readouterr().err
    assert other.read_bytes() == before
