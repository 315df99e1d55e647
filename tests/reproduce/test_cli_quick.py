"""`quick`: two commands, one question, one verdict, and a file that is kept."""

import json
from pathlib import Path

import pytest

from reproduce.cli.app import run
from reproduce.testing.commands import at_terminal, investigations, state

LOSES = 'sh -c "echo LOST; exit 1"'
HOLDS = 'sh -c "echo HELD"'


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def quick(*more: str, treatment: str = LOSES, control: str = HOLDS, n: int = 10) -> list[str]:
    return ["quick", "-n", str(n), "--treatment", treatment, "--control", control, *more]


def test_quick_in_an_empty_folder_writes_the_file_asks_once_and_prints_the_verdict(
    empty: Path,
) -> None:
    code, shown = at_terminal(empty, *quick(), answer=b"y\n")

    assert code == 0, shown
    assert (empty / "reproduce.toml").is_file()
    assert shown.count("[y/N]") == 1
    assert "REPRODUCTION_PINNED" in shown
    for part in ("10/10", "100.0 %", "needed for REPRODUCTION_PINNED", "Next:  reproduce"):
        assert part in shown
    assert [row.closed for row in investigations(empty)] == [True]


def test_no_for_an_answer_is_4_and_nothing_ran(empty: Path) -> None:
    code, shown = at_terminal(empty, *quick(), answer=b"n\n")

    assert code == 4
    assert "was not approved" in shown
    assert "hint: nothing ran" in shown
    assert not (state(empty).root / "spools").exists()


@pytest.mark.usefixtures("empty")
def test_without_a_terminal_quick_asks_nobody_and_is_4(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(quick("--quiet"))

    assert code == 4
    assert "no terminal to ask at" in capsys.readouterr().err


@pytest.mark.usefixtures("empty")
def test_a_declared_symptom_makes_a_verdict_that_needs_no_excuse(
    capsys: pytest.CaptureFixture[str],
) -> None:
    codes = [
        run(quick("--yes", "--quiet", "--json", "--match", "^LOST", "--clean", "^HELD")),
        run(quick("--yes", "--quiet", "--json")),
    ]

    text = capsys.readouterr().out
    declared, undeclared = json.loads(text[: text.index("}\n{") + 1]), text[text.index("}\n{") :]
    assert codes == [0, 0]
    assert "no_symptom_declared" not in json.dumps(declared)
    assert "no_symptom_declared" in undeclared


@pytest.mark.parametrize(
    ("exits", "treatment", "code"),
    [
        ((), "sh -c 'echo LOST; exit 1'", 0),
        ((), "sh -c 'echo LOST'", 3),
        (("--exit", "0"), "sh -c 'echo LOST'", 0),
        (("--exit", "0", "--exit", "3"), "sh -c 'echo LOST; exit 3'", 0),
        (("--exit", "3"), "sh -c 'echo LOST; exit 1'", 3),
    ],
)
def test_the_exits_that_go_with_the_symptom_are_any_but_0_or_those_given(
    empty: Path,
    exits: tuple[str, ...],
    treatment: str,
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    declared = ("--match", "^LOST", "--clean", "^HELD", *exits)

    found = run(quick("--yes", "--quiet", "--json", *declared, treatment=treatment))

    assert found == code
    document = json.loads(capsys.readouterr().out)
    arms = {arm["role"]: arm for arm in document["conditions"]}
    assert arms["treatment"]["reasons"] == ({"conflicting_evidence": 10} if code else {})
    assert ("exit    = [" in (empty / "reproduce.toml").read_text()) is bool(exits)


@pytest.mark.parametrize(
    ("options", "hint"),
    [(("--exit", "3"), "--match"), (("--exit", "0", "--match", "^LOST"), "--clean")],
)
def test_exits_that_say_nothing_are_refused_with_a_way_out(
    options: tuple[str, ...], hint: str, empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(quick("--yes", *options))

    shown = capsys.readouterr().err
    assert code == 2
    assert shown.startswith("--exit: ")
    assert f"`{hint}`" in shown.splitlines()[1]
    assert list(empty.iterdir()) == []


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(
    ("treatment", "reason"),
    [
        ("python3 -c 'import nothing_of_this_name'", "harness_error"),
        ("python3 -c 'x ='", "harness_error"),
        ("sh -c 'exit 127'", "harness_error"),
        ("sh -c 'exit 126'", "harness_error"),
        ("sh -c 'exit 7'", "inconclusive_exit"),
        ("sh -c 'kill -9 $$'", "killed_by_signal"),
    ],
)
def test_a_probe_that_does_not_work_is_never_a_reproduction(
    treatment: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(quick("--yes", "--quiet", "--json", treatment=treatment))

    document = json.loads(capsys.readouterr().out)
    arms = {arm["role"]: arm for arm in document["conditions"]}
    assert code == 3
    assert document["verdict"] == "UNRESOLVED"
    assert arms["treatment"]["matched"] == 0
    assert arms["treatment"]["reasons"] == {reason: 10}
    assert arms["control"]["clean"] == 10


@pytest.mark.parametrize("sign", ["|", "&&", ";", ">"])
def test_shell_signs_are_refused_with_the_option_that_takes_them(
    sign: str, empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(quick("--yes", treatment=f"echo LOST {sign} false"))

    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert shown.err.startswith("--treatment: ")
    assert "hint: `--shell`" in shown.err
    assert list(empty.iterdir()) == []


@pytest.mark.usefixtures("empty")
def test_a_shell_runs_the_commands_where_it_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run(
        quick("--yes", "--quiet", "--shell", treatment="true && exit 1", control="true; true")
    )

    assert code == 0
    assert "10/10" in capsys.readouterr().out


def test_words_before_the_program_become_variables(
    empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asks = """sh -c 'exit "$LOSES"'"""

    code = run(quick("--yes", "--quiet", treatment=f"LOSES=1 {asks}", control=f"LOSES=0 {asks}"))

    assert code == 0
    assert "10/10" in capsys.readouterr().out
    assert 'env = { LOSES = "1" }' in (empty / "reproduce.toml").read_text()


def test_a_second_quick_keeps_the_first_file(
    empty: Path,
) -> None:
    run(quick("--yes", "--quiet"))
    first = (empty / "reproduce.toml").read_text()
    run(quick("--yes", "--quiet", n=11))
    run(quick("--yes", "--quiet"))

    assert (empty / "reproduce.toml").read_text() == first
    assert sorted(path.name for path in empty.glob("*.toml")) == [
        "reproduce-2.toml",
        "reproduce.toml",
    ]


def test_a_named_file_that_is_there_is_never_written_over(
    empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (empty / "mine.toml").write_text("mine")

    code = run(quick("--yes", "--file", "mine.toml"))

    assert code == 2
    assert (empty / "mine.toml").read_text() == "mine"
    assert "hint: " in capsys.readouterr().err


def test_a_finished_plan_shows_its_verdict_again_and_once_more_on_request_as_a_sibling(
    empty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(quick("--yes", "--quiet"))
    first = capsys.readouterr().out
    repeated = run(["run", "reproduce.toml", "--quiet"])
    second = capsys.readouterr().out
    before = len(investigations(empty))
    again = run(["run", "reproduce.toml", "--again", "--yes", "--quiet", "--json"])
    sibling = json.loads(capsys.readouterr().out)

    assert (repeated, again) == (0, 0)
    assert second == first
    assert before == 1
    assert len(investigations(empty)) == 2
    assert sibling["siblings"] == 2
