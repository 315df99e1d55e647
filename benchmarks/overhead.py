"""What the engine adds to a trial, beside `xargs -P` with the same parallelism, in one run.

Each round runs both, one after the other, in alternating order. The engine runs in a process of its
own with every observation durable (SQLite, WAL, synchronous=FULL). Two times are taken of it: from
the first intent to the last durable observation, and of the whole process. The ratios are of
wall times within a round; their median is printed.

    python benchmarks/overhead.py [--rounds 5] [--json FILE]
"""

import argparse
import json
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PYTHON = shutil.which("python3", path="/usr/bin:/bin") or os.path.realpath(sys.executable)
"""The interpreter itself: a `python3` on the PATH may be a script that looks for one."""

CASES = (
    ("6,000 x /bin/true", "/bin/true", 6000, 1.10),
    ("1,000 x python3 -c pass", f"{PYTHON} -c pass", 1000, 1.05),
    ("400 x sleep 0.1", "sleep 0.1", 400, 1.03),
)
"""Title, command, trials, and the ratio that is to be held."""

SCALE = (1_000, 10_000, 100_000)
"""Trials over which the cost of one is to stay within 10 % and memory flat."""


def engine(command: str, trials: int, parallel: int) -> dict[str, float]:
    """Runs the engine in a process of its own and returns its times in seconds."""
    began = time.monotonic()
    arguments = [sys.executable, "-P", __file__, "--once", command, str(trials), str(parallel)]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    return {**json.loads(done.stdout), "process_s": time.monotonic() - began}


def xargs(command: str, trials: int, parallel: int) -> float:
    """Runs `xargs -P` over as many commands and returns its wall time in seconds."""
    # Each line is an argument that changes nothing, so that `-n1` runs one command a line without
    # a shell: `true` ignores it, `sleep` adds it up, `python3 -c pass` leaves it in sys.argv.
    given = "0\n" * trials
    # The commands get the variables of a trial, on both sides: Python takes a millisecond more or
    # less with another environment, and that is not the tool's doing.
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        subprocess.run(
            ["xargs", f"-P{parallel}", "-n1", *shlex.split(command)],
            input=given,
            text=True,
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": folder},
        )
        return time.monotonic() - began


def once(command: str, trials: int, parallel: int) -> None:
    """One engine run: prints its times and its memory as JSON."""
    from ledger.sqlite import SqliteStore
    from matrices import Setting
    from reproduce import clock
    from reproduce.engine.loop import Controls, Interrupt
    from reproduce.engine.session import approve, run
    from reproduce.executors.local import LocalExecutor
    from reproduce.state import state_of
    from reproduce.testing.plans import two_arm_plan

    class Timed(SqliteStore):
        first = 0.0
        last = 0.0

        def append(self, investigation, items, **settings):  # type: ignore[no-untyped-def]
            if not self.first and str(items[-1].kind) == "intent":
                self.first = time.monotonic()
            done = super().append(investigation, items, **settings)
            if str(items[0].kind) == "observation":
                self.last = time.monotonic()
            return done

    plan = two_arm_plan(
        trials // 2,
        policy="strict/1",
        parallel=parallel,
        cmd=tuple(shlex.split(command)),
        env=(Setting(name="PATH", value=os.environ["PATH"]),),
    )
    with tempfile.TemporaryDirectory() as folder:
        state = state_of(Path(folder)).make()
        with Timed(state.ledger) as store:
            name = clock.new_investigation_id()
            store.open_investigation(name, plan, recorded_us=clock.now_us())
            approve(store, name, plan, by="benchmark")
            controls = Controls(lambda: Interrupt.NONE, lambda _: None, lambda _: None)
            run(
                store,
                name,
                state=state,
                executor=LocalExecutor(world=state.world),
                controls=controls,
                environments=tuple,
            )
            used = resource.getrusage(resource.RUSAGE_SELF)
            size = state.ledger.stat().st_size
            figures = {
                "steady_s": store.last - store.first,
                "driver_cpu_s": used.ru_utime + used.ru_stime,
                "driver_mb": used.ru_maxrss / 1024,
                "bytes_a_trial": size / trials,
            }
    print(json.dumps(figures))


def compare(
    title: str, command: str, trials: int, target: float, rounds: int
) -> dict[str, object]:
    """Runs both tools in alternating order and prints the median ratio."""
    parallel = os.cpu_count() or 1
    steady, whole, theirs, driver = [], [], [], []
    for turn in range(rounds):
        order = ("engine", "xargs") if turn % 2 == 0 else ("xargs", "engine")
        times: dict[str, float] = {}
        for tool in order:
            if tool == "xargs":
                times["xargs"] = xargs(command, trials, parallel)
            else:
                times.update(engine(command, trials, parallel))
        steady.append(times["steady_s"] / times["xargs"])
        whole.append(times["process_s"] / times["xargs"])
        theirs.append(times["xargs"])
        driver.append(times["driver_cpu_s"] / trials * 1e6)
    row = {
        "case": title,
        "steady_ratio": round(statistics.median(steady), 3),
        "steady_ratios": [round(ratio, 3) for ratio in steady],
        "process_ratio": round(statistics.median(whole), 3),
        "target": target,
        "xargs_s": round(statistics.median(theirs), 2),
        "driver_us_a_trial": round(statistics.median(driver)),
    }
    held = "held" if statistics.median(steady) <= target else "NOT HELD"
    print(
        f"{title:<26} {row['steady_ratio']:.3f} of xargs -P{parallel} (at most {target}: {held}), "
        f"rounds {min(steady):.3f} to {max(steady):.3f}; whole process {row['process_ratio']:.3f}; "
        f"driver {row['driver_us_a_trial']} us a trial",
        flush=True,
    )
    return row


def scale(largest: int) -> list[dict[str, float]]:
    """Prints the cost of a trial and the driver's memory as their number grows."""
    rows = []
    for trials in SCALE:
        if trials > largest:
            continue
        figures = engine("/bin/true", trials, os.cpu_count() or 1)
        cost = figures["steady_s"] / trials * 1e6
        rows.append({"trials": trials, "us_a_trial": round(cost, 1), **figures})
        print(
            f"{trials:>8,} trials: {cost:7.1f} us a trial, driver {figures['driver_mb']:.0f} MB, "
            f"{figures['bytes_a_trial']:.0f} bytes a trial",
            flush=True,
        )
    return rows


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--largest", type=int, default=10_000, help="trials of the scale table")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--once", nargs=3, metavar=("COMMAND", "TRIALS", "PARALLEL"))
    given = parser.parse_args()
    if given.once:
        once(given.once[0], int(given.once[1]), int(given.once[2]))
        return
    rows: list[object] = [compare(*case, given.rounds) for case in CASES]
    rows += scale(given.largest)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
