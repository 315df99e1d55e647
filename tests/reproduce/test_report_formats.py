import csv
import io
import json
import re
from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, strategies as st

from policies import Outcome, Reason
from reproduce.report.as_csv import FORMULA_STARTS, HEADER, TrialRow, trial_csv
from reproduce.report.as_json import verdict_json
from reproduce.report.junit import verdict_junit
from reproduce.report.markdown import MAX_BYTES, escape, verdict_markdown
from reproduce.report.model import Account
from reproduce.testing.account_cases import CASES, account, many

PLAN = account("pinned").plan
STREAM = {"size": 3, "sha256": "ab" * 32}


def row(detail: str = "", worker: str = "host/0") -> TrialRow:
    body = {
        "trial": 0,
        "block": 0,
        "condition": 0,
        "attempt": 0,
        "seed": 1,
        "worker": worker,
        "started_us": 5,
        "ending": "signalled",
        "code": -9,
        "duration_us": 7,
        "cpu_us": 6,
        "max_rss_kb": None,
        "leftovers": 0,
        "stdout": STREAM,
        "stderr": STREAM,
        "knobs_not_applied": ["tz"],
        "detail": detail,
    }
    return TrialRow(body, Outcome.UNRESOLVED, Reason.KILLED_BY_SIGNAL)


def read(*rows: TrialRow, sealed: bool = False) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(trial_csv(PLAN, rows, sealed=sealed)))))


@given(st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("=+-@\t\r "))))
def test_no_text_in_a_csv_can_be_a_formula(text: str) -> None:
    cell = read(row(detail=text))[0]["detail"]

    assert not cell or cell[0] not in FORMULA_STARTS
    assert "\n" not in cell


@pytest.mark.parametrize("start", "=+-@\t\r")
def test_what_a_spreadsheet_would_compute_gets_an_apostrophe(start: str) -> None:
    assert read(row(detail=f"{start}1+1"))[0]["detail"].startswith("'")


def test_numbers_in_a_csv_stay_numbers() -> None:
    assert read(row())[0]["code"] == "-9"


def test_a_sealed_csv_tells_no_outcome() -> None:
    cells = read(row(detail="boom"), sealed=True)[0]

    told = {name for name, value in cells.items() if value}
    assert told == set(HEADER[:7]) | {"name", "role"}


@pytest.mark.parametrize("name", CASES)
def test_the_json_is_one_ascii_document_with_the_exit_code(name: str) -> None:
    text = verdict_json(account(name))

    document = json.loads(text)
    assert text.isascii()
    assert document["schema"] == "reproduce.verdict/1"
    assert document["exit_code"] in (0, 3)
    assert document["title"] == account(name).plan.title


@pytest.mark.parametrize("report", [verdict_json, verdict_markdown, verdict_junit])
def test_no_report_tells_a_sealed_outcome(report: Callable[[Account], str]) -> None:
    text = report(account("sealed"))

    for told in ("matched", "6/25", "10.6", "0.1064", "inconclusive", "cancelled"):
        assert told not in text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("@maintainer", "@&#8203;maintainer"),
        ("see #12", "see \\#&#8203;12"),
        ("GH-12", "GH-&#8203;12"),
        ("https://evil.example", "https:&#8203;//evil.example"),
        ("WWW.evil.example", "WWW&#8203;.evil.example"),
        ("a | b", "a \\| b"),
        ("`x` *y* _z_ ~w~ $q$", "\\`x\\` \\*y\\* \\_z\\_ \\~w\\~ \\$q\\$"),
        ("<img src=x> &lt;", "&lt;img src=x&gt; &amp;lt;"),
        ("![a](b)", "!\\[a\\](b)"),
        ("- item", "\\- item"),
        ("12. item", "12\\. item"),
        ("2.93e-05", "2.93e-05"),
        ("a\\|b", "a\\\\\\|b"),
        ("line\n\n# heading", "line \\#&#8203; heading"),
    ],
)
def test_a_strangers_text_in_markdown_shows_as_it_is(text: str, written: str) -> None:
    assert escape(text) == written


@given(st.text(st.sampled_from("`|<>@#*_[]~$\\&\na:/w.-1")))
def test_no_markup_survives_in_markdown(text: str) -> None:
    written = escape(text)

    assert not re.search(r"[<>\n]|@(?!&)|://|www\.", written)
    assert not re.search(r"(?<!\\)(?:\\\\)*[`|*_\[\]~$]", written)


def test_markdown_that_is_cut_says_so_on_its_last_line() -> None:
    caveats = tuple(f"caveat {number} @everyone | <b>" for number in range(5000))
    shown = account("pinned")
    long = shown._replace(verdict=shown.verdict.model_copy(update={"caveats": caveats}))

    text = verdict_markdown(long)

    assert len(text.encode()) <= MAX_BYTES
    assert text.splitlines()[-1].startswith("_Cut at 64 KiB.")


def test_markdown_on_two_hundred_conditions_fits() -> None:
    text = verdict_markdown(many(100))

    assert len(text.encode()) <= MAX_BYTES
    assert "and 176 more conditions" in text


@pytest.mark.parametrize("name", CASES)
def test_the_junit_file_has_one_case_for_each_gate(name: str) -> None:
    shown = account(name)

    root = ET.fromstring(verdict_junit(shown))  # noqa: S314 # our own document

    gates = shown.headline().gates
    broken = sum(not gate.holds for gate in gates)
    if not shown.is_sealed():
        assert len(root.findall(".//testcase")) == len(gates)
        assert len(root.findall(".//failure")) == broken
