"""What a newcomer ran into, once: each line here was a dead end."""

import os
import subprocess
import sys

from reproduce.cli import opening
from reproduce.cli.app import run
from reproduce.cli.progress import line
from reproduce.engine.loop import Snapshot
from reproduce.errors import ExitCode


def test_the_demo_names_no_ledger_that_is_gone(capsys):
    assert run(["demo", "-q"]) == ExitCode.DONE

    shown = capsys.readouterr().out
    following = shown[shown.index("Next:") :]
    assert "reproduce quick" in following
    assert "--ledger" not in following


def test_swapped_arms_are_called_that(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    code = run(["quick", "-n", "40", "-q", "--yes", "--treatment", "true", "--control", "false"])

    assert code == ExitCode.NOT_ENOUGH
    assert "are the arms swapped?" in " ".join(capsys.readouterr().out.split())


def test_a_ledger_of_somebody_else_is_said_to_be_that_and_not_a_fault_of_ours(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    run(["quick", "-n", "40", "-q", "--yes", "--treatment", "false", "--control", "true"])
    capsys.readouterr()
    monkeypatch.setattr(opening.os, "access", lambda *_: False)

    code = run(["verdict", "latest"])

    error = capsys.readouterr().err
    assert code == ExitCode.INFRASTRUCTURE
    assert "hint: copy it" in error
    assert "Traceback" not in error


def test_the_progress_line_fits_into_80_columns():
    busy = Snapshot(
        blocks=11_111,
        recorded=123_456,
        planned=200_000,
        unresolved=1234,
        in_flight=64,
        slowest_us=59_000_000,
        elapsed_us=10**9,
        left_us=3_599_000_000,
    )

    assert len(line(busy)) < 110
    # What tells most comes first; a narrow terminal cuts the end.
    assert line(busy)[:79].startswith("123456 of 200000 trials · 1234 unresolved · about")


def test_an_approved_plan_is_not_called_unapproved(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "reproduce",
            "quick",
            "-n",
            "40",
            "--yes",
            "--treatment",
            "false",
            "--control",
            "true",
        ],
        cwd=tmp_path,
        env={**os.environ},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "Approved by" in done.stderr
    assert "Not approved" not in done.stderr


ONE_SEED = """
version = 1
title = "forty trials at one seed"
[run]
cmd = ["sh", "-c", "test $((REPRODUCE_SEED % 2)) = 0 && echo VIOLATED && exit 1; echo HELD"]
timeout_s = 60
source = "none"
[symptom]
kind = "output"
pattern = "VIOLATED"
exit = [1]
clean = "^HELD$"
[matrix.seed]
free = { seed = "per-trial" }
fixed = { seed = 43 }
[arms]
treatment = { seed = "free" }
control = { seed = "fixed" }
[budget]
trials = 40
[policy]
name = "binomial/1"
"""


def test_trials_at_one_seed_are_not_shown_as_if_they_were_many(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reproduce.toml").write_text(ONE_SEED)

    run(["run", "reproduce.toml", "--approve", "-q"])

    shown = " ".join(capsys.readouterr().out.split())
    assert "every trial under control (seed=fixed) ran at `seed` 43" in shown
    assert "every trial under treatment" not in shown
