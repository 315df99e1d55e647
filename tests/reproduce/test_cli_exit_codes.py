"""The exit codes of the commands, and what goes to stdout and to stderr."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from reproduce.cli.app import run
from reproduce.state import held
from reproduce.testing.commands import (
    at_terminal,
    command,
    environment,
    investigations,
    state,
    words,
    write_investigation,
)

# In both arms the symptom shows: the verdict is UNRESOLVED.
EVERYWHERE = "echo LOST\nexit 1\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished investigation that pins the bug."""
    folder = tmp_path_factory.mktemp("finished")
    write_investigation(folder)
    assert command(folder, "run", "reproduce.toml", "--yes", "--quiet").code == 0
    return folder


@pytest.fixture
def folder(finished: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(finished)
    return finished


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


READING = {
    "status": ("status",),
    "verdict": ("verdict",),
    "verdict under strict/2": ("verdict", "--policy", "strict/2"),
    "compare": ("compare",),
    "explain": ("explain",),
    "export": ("export", "-f", "md"),
    "verify": ("verify",),
    "ledger list": ("ledger", "list"),
    "ledger show": ("ledger", "show"),
    "ledger log": ("ledger", "log", "latest", "0"),
    "ledger rebuild": ("ledger", "rebuild"),
    "ledger audit": ("ledger", "audit"),
    "check": ("check", "reproduce.toml"),
    "plan": ("plan", "reproduce.toml"),
    "policy list": ("policy", "list"),
    "policy show": ("policy", "show", "strict/2"),
    "policy power": ("policy", "power", "strict/1", "-n", "12"),
    "knobs list": ("knobs", "list"),
    "knobs probe": ("knobs", "probe"),
    "doctor": ("doctor",),
    "schema": ("schema",),
    "completion": ("completion", "bash"),
    "version": ("version",),
    "run of what is finished": ("run", "latest"),
}

WITHOUT_JSON = {"schema", "completion", "export", "ledger log", "ledger rebuild"}
"""What writes a document in any case, or another language than JSON."""

ABOUT_ONE = ("status", "verdict", "compare", "explain", "export", "verify", "ledger show", "run")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", READING)
def test_a_command_that_did_its_work_exits_with_0_and_writes_only_to_stdout(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(list(READING[name]))

    shown = capsys.readouterr()
    assert code == 0, shown.err
    assert shown.out
    assert "\x1b" not in shown.out + shown.err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", sorted(set(READING) - WITHOUT_JSON))
def test_a_command_with_json_writes_exactly_one_document(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([*READING[name], "--json"])

    shown = capsys.readouterr().out
    assert code == 0
    assert isinstance(json.loads(shown), dict)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ABOUT_ONE)
def test_a_name_that_nobody_has_is_a_usage_error(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([*name.split(), "iv_nobody"])

    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert "no investigation is called `iv_nobody`\nhint: " in shown.err


@pytest.mark.parametrize("name", [*ABOUT_ONE, "ledger list", "ledger audit", "approve"])
def test_a_folder_without_a_ledger_is_a_usage_error_and_stays_empty(
    name: str, empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = [] if name.startswith("ledger ") and name != "ledger show" else ["latest"]

    code = run([*name.split(), *target])

    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert shown.err.startswith("no ledger is ")
    assert "\nhint: " in shown.err
    assert list(empty.iterdir()) == []


def test_a_prefix_of_several_investigations_is_refused_with_their_names(
    folder: Path,
) -> None:
    copy = folder.parent / "several"
    if not copy.exists():
        shutil.copytree(folder, copy, symlinks=True)
    again = command(copy, "run", "latest", "--again", "--yes", "--quiet")
    assert again.code == 0, again.err

    ambiguous = command(copy, "verdict", "iv_")

    assert (ambiguous.code, ambiguous.out) == (2, "")
    assert "`iv_` fits 2 investigations" in ambiguous.err
    assert all(row.id in ambiguous.err for row in investigations(copy))


def test_a_unique_prefix_and_the_name_of_the_plan_name_the_investigation(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (row,) = investigations(folder)
    found = set()
    for name in (row.id, row.id[:9], row.id[3:12], f"pl_{row.plan[:8]}", "latest"):
        assert run(["verdict", name]) == 0
        found.add(capsys.readouterr().out)

    assert len(found) == 1


EXPECTATIONS = {
    (): 0,
    ("--expect", "REPRODUCTION_PINNED"): 0,
    ("--expect", "PARTIAL", "--expect", "REPRODUCTION_PINNED"): 0,
    ("--expect", "NOT_REPRODUCED"): 1,
    ("--expect", "NOT_REPRODUCED", "--contract"): 1,
    ("--contract",): 0,
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("options", EXPECTATIONS, ids=" ".join)
def test_an_expectation_decides_between_0_and_1(options: tuple[str, ...]) -> None:
    assert run(["run", "latest", *options]) == EXPECTATIONS[options]


def test_a_verdict_that_nobody_knows_is_refused_before_anything_runs(
    empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_investigation(empty)

    code = run(["run", "reproduce.toml", "--yes", "--expect", "PINNED"])

    assert code == 2
    assert "hint: " in capsys.readouterr().err
    assert investigations(empty) == ()


@pytest.mark.parametrize(
    ("options", "code"), [((), 3), (("--contract",), 2), (("--expect", "PARTIAL"), 3)]
)
def test_too_little_evidence_is_3_and_2_for_a_probe(
    options: tuple[str, ...], code: int, empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_investigation(empty, probe=EVERYWHERE)

    ended = run(["run", "reproduce.toml", "--yes", "--quiet", *options])

    assert ended == code
    assert "UNRESOLVED" in capsys.readouterr().out


def test_a_plan_that_nobody_approved_is_4_and_nothing_runs(empty: Path) -> None:
    write_investigation(empty)

    ended = command(empty, "run", "reproduce.toml")

    assert (ended.code, ended.out) == (4, "")
    assert "is not approved, and there is no terminal to ask at\nhint: " in ended.err
    assert not (state(empty).root / "spools").exists()


def test_a_plan_may_be_approved_first_and_run_later(
    empty: Path,
) -> None:
    write_investigation(empty)

    codes = [
        run(["plan", "reproduce.toml"]),
        run(["run", "latest"]),
        run(["approve", "latest"]),
        run(["approve", "latest", "--yes"]),
        run(["run", "latest"]),
    ]

    assert codes == [0, 4, 4, 0, 0]


def test_another_run_of_the_same_investigation_is_5_and_names_its_holder(
    empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_investigation(empty)
    assert run(["plan", "reproduce.toml"]) == 0
    (row,) = investigations(empty)

    with held(state(empty), row.id):
        code = run(["run", "latest", "--yes", "--quiet"])

    assert code == 5
    assert f"`{row.id}` is being run by process " in capsys.readouterr().err


def test_a_state_folder_that_cannot_be_made_is_5(
    empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_investigation(empty)
    (empty / ".reproduce").write_text("in the way")

    code = run(["run", "reproduce.toml", "--yes", "--quiet"])

    shown = capsys.readouterr()
    assert (code, shown.out) == (5, "")
    assert "hint: " in shown.err


@pytest.mark.parametrize("words_", [("verify",), ("ledger", "audit")], ids=" ".join)
def test_an_edited_ledger_is_6_and_says_where(
    words_: tuple[str, ...],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(folder, tmp_path / "copy", symlinks=True)
    monkeypatch.chdir(tmp_path / "copy")
    edited(tmp_path / "copy" / ".reproduce" / "ledger.sqlite")

    code = run(list(words_))

    shown = capsys.readouterr()
    assert code == 6, shown
    assert (shown.out + shown.err).strip()


def edited(ledger: Path) -> None:
    """Turns an exit code that an observation recorded into another one, byte for byte."""
    wal = ledger.with_name(ledger.name + "-wal")
    for path in (ledger, wal):
        if path.is_file() and b'"code":1,' in (data := path.read_bytes()):
            path.write_bytes(data.replace(b'"code":1,', b'"code":0,'))
            return
    raise AssertionError("no observation to edit")


PROBLEMS = {
    "usage": (("verdict", "iv_nobody"), 2),
    "an option that nobody knows": (("verdict", "--colour"), 2),
    "a command that nobody knows": (("verdikt",), 2),
    "a bad file": (("check", "BAD"), 2),
    "not approved": (("run", "NEW"), 4),
    "an unknown policy": (("policy", "show", "strict/9"), 2),
    "an unknown policy on a ledger": (("verdict", "--policy", "strict/9"), 2),
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", PROBLEMS)
def test_an_error_with_json_is_a_problem_document_on_stdout(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = write_investigation(tmp_path)
    (tmp_path / "bad.toml").write_text("version = 7\n")
    arguments, code = PROBLEMS[name]
    places = {"NEW": str(new), "BAD": str(tmp_path / "bad.toml")}

    ended = run([*(places.get(word, word) for word in arguments), "--json"])
    shown = capsys.readouterr().out

    problem = json.loads(shown)
    assert ended == code
    assert problem["exit_code"] == code
    assert problem["type"].startswith("urn:reproduce:problem:")
    assert problem["title"]
    assert problem["hint"]


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(
    "arguments", [("verdikt",), ("run",), ("verdict", "--colour"), ("quick", "-n", "many")]
)
def test_wrong_arguments_are_said_like_every_other_error(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(list(arguments))

    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert shown.err.splitlines()[-1].startswith("hint: ")


def test_a_reader_that_leaves_early_is_nobodys_error(folder: Path) -> None:
    with subprocess.Popen(
        words("schema"),
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as ended:
        assert ended.stdout is not None
        ended.stdout.close()
        assert ended.stderr is not None
        said = ended.stderr.read()

    assert (ended.returncode, said) == (0, b"")


def test_data_alone_is_on_stdout_while_a_run_reports_on_stderr(empty: Path) -> None:
    write_investigation(empty)

    ended = command(empty, "run", "reproduce.toml", "--yes", "--json")

    assert ended.code == 0
    assert json.loads(ended.out)["verdict"] == "REPRODUCTION_PINNED"
    assert "outcomes sealed" in ended.err
    assert "\x1b" not in ended.out + ended.err


@pytest.mark.parametrize("more", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_gets_colour_unless_it_asks_for_none(
    more: dict[str, str], folder: Path
) -> None:
    env = environment(**{"TERM": "xterm", **more})

    code, shown = at_terminal(folder, "verdict", env=env)

    assert code == 0
    assert "REPRODUCTION_PINNED" in shown
    assert ("\x1b" in shown) == (more == {})
