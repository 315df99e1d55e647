"""What judging costs: a million observations read, tallied and given intervals; one exact verdict.

Each figure is printed beside a plain Python loop over the same observations that only counts exit
codes, timed in the same run.

    python -P benchmarks/reduce.py [--observations 1000000] [--json FILE]
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

LIMIT_S = 3.0
"""Reading, tallying and intervals of a million observations."""

LIMIT_MB = 1024
VERDICT_S = 1.5
"""A `binomial/1` verdict on 60 + 60, with the import of what it needs."""


def plan_of(trials: int):  # type: ignore[no-untyped-def]
    """A plan of two conditions under `binomial/1`."""
    from reproduce.testing.plans import WORDS, two_arm_plan

    return two_arm_plan(trials, symptom=WORDS, policy="binomial/1")


def observations(count: int):  # type: ignore[no-untyped-def]
    """Observations as they come from a ledger, made one by one; every 41st is unresolved."""
    nothing = {"sha256": "0" * 64, "size": 0, "stored": 0, "truncated": False}
    for number in range(count):
        matched = number % 2 == 0 and number % 7 == 0
        findings = [
            {"symptom": "symptom", "name": "pattern", "value": "seen" if matched else "absent"},
            {"symptom": "symptom", "name": "clean", "value": "absent" if matched else "seen"},
        ]
        yield {
            "trial": number,
            "condition": number % 2,
            "seed": number,
            "worker": f"host/{number % 4}",
            "ending": "time_limit" if number % 41 == 0 else "exited",
            "code": None if number % 41 == 0 else int(matched),
            "started_us": number,
            "duration_us": 1000 + number % 997,
            "stdout": nothing,
            "stderr": nothing,
            "findings": findings,
            "knobs_not_applied": [],
        }


def million(count: int) -> dict[str, float]:
    """Reads, tallies and gives intervals; beside it the loop that only counts."""
    from fractions import Fraction

    from policies import evidence_of, tallies
    from policies.assembling import rate_figure

    plan = plan_of(count // 2)
    began = time.monotonic()
    making = sum(1 for _ in observations(count))
    making_s = time.monotonic() - began
    began = time.monotonic()
    counted = sum(body["code"] == 1 for body in observations(count))
    counting_s = time.monotonic() - began
    began = time.monotonic()
    evidence = evidence_of(plan, observations(count))
    found = tallies(plan, evidence)
    rates = [rate_figure(tally, Fraction(9, 10)) for tally in found]
    reducing_s = time.monotonic() - began
    assert making == count
    assert counted >= sum(tally.matched for tally in found)
    assert len(rates) == len(found)
    # The observations are made on the fly, so that the memory is that of the reducer.
    return {
        "observations": count,
        "reduce_s": round(reducing_s - making_s, 3),
        "count_only_s": round(max(counting_s - making_s, 0.0), 3),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


VERDICT = """
import time
began = time.monotonic()
import importlib.util
spec = importlib.util.spec_from_file_location("benchmark", {script!r})
benchmark = importlib.util.module_from_spec(spec)
spec.loader.exec_module(benchmark)
from policies import evidence_of
from policies.registry import reduce
plan = benchmark.plan_of(60)
loaded = time.monotonic()
verdict = reduce(plan, evidence_of(plan, benchmark.observations(120)))
print(verdict.status, round(loaded - began, 3), round(time.monotonic() - loaded, 3))
"""


def verdict() -> dict[str, object]:
    """One exact verdict in a fresh process."""
    source = VERDICT.format(script=__file__)
    done = subprocess.run(
        [sys.executable, "-P", "-c", source], check=True, capture_output=True, text=True
    )
    status, load_s, verdict_s = done.stdout.split()
    return {"status": status, "load_s": float(load_s), "verdict_s": float(verdict_s)}


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--observations", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    figures = million(given.observations)
    per = figures["reduce_s"] / figures["observations"] * 1e6
    print(
        f"{figures['observations']:,} observations read, tallied, given intervals: "
        f"{figures['reduce_s']:.2f} s ({per:.2f} us each; at most {LIMIT_S} s a million), "
        f"counting exit codes alone {figures['count_only_s']:.2f} s, "
        f"peak {figures['peak_mb']} MB (at most {LIMIT_MB})"
    )
    found = [verdict() for _ in range(3)]
    fastest = min(float(str(one["verdict_s"])) for one in found)
    whole = min(float(str(one["verdict_s"])) + float(str(one["load_s"])) for one in found)
    print(
        f"binomial/1 on 60 + 60 ({found[0]['status']}): {fastest:.2f} s, with imports {whole:.2f} s "
        f"(at most {VERDICT_S} s)"
    )
    if given.json:
        given.json.write_text(json.dumps([figures, *found], indent=2) + "\n")


if __name__ == "__main__":
    main()
