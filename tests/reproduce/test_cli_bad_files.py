"""A file that breaks a rule: one clear message, exit 2, and nothing ran."""

from pathlib import Path
from typing import NamedTuple

import pytest

from reproduce.cli.app import run
from reproduce.testing.commands import investigations, state, write_investigation


class Bad(NamedTuple):
    """What stands in the file instead, and what the message must say."""

    changes: tuple[tuple[str, str], ...]
    place: str
    rule: str
    hint: str


def bad(old: str, new: str, place: str, rule: str, hint: str) -> Bad:
    return Bad(((old, new),), place, rule, hint)


STRICT = 'name = "strict/1"'
BINOMIAL = 'name = "binomial/1"'
TREATMENT = 'treatment = { bug = "on" }'
CONTROL = 'control   = { bug = "off" }'
SYMPTOM = '[symptom]\nkind       = "output"\npattern    = "^LOST"\nclean_exit = [0]\n'

CASES = {
    "unknown key": bad(
        "timeout_s = 20", "timeot_s = 20", "run.timeot_s", "unknown key", "`timeout_s`"
    ),
    "unknown table": bad("[budget]", "[bugdet]", "bugdet", "unknown key", "`budget`"),
    "unknown key of a symptom": bad(
        "clean_exit", "clean_exits", "symptom.clean_exits", "unknown key", "`clean_exit`"
    ),
    "unknown key of a level": bad(
        "on  = { args", "on  = { agrs", "matrix.bug.on.agrs", "`agrs`", "`args`"
    ),
    "misspelt role": bad(
        "treatment =", "tretment =", "arms.tretment", "unknown key", "`treatment`"
    ),
    "missing role": bad(CONTROL, "", "arms.control", "required key", "schema"),
    "condition in no arm": bad(
        "off = {", 'third = { args = ["2"] }\noff = {', "arms", "bug=third", "exclude"
    ),
    "condition in both arms": bad(
        CONTROL, 'control   = { bug = ["off", "on"] }', "arms", "bug=on", ""
    ),
    "unknown level in an arm": bad(
        TREATMENT, 'treatment = { bug = "onn" }', "arms.treatment", "onn", "`on`"
    ),
    "unknown factor in an arm": Bad(
        ((TREATMENT, 'treatment = { bugg = "on" }'), (CONTROL, 'control = { bugg = "off" }')),
        "arms",
        "bugg",
        "`bug`",
    ),
    "bad regex": bad('"^LOST"', '"LOST("', "symptom.pattern", "LOST(", ""),
    "regex that RE2 lacks": bad('"^LOST"', "'LOST(?=x)'", "symptom.pattern", "(?=", "look"),
    "zero budget": bad("trials   = 12", "trials = 0", "budget.trials", "at least 1", "`trials`"),
    "negative wall time": bad(
        "trials   = 12", "wall_s = -1", "budget.wall_s", "from 0", "`wall_s`"
    ),
    "zero wall time": bad("trials   = 12", "wall_s = 0", "budget.wall_s", "above 0", ""),
    "alpha of two": bad(STRICT, f"{BINOMIAL}\nalpha = 2", "policy.alpha", "`alpha` is 2", "0.5"),
    "alpha that is no number": bad(
        STRICT, f'{BINOMIAL}\nalpha = "five"', "policy.alpha", "decimal", "0.05"
    ),
    "unknown parameter": bad(
        STRICT, f'{BINOMIAL}\nalfa = "0.1"', "policy.alfa", "no parameter", "`alpha`"
    ),
    "unknown policy": bad(
        STRICT, 'name = "binomial/9"', "policy.name", "`binomial/9`", "`binomial/1`"
    ),
    "time zone that does not exist": bad(
        'on  = { args = ["1"] }',
        'on  = { tz = "Europe/Berln" }',
        "matrix.bug.on.tz",
        "no time zone",
        "`Europe/Berlin`",
    ),
    "locale that this machine lacks": bad(
        'on  = { args = ["1"] }', 'on  = { locale = "xx_XX.UTF-8" }', "bug=on", "locale", "knobs"
    ),
    "knob value out of range": bad(
        'on  = { args = ["1"] }',
        'on  = { umask = "999" }',
        "matrix.bug.on.umask",
        "octal",
        "umask",
    ),
    "missing image": bad(
        "timeout_s = 20", 'timeout_s = 20\nsandbox = "docker"', "run.sandbox", "image", "image ="
    ),
    "sandbox of a later version": bad(
        "timeout_s = 20", 'timeout_s = 20\nsandbox = "bwrap"', "run.sandbox", "bwrap", "`process`"
    ),
    "budget that cannot reach the claim": Bad(
        (("trials   = 12", "trials = 2"), (STRICT, BINOMIAL)),
        "budget.trials",
        "no outcome of 2 trials",
        "at least 3 trials",
    ),
    "budget below the declared power": bad(
        STRICT, f'{BINOMIAL}\npower = "0.9"', "policy.power", "power of", "plan 52 trials"
    ),
    "several contrasts": Bad(
        (
            (STRICT, BINOMIAL),
            ("[arms]", "[matrix.hash]\na = { hash_seed = 1 }\nb = { hash_seed = 2 }\n\n[arms]"),
        ),
        "arms",
        "one treatment with one control, not 2",
        "`strict/2`",
    ),
    "no such source": bad(
        "timeout_s = 20", 'timeout_s = 20\nsource = "nowhere"', "run.source", "nowhere", ""
    ),
    "no such revision": bad(
        "timeout_s = 20",
        'timeout_s = 20\nsource = { git = ".", rev = "main" }',
        "run.source",
        "",
        "",
    ),
    "no such program": bad(
        '"sh", "probe.sh"', '"shh", "probe.sh"', "bug=on", "`shh`", "installed"
    ),
    "no such requirements": bad(
        "timeout_s = 20",
        'timeout_s = 20\nrequirements = "r.txt"',
        "run.requirements",
        "r.txt",
        "",
    ),
    "unknown placeholder": bad(
        '"probe.sh"]', '"probe.sh", "{sed}"]', "run.cmd[2]", "`{sed}`", "`seed`"
    ),
    "single brace": bad('"probe.sh"]', '"probe.sh", "{"]', "run.cmd[2]", "single `{`", "`{{`"),
    "no symptom": bad(SYMPTOM, "", "symptom", "no symptom", "[symptom]"),
    "two symptoms and none primary": bad(
        SYMPTOM,
        '[symptom.a]\nkind = "output"\npattern = "A"\nclean_exit = [0]\n'
        '[symptom.b]\nkind = "output"\npattern = "B"\nclean_exit = [0]\n',
        "symptom",
        "0 are primary",
        "primary = true",
    ),
    "symptom without a clean side": bad(
        "clean_exit = [0]\n", "", "symptom", "clean trial", "`clean`"
    ),
    "exit that is matched and clean": bad(
        "clean_exit = [0]", "exit = [0, 1]\nclean_exit = [0]", "symptom", "exit 0", "one thing"
    ),
    "duration without an exit": bad(
        SYMPTOM,
        '[symptom]\nkind = "duration"\nlonger_than_s = 1\nexit = []\n',
        "symptom.exit",
        "nothing stands there",
        "`exit`",
    ),
    "time limit of nothing": bad(
        "timeout_s = 20", "timeout_s = 0", "run.timeout_s", "0.001", "raise"
    ),
    "time limit as text": bad(
        "timeout_s = 20", 'timeout_s = "20"', "run.timeout_s", "number of seconds", ""
    ),
    "time limit beyond measure": bad(
        "timeout_s = 20", "timeout_s = 1e999999", "run.timeout_s", "number of seconds", ""
    ),
    "variable of ours": bad(
        "timeout_s = 20",
        'timeout_s = 20\nenv = { REPRODUCE_SEED = "1" }',
        "run.env.REPRODUCE_SEED",
        "set by us",
        "REPRODUCE_",
    ),
    "null character in the command": bad(
        '"probe.sh"]', '"probe.sh", "\\u0000"]', "run.cmd[2]", "null", "program"
    ),
    "program of nothing": bad('"sh", "probe.sh"', '""', "run.cmd[0]", "nothing", "program"),
    "level without a table": bad(
        'on  = { args = ["1"] }', "on  = 1", "matrix.bug.on", "table is expected", "schema"
    ),
    "time limit of a level": bad(
        'on  = { args = ["1"] }',
        'on  = { timeout_s = "soon" }',
        "matrix.bug.on.timeout_s",
        "number of seconds",
        "",
    ),
    "factor with a bad name": bad(
        "[matrix.bug]", "[matrix.Bug]", "matrix.Bug", "not a name", "a-z"
    ),
    "broken syntax": bad("[arms]", "[arms", "", "line", "TOML"),
    "wrong version": bad("version = 1", "version = 7", "version", "`7`", "write 1"),
    "trials beyond what a schedule holds": bad(
        "trials   = 12",
        "trials = 9000000000000000000",
        "budget.trials",
        "at most 20000000",
        "lower",
    ),
}


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The lines of the message, once it is certain that nothing but the message came out."""
    code = run(list(arguments))
    said = capsys.readouterr()

    assert (code, said.out) == (2, ""), said.err
    return said.err.splitlines()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_file_that_breaks_a_rule_is_refused_with_place_rule_and_hint_before_anything_runs(
    case: Bad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_investigation(tmp_path, *case.changes)

    lines = refused(capsys, "run", "reproduce.toml", "--yes", "--quiet")

    assert len(lines) == 2, lines
    message, hint = lines
    assert message.startswith((f"reproduce.toml: {case.place}", case.place)), message
    assert case.rule in message
    assert hint.startswith("hint: ")
    assert case.hint in hint
    assert investigations(tmp_path) == ()
    assert not (state(tmp_path).root / "spools").exists()


def test_an_unreadable_source_tree_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_investigation(tmp_path)
    # Unreadable even to root: a link in a ring has no content.
    (tmp_path / "source").symlink_to("source")
    path = write_investigation(tmp_path, ("timeout_s = 20", 'timeout_s = 20\nsource = "source"'))

    message, hint = refused(capsys, "run", path.name, "--yes", "--quiet")

    assert message.startswith("reproduce.toml: run.source: ")
    assert hint.startswith("hint: ")
    assert investigations(tmp_path) == ()


@pytest.mark.parametrize("words", [("run", "--yes"), ("check",), ("plan",)], ids=lambda w: w[0])
def test_a_file_that_is_not_there_is_a_usage_error_of_every_command_that_reads_one(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    message, hint = refused(capsys, *words, "absent.toml")

    assert message == "absent.toml: no such file or directory"
    assert "reproduce init" in hint
    assert list(tmp_path.iterdir()) == []
