from collections.abc import Iterable
from pathlib import Path

import pytest

from ledger.records import Ending, Observation, StreamFacts
from policies import Outcome, Reason
from reproduce.report.as_csv import TrialRow, trial_csv
from reproduce.report.as_json import plan_json, status_json, verdict_json
from reproduce.report.explain import explain_text
from reproduce.report.junit import verdict_junit
from reproduce.report.look import Look
from reproduce.report.markdown import verdict_markdown
from reproduce.report.model import PlanAccount, Progress, Sheet
from reproduce.report.sheets import plan_text, status_text
from reproduce.report.terminal import compare_text, verdict_text
from reproduce.testing.account_cases import CASES, account, many
from reproduce.testing.accounts import HOSTILE
from reproduce.testing.golden import assert_golden

GOLDEN = Path(__file__).parent.parent / "golden" / "report"

NARROW, WIDE, ASCII = Look(80), Look(120), Look(80, unicode=False)
LOOKS = {"80": NARROW, "120": WIDE, "ascii": ASCII}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("case", CASES)
def test_the_verdict_on_a_terminal_is_as_it_was(case: str, look: str) -> None:
    assert_golden(GOLDEN / case / f"{look}.txt", verdict_text(account(case), LOOKS[look]))


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_as_json_is_as_it_was(case: str) -> None:
    assert_golden(GOLDEN / case / "verdict.json", verdict_json(account(case)))


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_as_markdown_is_as_it_was(case: str) -> None:
    assert_golden(GOLDEN / case / "verdict.md", verdict_markdown(account(case)))


@pytest.mark.parametrize("case", ["pinned", "partial-fragile", "sealed", "hostile"])
def test_the_verdict_as_junit_is_as_it_was(case: str) -> None:
    assert_golden(GOLDEN / case / "junit.xml", verdict_junit(account(case)))


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("case", ["pinned", "sealed"])
def test_the_comparison_of_policies_is_as_it_was(case: str, look: str) -> None:
    assert_golden(GOLDEN / case / f"compare-{look}.txt", compare_text(account(case), LOOKS[look]))


@pytest.mark.parametrize("case", ["pinned", "partial-fragile", "not-reproduced", "sealed"])
def test_the_explanation_is_as_it_was(case: str) -> None:
    assert_golden(GOLDEN / case / "explain.txt", explain_text(account(case), NARROW))


def test_the_verdict_on_two_hundred_conditions_is_as_it_was() -> None:
    assert_golden(GOLDEN / "many" / "80.txt", verdict_text(many(100), NARROW))
    assert_golden(GOLDEN / "many" / "120.txt", verdict_text(many(100), WIDE))
    assert_golden(GOLDEN / "many" / "verdict.md", verdict_markdown(many(100)))


def planned(case: str, approved: str | None = None) -> PlanAccount:
    sheet = Sheet(
        title="What 60 trials a condition can show, if the control never matches",
        header=("true rate", "10 %", "15 %", "20 %"),
        rows=(("chance of REPRODUCTION_PINNED", "0.41", "0.77", "0.94"),),
        note="with no trial unresolved",
    )
    return PlanAccount(
        account(case).plan,
        sheets=(sheet,),
        notes=("0/60 against 0/60 could not exclude 0.1",),
        approved=approved,
        next_commands=("reproduce approve pl_8b35e80b1efe",),
    )


@pytest.mark.parametrize("look", LOOKS)
def test_the_plan_on_a_terminal_is_as_it_was(look: str) -> None:
    assert_golden(GOLDEN / "plan" / f"{look}.txt", plan_text(planned("pinned"), LOOKS[look]))


def test_the_plan_as_json_is_as_it_was() -> None:
    assert_golden(GOLDEN / "plan" / "plan.json", plan_json(planned("pinned", HOSTILE)))


def progress() -> Progress:
    return Progress(
        investigation="iv_" + "5e" * 16,
        plan=account("pinned").plan,
        state="running",
        blocks=25,
        recorded=51,
        unresolved=1,
        running=2,
        slowest_us=4_250_000,
        left_us=3_750_000_000,
        next_commands=("reproduce watch latest",),
    )


def test_the_progress_is_as_it_was() -> None:
    assert_golden(GOLDEN / "status" / "80.txt", status_text(progress(), NARROW))
    assert_golden(GOLDEN / "status" / "status.json", status_json(progress()))


def rows() -> Iterable[TrialRow]:
    empty = StreamFacts(sha256="e3" * 32, size=0, stored=0, truncated=False)
    ends = (
        (Ending.EXITED, 1, Outcome.MATCHED, None),
        (Ending.EXITED, 0, Outcome.CLEAN, None),
        (Ending.SIGNALLED, 9, Outcome.UNRESOLVED, Reason.KILLED_BY_SIGNAL),
        (Ending.NOT_STARTED, -2, Outcome.UNRESOLVED, Reason.NOT_STARTED),
    )
    for trial, (ending, code, outcome, reason) in enumerate(ends):
        observation = Observation(
            trial=trial,
            block=trial // 2,
            condition=trial % 2,
            attempt=0,
            seed=4_503_599_627_370_496 + trial,
            worker="@build-7/0",
            ending=ending,
            code=code,
            started_us=1_790_000_000_000_000 + trial,
            duration_us=250_000,
            cpu_us=200_000,
            max_rss_kb=None if trial else 9_000,
            leftovers=0,
            stdout=empty,
            stderr=empty,
            knobs_not_applied=("+tz",) if trial == 3 else (),
            detail=HOSTILE if trial == 2 else "\t=1+1" if trial == 3 else "",
        )
        yield TrialRow(observation.model_dump(mode="json"), outcome, reason)


@pytest.mark.parametrize("sealed", [False, True])
def test_the_trials_as_csv_are_as_they_were(sealed: bool) -> None:  # noqa: FBT001
    text = "".join(trial_csv(account("pinned").plan, rows(), sealed=sealed))

    assert_golden(GOLDEN / "trials" / ("sealed.csv" if sealed else "trials.csv"), text)
