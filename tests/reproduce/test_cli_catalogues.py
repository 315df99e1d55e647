"""What the tool says of itself: policies, powers, knobs, the schema, completion, the machine."""

import hashlib
import importlib
import json
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from policies import registry
from policies.stats.power import Design, classes
from reproduce.cli import checkup
from reproduce.cli.app import run
from reproduce.cli.catalogues import ABOUT, code_digest
from reproduce.cli.powers import power_table
from reproduce.errors import InfrastructureError, UsageError
from reproduce.executors.local import LocalExecutor
from reproduce.knobs import KNOBS, parse_knob
from reproduce.planning.file import parse
from reproduce.planning.quick import STARTERS, Quick, quick_text, starter_text
from reproduce.planning.schema import PARAMETERS, file_schema
from reproduce.testing.commands import FILE, command, environment

ROOT = Path(__file__).parents[2]

PINNED, WEAK = "REPRODUCTION_PINNED", "WEAK_SIGNAL"


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The document that a command writes."""
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


# --- policies


def test_every_published_policy_is_listed_and_described(
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = document(capsys, "policy", "list")["policies"]

    assert [policy["name"] for policy in listed] == list(registry.names()) == list(ABOUT)


@pytest.mark.parametrize("name", registry.names())
def test_every_parameter_is_described_with_its_default(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = document(capsys, "policy", "show", name)["parameters"]

    defaults = {one.name: one.value for one in registry.complete(name, {}).parameters}
    assert {k: v["default"] for k, v in shown.items() if v["default"] is not None} == defaults
    assert tuple(sorted(shown)) == tuple(sorted(PARAMETERS.get(name, ())))


def test_the_digest_of_a_policy_covers_its_rules_its_reading_and_its_statistics() -> None:
    digest, modules = code_digest("binomial/1")

    assert {"policies.binomial_v1", "policies.binomial_v1_rules", "policies.reading_v1"} <= set(
        modules
    )
    assert {"policies.stats.score", "policies.stats.suprema"} <= set(modules)
    assert "policies.strict_v1" not in modules
    again = hashlib.sha256()
    for name in modules:
        file = importlib.import_module(name).__file__
        assert file is not None
        data = Path(file).read_bytes()
        again.update(f"{name}\n{len(data)}\n".encode() + data)
    assert digest == again.hexdigest()


# --- powers


def chances(name: str, trials: int, **given: str) -> Mapping[tuple[str, str, str], Any]:
    found = power_table(name, trials, given)
    return {(row.treatment, row.control, row.trials): row.chances for row in found.rows}


@pytest.mark.parametrize("name", registry.names())
def test_the_chances_of_every_row_add_up_to_one(name: str) -> None:
    assert all(sum(row) == pytest.approx(1, abs=1e-9) for row in chances(name, 15).values())


@pytest.mark.parametrize(("treatment", "control"), [("0.3", "0"), ("0.5", "0.05"), ("0.1", "0.1")])
@pytest.mark.parametrize("unresolved", [0, 2])
def test_the_powers_of_binomial_are_those_of_its_statistics(
    treatment: str, control: str, unresolved: int
) -> None:
    title = f"{unresolved} unresolved" if unresolved else "all resolved"

    found = chances("binomial/1", 20)[treatment, control, title]

    design = Design(
        20 - unresolved, 20 - unresolved, unresolved, unresolved, Fraction(1, 20), Fraction(1, 10)
    )
    wanted = classes(design, Fraction(treatment), Fraction(control))
    assert found == pytest.approx(
        [
            wanted.pinned,
            wanted.partial,
            wanted.weak_signal,
            wanted.unresolved,
            wanted.not_reproduced,
        ],
        abs=1e-9,
    )


def test_binomial_keeps_its_error_rate_where_there_is_no_effect() -> None:
    found = power_table("binomial/1", 30, {})

    assert 0 < found.false_claims("all resolved") <= 0.05
    assert found.false_claims("3 unresolved") <= 0.05


def test_the_strict_thresholds_have_the_chances_of_their_definition() -> None:
    found = chances("strict/1", 10)["0.5", "0", "all resolved"]

    # All of ten, 4 to 9, 1 to 3, none: out of 1024.
    pinned, partial, weak, unresolved, nothing = (round(chance * 1024, 6) for chance in found)
    assert (pinned, partial, weak, unresolved, nothing) == (1, 847, 175, 0, 1)


def test_a_parameter_changes_the_chances_and_a_bad_one_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    strict = chances("binomial/1", 20, alpha="0.001")["0.3", "0", "all resolved"]
    loose = chances("binomial/1", 20)["0.3", "0", "all resolved"]
    codes = [
        run(["policy", "power", "binomial/1", "--set", "alpha=2"]),
        run(["policy", "power", "binomial/1", "--set", "alpha"]),
        run(["policy", "power", "binomial/1", "-n", "0"]),
        run(["policy", "power", "binomial/1", "-n", "201"]),
        run(["policy", "power", "strict/7"]),
    ]

    assert strict[0] < loose[0]
    assert codes == [2] * 5
    assert capsys.readouterr().err.count("hint: ") == 5


def test_powers_are_shown_for_people_and_in_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["policy", "power", "strict/2", "-n", "12", "--plain"])

    shown = capsys.readouterr().out
    assert code == 0
    assert shown.isascii()
    assert "strict/2 with 12 trials in each of two conditions" in shown
    assert "not reproduced" in shown


# --- knobs


@pytest.mark.parametrize("which", ["list", "probe"])
def test_every_knob_is_in_the_catalogue(which: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["knobs", which]) == 0
    shown = capsys.readouterr().out
    listed = document(capsys, "knobs", which)["knobs"]

    assert [row["name"] for row in listed] == list(KNOBS)
    assert [line.split()[0] for line in shown.splitlines()[1:] if line[0] != " "] == list(KNOBS)


# --- schema

VALIDATOR = Draft202012Validator(file_schema())


def refusals(text: str) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(tomllib.loads(text))]


def examples() -> list[Path]:
    folders = (ROOT / "examples").glob("*/reproduce.toml")
    return sorted([*folders, ROOT / "reproduce" / "demo" / "reproduce.toml"])


@pytest.mark.parametrize("path", examples(), ids=lambda path: path.parent.name)
def test_the_schema_takes_every_file_that_we_ship(path: Path) -> None:
    assert refusals(path.read_text("utf-8")) == []


@pytest.mark.parametrize("kind", STARTERS)
def test_the_schema_takes_every_file_to_start_from(kind: str) -> None:
    assert refusals(starter_text(kind)) == []


@pytest.mark.parametrize("match", [None, "^LOST"])
def test_the_schema_takes_what_quick_writes(match: str | None) -> None:
    wanted = Quick(
        "A=1 false", "true", 60, match, None, "2.5", 2, "binomial/1", ".", shell=False, title=None
    )

    assert refusals(quick_text(wanted)) == []


SEVERAL = FILE.replace("[symptom]", "[symptom.output]\nprimary = true").replace(
    "[matrix.bug]",
    '[symptom.other]\nkind = "exit-code"\nmatched = [1]\nclean = [0]\n\n[matrix.bug]',
)
LISTS = FILE.replace('bug = "on" }', 'bug = ["on", "third"] }').replace(
    "off = {", 'third = { cmd = ["true"], timeout_s = 1.5, hash_seed = "per-trial" }\noff = {'
)
RULES = FILE.replace(
    "[matrix.bug]",
    '[[matrix.include]]\nbug = "on"\n[[matrix.exclude]]\nfactors = ["a"]\n[matrix.factors]\n'
    'a = {}\nb = { env = { "X" = "1" } }\n[matrix.bug]',
)


@pytest.mark.parametrize("text", [FILE, SEVERAL, LISTS, RULES])
def test_the_schema_and_the_product_take_the_shapes_of_a_file(text: str) -> None:
    parse(text, place="reproduce.toml")

    assert refusals(text) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("version = 1\n", ""),
        ("version = 1", "version = 2"),
        ("timeout_s", "timeot_s"),
        ("[budget]", "[bugdet]"),
        ("[budget]", "[budget]\nseed = 1"),
        ("clean_exit", "clean_exits"),
        ("[symptom]", "[symptoms]"),
        ("[symptom]", "[symptom.Big]"),
        ("[symptom]", "[symptom.a]\nunknown = 1"),
        ('kind       = "output"', 'kind = "outputs"'),
        ("trials   = 12", "trials = 0"),
        ("timeout_s = 20", "timeout_s = -1"),
        ("timeout_s = 20", 'timeout_s = "20"'),
        ("on  = { args", "on  = { arg"),
        ('args = ["1"]', "args = 1"),
        ("[matrix.bug]", "[matrix.Bug]"),
        ("[matrix.bug]", "[matrix]\nbogus = 1\n[matrix.bug]"),
        ("treatment =", "tretment ="),
        ('name = "strict/1"', 'name = "strict/9"'),
        ('name = "strict/1"', 'name = "strict/1"\nalpha = "0.05"'),
        ('name = "strict/1"', 'name = "binomial/1"\nalfa = "0.05"'),
        ('name = "strict/1"', ""),
    ],
)
def test_the_schema_refuses_what_the_product_refuses(old: str, new: str) -> None:
    text = FILE.replace(old, new)

    assert text != FILE
    assert refusals(text) != []
    with pytest.raises((UsageError, ValueError)):
        accept(text)


def accept(text: str) -> None:
    """Reads a file, its policy and its knobs as sealing does."""
    file = parse(text, place="reproduce.toml")
    given = {name: str(value) for name, value in (file.policy.model_extra or {}).items()}
    registry.complete(file.policy.name, given)
    for name, levels in file.matrix.factors.items():
        for level in levels.values():
            for key, value in level.items():
                parse_knob(key, list(value) if isinstance(value, tuple) else value, place=name)


def test_the_schema_is_written_to_a_file_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "schema.json"

    codes = [run(["schema", "-o", str(path)]), run(["schema", "-o", str(tmp_path / "no" / "x")])]

    shown = capsys.readouterr()
    assert codes == [0, 2]
    assert shown.out == ""
    Draft202012Validator.check_schema(json.loads(path.read_text("utf-8")))


# --- completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_asks_the_command_for_words(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["completion", shell])

    shown = capsys.readouterr().out
    assert code == 0
    assert f"_REPRODUCE_COMPLETE=complete_{shell}" in shown


def test_a_shell_without_completion_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["completion", "tcsh"])

    assert code == 2
    assert "hint: shells: `bash`, `zsh`, `fish`" in capsys.readouterr().err


ASKING = {
    "bash": {"COMP_WORDS": "reproduce ver", "COMP_CWORD": "1"},
    "zsh": {"_TYPER_COMPLETE_ARGS": "reproduce ver"},
    "fish": {"_TYPER_COMPLETE_ARGS": "reproduce ver", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


@pytest.mark.parametrize("shell", ASKING)
def test_the_command_answers_a_shell_with_the_words_that_fit(shell: str, tmp_path: Path) -> None:
    env = environment(_REPRODUCE_COMPLETE=f"complete_{shell}", **ASKING[shell])

    ended = command(tmp_path, env=env)

    assert (ended.code, ended.err) == (0, "")
    assert all(word in ended.out for word in ("version", "verdict", "verify"))
    assert "ledger" not in ended.out


def test_bash_takes_the_script(tmp_path: Path) -> None:
    script = command(tmp_path, "completion", "bash").out

    ended = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\ncomplete -p reproduce"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "_reproduce_completion reproduce" in ended.stdout


# --- doctor


def test_the_checkup_of_a_machine_that_can_run_trials_names_every_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    checks = document(capsys, "doctor")["checks"]

    assert {check["state"] for check in checks} <= {"ok", "warn"}
    assert [check["name"] for check in checks] == [
        "system", "python", "origin", "sqlite", "disk", "cores", "containment", "tree", "git",
        "locales", "extras",
    ]  # fmt: skip
    assert all(check["fix"] for check in checks if check["state"] != "ok")
    assert list(tmp_path.iterdir()) == []


def test_a_machine_on_which_no_slot_host_starts_is_5_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        message = "a slot host does not start: no"
        raise InfrastructureError(message)

    monkeypatch.setattr(LocalExecutor, "start", refuse)

    code = run(["doctor"])

    assert code == 5
    assert "fail  containment  a slot host does not start: no; " in capsys.readouterr().out


def test_what_is_missing_comes_with_the_way_to_mend_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(checkup.platform, "system", lambda: "Plan9")
    monkeypatch.setattr(checkup.sqlite3, "sqlite_version_info", (3, 30, 0))

    found = {check.name: check for check in checkup.checkup(tmp_path)}

    assert {name: found[name].state for name in ("system", "sqlite", "git", "locales")} == {
        "system": "fail",
        "sqlite": "fail",
        "git": "warn",
        "locales": "warn",
    }
    assert all(check.fix for check in found.values() if check.state != "ok")
