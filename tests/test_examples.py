"""Every example seals, states honest chances, and gives the verdict that it promises."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scipy.stats import binom

from matrices import Role
from policies.binomial_v1_parameters import DEFAULTS, Parameters
from policies.binomial_v1_rules import read
from policies.model import Status, Tally
from reproduce.cli.app import run

EXAMPLES = Path(__file__).parent.parent / "examples"
FOLDERS = sorted(path for path in EXAMPLES.iterdir() if path.is_dir() and path.name[0] != ".")

RARE = 1e-6
"""The chance that a run of an example would be wrong though the product is right."""

LIMIT_S = 900
"""Several times what the slowest example takes on a machine with other work."""


class Share(NamedTuple):
    """How often an arm matched, or stayed unresolved, where the case was measured."""

    rate: Fraction
    unresolved: bool


class Example(NamedTuple):
    """One investigation file and what it must give."""

    path: Path
    verdict: Status
    reasons: tuple[str, ...]
    treatment: Share
    control: Share
    another: float
    quick: bool

    def declared(self) -> dict[str, Any]:
        return tomllib.loads(self.path.read_text("utf-8"))


def share(counts: dict[str, int]) -> Share:
    unresolved = "unresolved" in counts
    return Share(
        Fraction(counts["unresolved" if unresolved else "matched"], counts["of"]), unresolved
    )


def examples_of(folder: Path) -> list[Example]:
    expected = tomllib.loads((folder / "expected.toml").read_text("utf-8"))
    return [
        Example(
            path=folder / entry["file"],
            verdict=Status(entry["verdict"]),
            reasons=tuple(entry["reasons"]),
            treatment=share(entry["treatment"]),
            control=share(entry["control"]),
            another=float(entry["another"]),
            quick=entry["quick"],
        )
        for entry in expected["investigation"]
    ]


ALL = [example for folder in FOLDERS for example in examples_of(folder)]


def label(example: Example) -> str:
    return f"{example.path.parent.name}/{example.path.stem}"


def cases(*, only_quick: bool = False) -> list[Any]:
    chosen = (example for example in ALL if example.quick or not only_quick)
    return [pytest.param(example, id=label(example)) for example in chosen]


def run_apart(*arguments: str, here: Path) -> "subprocess.CompletedProcess[str]":
    """Runs the command of this tree below a folder."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "reproduce", *arguments],
        cwd=here,
        env={**os.environ, "TMPDIR": str(here)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def copied(example: Example, tmp_path: Path) -> Path:
    folder = tmp_path / example.path.parent.name
    shutil.copytree(example.path.parent, folder, ignore=shutil.ignore_patterns(".reproduce"))
    return folder / example.path.name


def still_running(folder: Path) -> list[str]:
    """Returns the processes that work below a folder or were told about it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            working = os.fsencode((process / "cwd").readlink())
        except OSError:  # it ended meanwhile
            continue
        if os.fsencode(folder) in told + working and process.name != str(os.getpid()):
            found.append(process.name)
    return found


def gives_its_verdict(example: Example, tmp_path: Path) -> None:
    file = copied(example, tmp_path)

    ended = run_apart("run", str(file), "--approve", "--quiet", "--json", here=tmp_path)

    assert ended.returncode == (3 if example.verdict is Status.UNRESOLVED else 0), ended.stderr
    shown = json.loads(ended.stdout)
    assert shown["verdict"] == example.verdict, shown["conditions"]
    assert tuple(row["reason"] for row in shown["reasons"]) == example.reasons
    assert all(condition["missing"] == 0 for condition in shown["conditions"])
    assert still_running(tmp_path) == []


def tally(role: Role, trials: int, found: int, *, unresolved: bool) -> Tally:
    matched, unread = (0, found) if unresolved else (found, 0)
    return Tally(
        condition=0,
        role=role,
        planned=trials,
        matched=matched,
        clean=trials - found,
        unresolved=unread,
        missing=0,
    )


def chance_of_another(example: Example) -> float:
    """Returns the chance that `binomial/1` says something else at the measured rates."""
    declared = example.declared()
    trials = declared["budget"]["trials"]
    given = {**DEFAULTS, **{k: v for k, v in declared["policy"].items() if k != "name"}}
    wanted = Parameters(**{name: Fraction(value) for name, value in given.items()}, power=None)
    assert example.control.rate in {0, 1}
    beside = int(example.control.rate) * trials
    control = tally(Role.CONTROL, trials, beside, unresolved=False)
    missed = 0.0
    for found in range(trials + 1):
        treatment = tally(Role.TREATMENT, trials, found, unresolved=example.treatment.unresolved)
        if read(treatment, control, wanted, flags=()) != (example.verdict, example.reasons):
            missed += float(binom.pmf(found, trials, float(example.treatment.rate)))
    return missed


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.name))
def test_an_example_has_its_page_its_probe_and_its_expected_verdicts(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    investigations = {path.name for path in folder.glob("*.toml")} - {"expected.toml"}

    assert names >= {"README.md", "expected.toml", "reproduce.toml"}
    assert names & {"probe.py", "probe.sh", "test_shuffle.py", "test_ns_port.py"}
    assert {example.path.name for example in examples_of(folder)} == investigations


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.name))
def test_the_pages_name_every_investigation_and_its_verdict(folder: Path) -> None:
    page = (folder / "README.md").read_text("utf-8")
    table = (EXAMPLES / "README.md").read_text("utf-8")

    assert f"({folder.name}/README.md)" in table
    for example in examples_of(folder):
        line = f"reproduce run examples/{folder.name}/{example.path.name} --approve"
        assert line in page
        assert f"| `{example.path.name}` | `{example.verdict}`" in page


@pytest.mark.parametrize("example", cases())
def test_an_example_declares_what_its_symptom_and_a_clean_trial_show(example: Example) -> None:
    symptom = example.declared()["symptom"]

    assert symptom["kind"] != "exit-code"
    assert (
        symptom.keys()
        >= {
            "output": {"pattern", "clean"},
            "timeout": {"alive", "clean"},
            "junit": {"test", "message"},
        }[symptom["kind"]]
    )


@pytest.mark.parametrize("example", cases())
def test_an_example_seals_and_is_not_weak(
    example: Example, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copied(example, tmp_path)

    code = run(["check", str(file)])

    assert (code, capsys.readouterr().err) == (0, "")


@pytest.mark.parametrize("example", cases())
def test_another_verdict_is_as_rare_as_the_example_states(example: Example) -> None:
    if example.declared()["policy"]["name"] == "strict/2":
        # Pinned under this policy: every treatment trial matched and no control trial did.
        assert example.treatment.rate == 1
        assert example.control.rate == 0
        chance = 0.0
    else:
        chance = chance_of_another(example)

    assert chance < RARE
    assert chance <= example.another


@pytest.mark.slow
@pytest.mark.parametrize("example", cases(only_quick=True))
def test_a_quick_example_gives_its_verdict(example: Example, tmp_path: Path) -> None:
    gives_its_verdict(example, tmp_path)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("example", cases())
def test_every_example_gives_its_verdict(example: Example, tmp_path: Path) -> None:
    gives_its_verdict(example, tmp_path)
