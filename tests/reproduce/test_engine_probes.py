"""Probes that misbehave, each run for real: the right outcome, the right reason, nothing left."""

import os
import sys
from pathlib import Path

import pytest

from policies import Outcome, Reason
from policies.evidence import OUTCOMES, REASONS
from reproduce.cli.app import run
from reproduce.errors import ExitCode
from reproduce.judging import bodies, evidence, plan_of, story_of
from reproduce.running import open_store
from reproduce.verification import verify

OUTPUT = """
kind = "output"
pattern = "VIOLATED"
exit = [1]
clean = "^HELD$"
"""
EXIT_CODE = """
kind = "exit-code"
matched = [1]
clean = [0]
"""
TIMEOUT = """
kind = "timeout"
alive = "^READY"
clean = [0]
"""
JUNIT = """
kind = "junit"
test = "tests/test_a.py::test_a"
message = "boom"
"""
DURATION = """
kind = "duration"
longer_than_s = 0.2
exit = [0]
"""

FORKS = """
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["{marker}", "600"])
    os._exit(0)
print("HELD", flush=True)
"""

ODD_FILES = """
import os
out = os.environ["REPRODUCE_OUT"].encode()
for name in (b"plain", b"not-utf8-\\xff", b"line\\nfeed", b"-rf"):
    open(os.path.join(out, name), "w").write("x")
os.symlink("/etc/passwd", os.path.join(out, b"link"))
os.mkfifo(os.path.join(out, b"pipe"))
print("HELD")
"""

FLOOD = """
import sys
line = b"x" * 65535 + b"\\n"
for _ in range(3200):
    sys.stdout.buffer.write(line)
"""

DROPPED = """
import sys
sys.stdout.write("a" * 200_000 + "\\nVIOLATED\\n" + "b" * 200_000 + "\\nHELD\\n")
sys.exit(1)
"""

HEAD = """
import sys
print("VIOLATED")
sys.stdout.write("b" * 2_000_000)
sys.exit(1)
"""

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
{say}
time.sleep(600)
"""

REPORT = """
import os, pathlib
pathlib.Path(os.environ["REPRODUCE_OUT"], "junit.xml").write_text({text!r})
"""

CASE = '<testsuite name="s" tests="1">{}</testsuite>'

CASES = {
    # name: symptom, probe, outcome, reason
    "the symptom": (OUTPUT, "print('VIOLATED'); raise SystemExit(1)", "matched", None),
    "clean": (OUTPUT, "print('HELD')", "clean", None),
    "an ImportError under a pattern": (
        OUTPUT,
        "import no_such_module",
        "unresolved",
        Reason.UNRELATED_FAILURE,
    ),
    "an ImportError under exit codes": (
        EXIT_CODE,
        "import no_such_module",
        "unresolved",
        Reason.HARNESS_ERROR,
    ),
    "a SyntaxError under exit codes": (EXIT_CODE, "def", "unresolved", Reason.HARNESS_ERROR),
    "a plain exit 1 under exit codes": (EXIT_CODE, "raise SystemExit(1)", "matched", None),
    "another exit code": (
        EXIT_CODE,
        "raise SystemExit(4)",
        "unresolved",
        Reason.INCONCLUSIVE_EXIT,
    ),
    "the symptom and then exit 0": (
        OUTPUT,
        "print('VIOLATED')",
        "unresolved",
        Reason.CONFLICTING_EVIDENCE,
    ),
    "the symptom and the clean pattern": (
        OUTPUT,
        "print('VIOLATED'); print('HELD'); raise SystemExit(1)",
        "unresolved",
        Reason.CONFLICTING_EVIDENCE,
    ),
    "exit 0 that ran nothing": (OUTPUT, "", "unresolved", Reason.UNRELATED_FAILURE),
    "killed by a signal": (
        OUTPUT,
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "unresolved",
        Reason.KILLED_BY_SIGNAL,
    ),
    "a child that outlives its parent": (OUTPUT, FORKS, "clean", None),
    "odd files in the output folder": (OUTPUT, ODD_FILES, "clean", None),
    "200 MB of output": (OUTPUT, FLOOD, "unresolved", Reason.OUTPUT_LIMIT),
    "the symptom in the dropped middle": (OUTPUT, DROPPED, "unresolved", Reason.OUTPUT_LIMIT),
    "the symptom before the dropped part": (OUTPUT, HEAD, "matched", None),
    "SIGTERM ignored, a hang is the symptom": (
        TIMEOUT,
        STUBBORN.format(say="print('READY', flush=True)"),
        "matched",
        None,
    ),
    "a hang before it was alive": (
        TIMEOUT,
        STUBBORN.format(say=""),
        "unresolved",
        Reason.TIME_LIMIT,
    ),
    "a hang where it is not the symptom": (
        OUTPUT,
        STUBBORN.format(say="print('VIOLATED', flush=True)"),
        "unresolved",
        Reason.TIME_LIMIT,
    ),
    "no JUnit file": (JUNIT, "", "unresolved", Reason.HARNESS_ERROR),
    "an empty JUnit file": (JUNIT, REPORT.format(text=""), "unresolved", Reason.HARNESS_ERROR),
    "a JUnit file without tests": (
        JUNIT,
        REPORT.format(text=CASE.format("")),
        "unresolved",
        Reason.HARNESS_ERROR,
    ),
    "a missing test id": (
        JUNIT,
        REPORT.format(text=CASE.format('<testcase classname="tests.test_a" name="test_b"/>')),
        "unresolved",
        Reason.HARNESS_ERROR,
    ),
    "the JUnit case failed with the message": (
        JUNIT,
        REPORT.format(
            text=CASE.format(
                '<testcase classname="tests.test_a" name="test_a">'
                '<failure message="boom">boom</failure></testcase>'
            )
        ),
        "matched",
        None,
    ),
    "the JUnit case ran clean": (
        JUNIT,
        REPORT.format(text=CASE.format('<testcase classname="tests.test_a" name="test_a"/>')),
        "clean",
        None,
    ),
    "slower than the bound": (DURATION, "import time; time.sleep(0.3)", "matched", None),
    "within the bound": (DURATION, "", "clean", None),
}

FILE = """
version = 1
title = "a probe that misbehaves"
[run]
cmd = ["{python}", "-S", "-I", "probe.py"]
timeout_s = {timeout}
[symptom]
{symptom}
[matrix.arm]
on = {{}}
off = {{ env = {{ ARM = "off" }} }}
[arms]
treatment = {{ arm = "on" }}
control = {{ arm = "off" }}
[budget]
trials = 1
[policy]
name = "strict/1"
"""


def left_running(marker):
    """Processes that were started under the name `marker`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(marker.encode()):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize(("symptom", "probe", "outcome", "reason"), CASES.values(), ids=CASES)
def test_a_probe_that_misbehaves_reads_as_what_it_is(
    tmp_path, monkeypatch, capsys, symptom, probe, outcome, reason
):
    timeout = "0.7" if "time.sleep(600)" in probe else "60"
    marker = f"left-by-{os.getpid()}"
    (tmp_path / "probe.py").write_text(probe.replace("{marker}", marker))
    text = FILE.format(python=sys.executable, timeout=timeout, symptom=symptom)
    (tmp_path / "reproduce.toml").write_text(text)
    monkeypatch.chdir(tmp_path)

    code = run(["run", "reproduce.toml", "--approve", "-q"])

    assert code == ExitCode.NOT_ENOUGH, capsys.readouterr().err
    assert not left_running(marker)
    with open_store(tmp_path / ".reproduce" / "ledger.sqlite") as store:
        (row,) = store.investigations()
        plan = plan_of(store, row.id)
        found = evidence(store, row.id, plan, story_of(store, row.id))
        records = list(bodies(store, row.id))
        verification = verify(store, row)
    assert [OUTCOMES[code] for code in found.outcome] == [Outcome(outcome)] * 2
    read = [REASONS[code] if code >= 0 else None for code in found.reason]
    assert read == [reason] * 2
    assert verification.holds, verification.checks
    if "os.fork" in probe:
        assert [record["leftovers"] for record in records] == [1, 1]
    if "mkfifo" in probe:
        names = {file["path"] for record in records for file in record["files"]}
        assert names == {"plain", "not-utf8-\\xff", "line\nfeed", "-rf"}
    if "3200" in probe:
        assert {record["stdout"]["size"] for record in records} == {3200 * 65536}
        assert all(record["stdout"]["stored"] < 70_000 for record in records)


CHANGES_ITS_TREE = """
import os, pathlib, sys
stored = next(pathlib.Path({state!r}, "trees").glob("*/probe.py"))
stored.write_text("print('VIOLATED'); raise SystemExit(1)")
print("HELD")
"""


def test_a_trial_that_changes_the_stored_tree_takes_every_claim_with_it(
    tmp_path, monkeypatch, capsys
):
    state = str(tmp_path / ".reproduce")
    (tmp_path / "probe.py").write_text(CHANGES_ITS_TREE.format(state=state))
    text = FILE.format(python=sys.executable, timeout="60", symptom=OUTPUT)
    text = text.replace("trials = 1", "trials = 12").replace("strict/1", "strict/2")
    (tmp_path / "reproduce.toml").write_text(text)
    monkeypatch.chdir(tmp_path)

    code = run(["run", "reproduce.toml", "--approve", "-q"])

    assert code == ExitCode.NOT_ENOUGH
    out = capsys.readouterr().out
    assert "UNRESOLVED" in out
    assert "conflict" in out


UNSTORABLE = """
import os
out = os.environ["REPRODUCE_OUT"]
with open(os.path.join(out, "sparse"), "w") as file:
    os.ftruncate(file.fileno(), 2**53 + 5)
print("HELD")
"""


def test_an_output_folder_that_cannot_be_recorded_does_not_keep_other_records_out(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "probe.py").write_text(UNSTORABLE)
    text = FILE.format(python=sys.executable, timeout="60", symptom=OUTPUT)
    (tmp_path / "reproduce.toml").write_text(text)
    monkeypatch.chdir(tmp_path)

    code = run(["run", "reproduce.toml", "--approve", "-q"])

    assert code == ExitCode.NOT_ENOUGH, capsys.readouterr().err
    assert run(["verify", "latest"]) == ExitCode.DONE
    with open_store(tmp_path / ".reproduce" / "ledger.sqlite") as store:
        (row,) = store.investigations()
        assert row.closed
        assert len(list(bodies(store, row.id))) == 2
