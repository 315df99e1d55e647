"""Kill -9 of the driver at any moment: nothing is lost, nothing runs twice, nothing is left."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import orjson
import pytest

from ledger.records import Ending, EntryKind
from matrices import schedule, trial_seed
from reproduce.judging import bodies, judge, plan_of, story_of
from reproduce.running import open_store
from reproduce.verification import verify

KILLS = 30
SLOTS = 2
TRIALS = 300

# Each trial says that it began, in a file outside its world; a second start would show there.
PROBE = """
echo "$REPRODUCE_TRIAL" >> "$1"
sleep 0.02
exit $((REPRODUCE_TRIAL % 3 == 0))
"""

FILE = """
version = 1
title = "killed again and again"
[run]
cmd = ["sh", "{probe}", "{log}", "{marker}"]
timeout_s = 30
source = "none"
seed = 7
[symptom]
kind = "exit-code"
matched = [1]
clean = [0]
[matrix.arm]
on = {{}}
off = {{ env = {{ ARM = "off" }} }}
[arms]
treatment = {{ arm = "on" }}
control = {{ arm = "off" }}
[budget]
trials = {trials}
parallel = {slots}
[policy]
name = "strict/2"
"""


def left_running(marker):
    """Processes whose command line names the marker."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def wait_for(condition, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "nothing happened in time"
        time.sleep(0.01)


@pytest.fixture
def investigation(tmp_path):
    marker = f"marker-{os.getpid()}-{tmp_path.name}"
    probe, log = tmp_path / "probe.sh", tmp_path / "starts.log"
    probe.write_text(PROBE)
    log.touch()
    file = tmp_path / "reproduce.toml"
    text = FILE.format(probe=probe, log=log, marker=marker, trials=TRIALS, slots=SLOTS)
    file.write_text(text)
    yield file, log, marker
    assert not left_running(marker)


def start(file):
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "reproduce", "run", str(file), "--approve", "--quiet"],
        cwd=file.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_at(process, moment, log):
    """Kills the driver `moment` after the first trial of this session began, or at once."""
    before = log.stat().st_size
    if moment < 0:
        # Before any trial: while it imports, seals, recovers or starts its slots.
        time.sleep(-moment)
    else:
        wait_for(lambda: log.stat().st_size > before or process.poll() is not None)
        time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.faults
@pytest.mark.slow
def test_no_kill_of_the_driver_loses_repeats_or_invents_a_trial(investigation):
    file, log, marker = investigation
    random = np.random.default_rng(20261130)
    # A third of the kills fall before the first trial of their session.
    moments = [
        float(random.uniform(0.0, 0.25))
        if random.random() < 2 / 3
        else -float(random.uniform(0, 1.5))
        for _ in range(KILLS)
    ]

    for moment in moments:
        kill_at(start(file), moment, log)
    final = start(file)
    out, err = final.communicate(timeout=300)

    assert final.returncode in {0, 3}, err
    assert "UNRESOLVED" in out or "PARTIAL" in out
    wait_for(lambda: not left_running(marker))
    with open_store(file.parent / ".reproduce" / "ledger.sqlite") as store:
        (row,) = store.investigations()
        plan = plan_of(store, row.id)
        planned = schedule(plan)
        records = list(bodies(store, row.id))
        found = verify(store, row)
        story = story_of(store, row.id)
        (verdict,) = judge(store, row.id)
    assert found.holds, found.checks
    counted = Counter(record["trial"] for record in records)
    assert set(counted) == set(range(len(planned)))
    assert set(counted.values()) == {1}
    lost = [record for record in records if record["ending"] == Ending.DRIVER_LOST]
    assert len(lost) <= SLOTS * KILLS
    assert lost, "no kill met a running trial: the test shows nothing"
    started = Counter(log.read_text().split())
    assert set(started.values()) == {1}, "a trial was started twice"
    recorded = {str(record["trial"]) for record in records}
    assert set(started) <= recorded
    for record in records:
        trial = planned.trial(record["trial"])
        assert (record["block"], record["condition"]) == (trial.block, trial.condition)
        assert record["seed"] == trial_seed(plan.seed, trial.number)
        if record["ending"] == Ending.EXITED:
            assert record["code"] == (trial.number % 3 == 0)
    assert story.issued == (verdict.canonical().decode(),)
    unresolved = sum(tally.unresolved for tally in verdict.tallies)
    assert unresolved == len(lost)
    assert story.sessions > KILLS / 2, "most kills came before any intent: the test shows little"


@pytest.mark.faults
def test_ctrl_c_once_finishes_what_runs_and_the_next_run_resumes(investigation):
    file, log, marker = investigation
    process = start(file)
    wait_for(lambda: len(log.read_text().split()) > 10)

    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)

    assert process.returncode == 130
    assert "resumes" in err
    assert not left_running(marker)
    started = log.read_text().split()
    with open_store(file.parent / ".reproduce" / "ledger.sqlite") as store:
        (row,) = store.investigations()
        records = list(bodies(store, row.id))
    assert sorted(int(number) for number in started) == sorted(r["trial"] for r in records)
    assert {record["ending"] for record in records} == {Ending.EXITED}
    assert not row.closed


@pytest.mark.faults
def test_ctrl_c_twice_kills_what_runs_and_records_it_as_cancelled(tmp_path):
    marker = f"marker-{os.getpid()}-{tmp_path.name}"
    probe, log = tmp_path / "probe.sh", tmp_path / "starts.log"
    probe.write_text(PROBE.replace("0.02", "600"))
    log.touch()
    file = tmp_path / "reproduce.toml"
    file.write_text(FILE.format(probe=probe, log=log, marker=marker, trials=20, slots=SLOTS))
    process = start(file)
    wait_for(lambda: len(log.read_text().split()) == SLOTS)

    process.send_signal(signal.SIGINT)
    # Two signals at once are one to the kernel: the second is sent once the first was answered.
    while "finishing what runs" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)

    assert process.returncode == 130, err
    assert not left_running(marker)
    with open_store(tmp_path / ".reproduce" / "ledger.sqlite") as store:
        (row,) = store.investigations()
        records = list(bodies(store, row.id))
    assert [record["ending"] for record in records] == [Ending.CANCELLED] * SLOTS
    assert not row.closed


@pytest.mark.faults
def test_a_second_driver_of_the_same_investigation_is_told_who_holds_it(investigation):
    file, log, _ = investigation
    process = start(file)
    wait_for(lambda: len(log.read_text().split()) > 2)

    second = start(file)
    _, err = second.communicate(timeout=120)

    assert second.returncode == 5
    assert f"process {process.pid}" in err
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 130


def test_after_another_boot_intended_trials_without_a_record_are_lost_and_not_repeated(
    investigation,
):
    file, log, _ = investigation
    kill_at(start(file), 0.1, log)
    started = Counter(log.read_text().split())
    path = file.parent / ".reproduce" / "ledger.sqlite"
    with open_store(path) as store:
        (row,) = store.investigations()
        intents = [
            orjson.loads(entry.body)["body"]
            for entry in store.entries(row.id)
            if entry.kind == EntryKind.INTENT
        ]
    assert intents
    # The spools of a machine that lost power may lack what was not synced: as if they were gone.
    for spool in (file.parent / ".reproduce" / "spools").glob("*/*/*.spool"):
        spool.unlink()

    process = start(file)
    process.communicate(timeout=300)

    with open_store(path) as store:
        records = list(bodies(store, row.id))
    assert set(Counter(log.read_text().split()).values()) == {1}
    lost = {record["trial"] for record in records if record["ending"] == Ending.DRIVER_LOST}
    recorded_before = {int(number) for number in started} - lost
    assert {int(number) for number in started} <= lost | recorded_before
    assert lost
