"""A full disk under the ledger and the spools: exit 5, nothing lost, resumable."""

import os
import subprocess
import sys

import orjson
import pytest

FILE = """
version = 1
title = "a full disk"
[run]
cmd = ["sh", "-c", "echo $REPRODUCE_TRIAL >> {log}; head -c 9000 /dev/urandom; exit 0"]
timeout_s = 30
source = "none"
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
trials = 100
parallel = 2
[policy]
name = "strict/1"
"""

# In a mount namespace of its own, so that nothing is left mounted whatever happens.
SCRIPT = """
set -u
cd "$1"
mkdir .reproduce
mount -t tmpfs -o size=12m none .reproduce
{python} -P -m reproduce plan reproduce.toml >/dev/null || exit 90
{python} -P -m reproduce approve latest --yes 2>/dev/null || exit 91
free=$(df --output=avail -B1 .reproduce | tail -1)
head -c $((free - 400000)) /dev/zero > .reproduce/filler
{python} -P -m reproduce run latest -q >first.out 2>first.err
echo "first $?"
wc -l < starts.log
rm .reproduce/filler
{python} -P -m reproduce run latest -q >second.out 2>second.err
echo "second $?"
{python} -P -m reproduce verify latest --json > verify.json
echo "verify $?"
{python} -P -m reproduce ledger show latest --json > entries.json
"""


@pytest.mark.faults
@pytest.mark.slow
def test_a_full_disk_is_exit_5_and_the_same_run_goes_on_after_it(tmp_path):
    (tmp_path / "reproduce.toml").write_text(FILE.format(log=tmp_path / "starts.log"))
    (tmp_path / "starts.log").touch()
    script = SCRIPT.format(python=sys.executable)
    unshare = (
        ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    )

    done = subprocess.run(
        [*unshare, "bash", "-c", script, "-", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    first, started_before, second, verified = done.stdout.split("\n")[:4]
    error = (tmp_path / "first.err").read_text()
    assert first == "first 5", done.stdout + done.stderr + error
    assert "hint:" in error
    assert "Traceback" not in error
    assert int(started_before) < 200
    assert second in {"second 0", "second 3"}, (tmp_path / "second.err").read_text()
    assert verified == "verify 0", (tmp_path / "verify.json").read_text()
    entries = orjson.loads((tmp_path / "entries.json").read_bytes())["entries"]
    recorded = [entry["body"]["trial"] for entry in entries if entry["kind"] == "observation"]
    assert sorted(recorded) == list(range(200))
    starts = (tmp_path / "starts.log").read_text().split()
    assert len(starts) == len(set(starts)), "a trial was started twice"
