import io
import re
import subprocess
import sys

import pytest
from rich.cells import cell_len

from matrices import Role
from reproduce.report.explain import explain_text
from reproduce.report.look import PIPE_WIDTH, Look, look_of
from reproduce.report.model import PlanAccount
from reproduce.report.sheets import duration, plan_text
from reproduce.report.terminal import compare_text, verdict_text
from reproduce.testing.account_cases import CASES, RARE, ZERO, account, many

SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")
VIEWS = (verdict_text, compare_text, explain_text)


class Stream(io.StringIO):
    def __init__(self, encoding: str, *, terminal: bool) -> None:
        super().__init__()
        self._encoding, self._terminal = encoding, terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._terminal

    def fileno(self) -> int:
        raise OSError


TERMINAL = Stream("utf-8", terminal=True)
PIPE = Stream("UTF-8", terminal=False)


@pytest.mark.parametrize("width", [40, 60, 80, 95, 120, 200])
@pytest.mark.parametrize("name", CASES)
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    for unicode in (True, False):
        for view in VIEWS:
            text = view(account(name), Look(width, unicode=unicode))
            assert max(cell_len(line) for line in text.splitlines()) <= width


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("name", CASES)
def test_nothing_essential_is_cut(name: str, width: int) -> None:
    shown = account(name)

    text = "".join(verdict_text(shown, Look(width)).split())

    for wanted in (shown.root, shown.investigation, shown.plan.short_name()):
        assert wanted in text
    if not shown.is_sealed():
        for condition in shown.plan.conditions:
            assert condition.name.replace(" ", "") in text
        for gate in shown.headline().gates:
            assert gate.measured.replace(" ", "") in text


@pytest.mark.parametrize("name", CASES)
def test_colour_adds_nothing_but_colour(name: str) -> None:
    for view in VIEWS:
        plain = view(account(name), Look(80))
        painted = view(account(name), Look(80, colour=True))

        assert "\x1b" not in plain
        assert "\x1b" in painted
        bare = [line.rstrip() for line in SEQUENCE.sub("", painted).splitlines()]
        assert bare == plain.splitlines()


@pytest.mark.parametrize("name", CASES)
def test_a_terminal_without_utf_8_gets_ascii(name: str) -> None:
    for view in VIEWS:
        assert view(account(name), Look(80, unicode=False)).isascii()


@pytest.mark.parametrize(
    ("stream", "environ", "colour", "look"),
    [
        (PIPE, {}, "auto", Look(PIPE_WIDTH)),
        (PIPE, {"FORCE_COLOR": "1", "COLUMNS": "50"}, "auto", Look(PIPE_WIDTH)),
        (PIPE, {}, "always", Look(PIPE_WIDTH, colour=True)),
        (TERMINAL, {}, "auto", Look(80, colour=True)),
        (TERMINAL, {"COLUMNS": "100"}, "auto", Look(100, colour=True)),
        (TERMINAL, {"COLUMNS": "7"}, "never", Look(40)),
        (TERMINAL, {"NO_COLOR": "1"}, "auto", Look(80)),
        (TERMINAL, {"NO_COLOR": ""}, "auto", Look(80, colour=True)),
        (TERMINAL, {"TERM": "dumb"}, "auto", Look(80)),
        (Stream("ANSI_X3.4-1968", terminal=False), {}, "auto", Look(PIPE_WIDTH, unicode=False)),
    ],
)
def test_the_look_follows_the_stream_and_the_wishes(
    stream: Stream, environ: dict[str, str], colour: str, look: Look
) -> None:
    assert look_of(stream, environ, colour=colour) == look


def test_plain_means_ascii() -> None:
    assert not look_of(PIPE, {}, plain=True).unicode


@pytest.mark.parametrize("view", VIEWS)
def test_outcomes_stay_sealed_until_a_look_is_allowed(view: object) -> None:
    assert callable(view)
    text = view(account("sealed"), Look(80))

    for told in ("6/25", "6 of 25", "UNRESOLVED", "10.6", "cancelled", "unresolved"):
        assert told not in text
    assert "54 of 120 trials are recorded" in text


def test_a_closed_investigation_shows_what_there_is() -> None:
    shown = account("sealed")._replace(closed=True)

    assert "6/25" in verdict_text(shown, Look(80))


def test_two_hundred_conditions_fold_into_one_screen_with_the_headline_first() -> None:
    text = verdict_text(many(100), Look(120))

    assert len(text.splitlines()) < 60
    assert text.index("python=py2") < text.index("python=py0")
    assert "and 92 more contrasts that read UNRESOLVED" in text
    assert "python=py99" in explain_text(many(100), Look(120))


def test_other_symptoms_are_counted_beside_the_primary() -> None:
    tallies = (ZERO.tally(0, Role.TREATMENT), RARE.tally(1, Role.CONTROL))
    shown = account("pinned")._replace(secondary=(("crash", tallies),))

    text = " ".join(verdict_text(shown, Look(80)).split())

    assert "also counted, crash: treatment (workers=eight) 0/60" in text
    assert "control (workers=one) 14/60" in text


def test_the_comparison_says_which_policy_was_declared() -> None:
    text = compare_text(account("pinned"), Look(120))

    assert "Only binomial/1 was declared in the plan; the other rows are exploratory." in text
    assert "strict/1" in text
    assert "strict/2" in text


def test_the_plan_shows_its_whole_digest_and_that_nobody_approved_it() -> None:
    plan = account("pinned").plan

    text = plan_text(PlanAccount(plan), Look(80))

    assert plan.digest() in text
    assert "Not approved." in text


@pytest.mark.parametrize(
    ("microseconds", "shown"),
    [
        (0, "0 s"),
        (450_000, "0.4 s"),
        (59_900_000, "59.9 s"),
        (60_000_000, "1 m 00 s"),
        (7_500_000_000, "2 h 05 m"),
    ],
)
def test_a_span_of_time_reads_as_people_say_it(microseconds: int, shown: str) -> None:
    assert duration(microseconds) == shown


def test_the_models_of_reports_load_no_drawing_library() -> None:
    code = "import sys, reproduce.report.words; print('rich' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
