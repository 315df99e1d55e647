import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reproduce import clock
from reproduce.executors.local import LocalExecutor
from reproduce.executors.model import HEAD_BYTES, TAIL_BYTES, Report, Returned, World
from reproduce.executors.spool import read_spool
from reproduce.testing.executors import gathered, order, reports, wait_until

pytestmark = pytest.mark.slow

CONTAINMENTS = ("pidns", "subreaper")
ENV = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(params=CONTAINMENTS)
def executor(request: pytest.FixtureRequest) -> Any:
    with LocalExecutor(containment=request.param) as executor:
        yield executor


@pytest.fixture
def mark(tmp_path: Path) -> str:
    """Found in the command line of every process of one case."""
    return f"mark{tmp_path}".replace("/", "-")


def world(text: str, *argv: str, timeout_us: int = 60_000_000) -> World:
    return World(("sh", "-c", text, *argv), ENV, timeout_us)


def one(executor: LocalExecutor, folder: Path, case: World) -> Report:
    executor.start([case], slots=1, spool=folder / "spool" / "s")
    executor.submit(0, [order(0)])
    (report,) = reports(executor, 1)
    return report


def alive(mark: str) -> list[str]:
    """What runs with the mark, seen from outside every namespace."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if mark.encode() in line:
            found.append(line.decode(errors="replace"))
    return found


STORM = """
import os, sys
trace = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for _ in range(8):
    if os.fork() == 0:
        while True:
            if os.fork():
                os._exit(0)
            os.setsid()
            os.write(trace, b".")
os.execvp("sleep", ["sleep", "600"])
"""
"""Its processes live too shortly to be seen one by one, so each leaves a trace."""

# `$0` is the mark; a shell that is busy with `sleep` keeps it in its command line.
HOLD = "sh -c 'sleep 600; :' $0"

CASES = {
    "children of the same group": f"for n in 1 2 3 4 5 6 7 8 9 10; do {HOLD} & done; wait",
    "a child with a session of its own": f"setsid {HOLD} & wait",
    "a daemon whose parents ended": f"(setsid {HOLD} >/dev/null 2>&1 </dev/null &); exit 0",
    "a daemon that keeps stdout open": f"(setsid {HOLD} &); exit 0",
    "deaf to every polite signal": f"trap '' TERM INT HUP QUIT; {HOLD} & wait; {HOLD}",
    "stopped": f"{HOLD} & kill -STOP $!; kill -STOP $$",
}


@pytest.mark.faults
@pytest.mark.parametrize("name", CASES)
def test_no_process_outlives_its_trial(
    executor: LocalExecutor, tmp_path: Path, mark: str, name: str
) -> None:
    case = World(("sh", "-c", CASES[name], mark), ENV, timeout_us=500_000)
    executor.start([case, world("exit 0")], slots=1, spool=tmp_path / "spool" / "s")
    executor.submit(0, [order(0)])

    (report,) = reports(executor, 1)

    assert alive(mark) == []
    assert report.ending == ("exited" if "exit 0" in CASES[name] else "time_limit")
    assert report.duration_us < 30_000_000
    assert report.leftovers >= (10 if name.startswith("children") else 0)
    executor.submit(0, [order(1, 1)])
    assert reports(executor, 1)[0].ending == "exited"


@pytest.mark.faults
def test_a_storm_of_forks_ends_with_its_trial(executor: LocalExecutor, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    command = (sys.executable, "-I", "-S", "-c", STORM, str(trace))

    report = one(executor, tmp_path, World(command, {}, timeout_us=500_000))
    generations = trace.stat().st_size
    executor.events(0.2)

    assert report.ending == "time_limit"
    assert generations > 50
    assert trace.stat().st_size == generations


def test_the_matrix_of_survivors_would_see_one(mark: str) -> None:
    with subprocess.Popen(
        ["/bin/sh", "-c", "read line; :", mark], stdin=subprocess.PIPE
    ) as process:
        wait_until(lambda: alive(mark) != [])
        process.kill()


def test_what_a_command_left_behind_is_counted(executor: LocalExecutor, tmp_path: Path) -> None:
    text = "(setsid sleep 600 &) ; sleep 600 & sleep 600 & exit 0"

    report = one(executor, tmp_path, world(text))

    assert (report.ending, report.code, report.leftovers) == ("exited", 0, 3)
    assert report.duration_us < 10_000_000


def test_a_time_limit_is_kept_to_a_few_milliseconds(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    limit_us = 100_000
    case = World(("sleep", "600"), ENV, limit_us)
    executor.start([case], slots=1, spool=tmp_path / "spool" / "s")
    executor.submit(0, [order(number) for number in range(7)])

    seen = reports(executor, 7)

    assert {(report.ending, report.code) for report in seen} == {("time_limit", None)}
    over = sorted(report.duration_us - limit_us for report in seen)
    assert over[0] >= 0
    # The machine may be busy, so the median counts and not the worst.
    assert over[3] < 20_000


def test_two_hundred_megabytes_neither_block_nor_fill_the_memory(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    size = 200_000_000
    text = f"printf start; head -c {size} /dev/zero; printf end; echo problem >&2"

    report = one(executor, tmp_path, world(text))

    assert (report.ending, report.code) == ("exited", 0)
    assert report.stdout.size == size + 8
    assert report.stdout.head == b"start" + bytes(HEAD_BYTES - 5)
    assert report.stdout.tail == bytes(TAIL_BYTES - 3) + b"end"
    assert report.stderr == (b"problem\n", b"", 8)
    assert peak_kb(executor) < 60_000


def peak_kb(executor: LocalExecutor) -> int:
    (slot,) = executor._slots
    header = read_spool(slot.spool).header
    assert header is not None
    status = Path(f"/proc/{header.init.pid}/status").read_text("ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


@pytest.mark.parametrize("size", [0, 1, HEAD_BYTES, HEAD_BYTES + 1, HEAD_BYTES + TAIL_BYTES])
def test_output_up_to_both_limits_is_whole(
    executor: LocalExecutor, tmp_path: Path, size: int
) -> None:
    report = one(executor, tmp_path, world(f"head -c {size} /dev/zero | tr '\\0' x >&2"))

    assert report.stderr.size == size
    assert report.stderr.head + report.stderr.tail == b"x" * size
    assert len(report.stderr.head) == min(size, HEAD_BYTES)


def test_output_written_just_before_the_end_is_not_missed(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    case = world("head -c 60000 /dev/zero; kill -9 $$")
    executor.start([case], slots=1, spool=tmp_path / "spool" / "s")
    executor.submit(0, [order(number) for number in range(20)])

    seen = reports(executor, 20)

    assert {(report.ending, report.code, report.stdout.size) for report in seen} == {
        ("signalled", 9, 60000)
    }


def test_cpu_time_and_memory_are_those_of_the_trial(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    burn = "import time\nx = bytearray(80_000_000)\nwhile time.process_time() < 0.2: pass"
    executor.start(
        [World((sys.executable, "-I", "-S", "-c", burn), {}, 60_000_000), world("exit 0")],
        slots=1,
        spool=tmp_path / "spool" / "s",
    )
    executor.submit(0, [order(0, 0), order(1, 1)])

    busy, idle = reports(executor, 2)

    assert busy.cpu_us >= 200_000
    assert busy.max_rss_kb is not None
    assert 80_000 <= busy.max_rss_kb < 200_000
    assert idle.cpu_us < 100_000
    # The kernel counts from the memory of the process that started it.
    assert idle.max_rss_kb is None


def test_a_delay_holds_back_the_start_and_can_be_recalled(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    executor.start([world("exit 0")], slots=1, spool=tmp_path / "spool" / "s")
    began = clock.monotonic_us()
    executor.submit(0, [order(0, delay_us=150_000), order(1, delay_us=600_000_000), order(2)])

    reports(executor, 1)
    waited_us = clock.monotonic_us() - began
    executor.recall()
    (returned,) = gathered(executor, 2)

    assert waited_us >= 150_000
    assert returned == Returned(0, (order(1, delay_us=600_000_000), order(2)))
    (spool,) = (tmp_path / "spool" / "s").glob("*.spool")
    assert list(read_spool(spool).started) == [(0, 1)]


def test_a_report_of_a_short_trial_does_not_wait_for_a_long_one(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    executor.start(
        [world("exit 0"), world("exec sleep 600")], slots=1, spool=tmp_path / "spool" / "s"
    )
    executor.submit(0, [order(0), order(1, 1)])

    (report,) = reports(executor, 1, deadline_s=10)

    assert report.number == 0


def test_closing_leaves_nothing_running(
    executor: LocalExecutor, tmp_path: Path, mark: str
) -> None:
    executor.start(
        [world(f"(setsid {HOLD} &); {HOLD}", mark)], slots=2, spool=tmp_path / "spool" / "s"
    )
    executor.submit(0, [order(0)])
    executor.submit(1, [order(1)])
    wait_until(lambda: len(alive(mark)) >= 6)

    executor.close()

    assert alive(mark) == []
    assert os.listdir(tmp_path / "spool" / "world") == []  # noqa: PTH208


def test_a_driver_that_does_not_read_does_not_prolong_a_trial(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    flood = world("head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2")
    late = World(("sleep", "600"), ENV, 100_000)
    executor.start([flood, late], slots=1, spool=tmp_path / "spool" / "s")
    executor.submit(0, [*(order(number) for number in range(20)), order(20, 1)])
    (path,) = (tmp_path / "spool" / "s").glob("*.spool")

    wait_until(lambda: len(read_spool(path).reports) == 21)
    seen = reports(executor, 21)

    assert {report.stdout.size for report in seen[:20]} == {60000}
    assert seen[20].ending == "time_limit"
    assert seen[20].duration_us < 5_000_000
