import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from matrices import JunitSymptom
from reproduce.matching import Matchers

TEST = "tests/test_upload.py::TestC::test_resume[8]"
CASE = 'classname="tests.test_upload.TestC" name="test_resume[8]"'


def said(report: bytes | None, *, test: str = TEST, message: str = r"lost \d+") -> str:
    matchers = Matchers([JunitSymptom(test=test, message=message)])
    (found,) = matchers.find(stdout=b"", stderr=b"", files={"junit.xml": report})
    assert (found.symptom, found.name) == ("symptom", "case")
    return found.value


def report(*cases: str) -> bytes:
    body = "".join(cases)
    return f"<testsuites><testsuite name='s'>{body}</testsuite></testsuites>".encode()


def case(inside: str = "") -> str:
    return f"<testcase {CASE}>{inside}</testcase>"


LOST = '<failure message="AssertionError: lost 8">text</failure>'


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("", "clean"),
        ("<system-out>lost 8</system-out>", "clean"),
        (LOST, "message"),
        ('<failure message="other"/>', "other-message"),
        ('<error message="lost 8"/>', "error"),
        ("<skipped/>", "skipped"),
        ('<skipped type="pytest.xfail" message="lost 8"/>', "skipped"),
        ('<flakyFailure message="lost 8"/>', "message"),
        ('<rerunFailure message="lost 8"/>', "message"),
        ('<flakyFailure message="other"/>', "other-message"),
        ('<flakyError message="lost 8"/>', "error"),
        (LOST + "<error/>", "conflicting"),
        (LOST + '<rerunFailure message="other"/>', "conflicting"),
        (LOST + '<rerunFailure message="lost 9"/>', "message"),
    ],
)
def test_each_thing_that_a_report_can_say_of_a_case_has_its_value(
    inside: str, expected: str
) -> None:
    assert said(report(case(inside))) == expected


def test_two_entries_of_one_id_that_disagree_conflict() -> None:
    assert said(report(case(LOST), case())) == "conflicting"
    assert said(report(case(), case("<skipped/>"))) == "skipped"
    assert said(report(case(), case())) == "clean"


def test_a_case_that_is_not_there_is_absent() -> None:
    other = '<testcase classname="tests.test_upload.TestC" name="test_resume[80]"/>'

    assert said(report(other)) == "absent"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"<testsuites/>", "empty"),
        (b'<?xml version="1.0"?><testsuites><testsuite tests="0"/></testsuites>', "empty"),
        (b"<testsuites><testsuite>", "unreadable"),
        (b"<html/>", "unreadable"),
        (b"\x00\xff", "unreadable"),
        (b'<?xml version="1.0" encoding="nope"?><testsuites/>', "unreadable"),
        (None, "too-large"),
    ],
)
def test_a_report_that_cannot_speak_says_why(content: bytes | None, expected: str) -> None:
    assert said(content) == expected


def test_a_missing_report_is_not_an_empty_one() -> None:
    (found,) = Matchers([JunitSymptom(test=TEST, message="x")]).find(
        stdout=b"", stderr=b"", files={"other.xml": b""}
    )

    assert found.value == "no-file"


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE t [<!ENTITY a "lost 8">]>',
        '<!DOCTYPE t SYSTEM "file:///etc/passwd">',
        "<!DOCTYPE testsuites>",
        (
            '<!DOCTYPE t [<!ENTITY a "xxxxxxxxxx"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
            '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>'
        ),
    ],
)
def test_a_report_with_a_document_type_is_refused(doctype: str) -> None:
    content = f"{doctype}<testsuites><testsuite><testcase {CASE}/></testsuite></testsuites>"

    assert said(content.encode()) == "unreadable"


@pytest.mark.parametrize(
    "content",
    [
        report("<a/>" * 200_001),
        b"<a>" * 4_000_000,
        report("<testcase>" * 120, "</testcase>" * 120),
        report(case(), "<a " + " ".join(f"a{n}=''" for n in range(65)) + "/>"),
        report(case(), ("<a " + " ".join(f"a{n}=''" for n in range(60)) + "/>") * 21_000),
        report(case(), f"<a b='{'x' * 1_100_000}'/>"),
    ],
    ids=["elements", "open", "depth", "attributes", "all attributes", "attribute"],
)
def test_a_report_out_of_proportion_is_too_large_and_takes_little_memory(content: bytes) -> None:
    tracemalloc.start(1)
    found = said(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found == "too-large"
    assert peak < 200_000_000


def test_a_report_of_a_large_suite_is_read() -> None:
    other = '<testcase classname="a.b" name="c" time="0.1" file="f" line="1">x</testcase>'

    assert said(report(other * 90_000, case(LOST))) == "message"
    assert said(report(case(f"<failure message='lost 8{'x' * 900_000}'/>"))) == "message"


@pytest.mark.parametrize(
    ("classname", "name", "declared"),
    [
        (
            "tests.test_upload.TestC",
            "test_resume[8]",
            "tests/test_upload.py::TestC::test_resume[8]",
        ),
        ("tests.test_upload", "test_a", "./tests/test_upload.py::test_a"),
        ("tests.test_upload", "test_a", "test_a"),
        ("test_a", "test_x[a/b::c.py]", "test_a.py::test_x[a/b::c.py]"),
        ("pkg/upload", "TestResume/sub", "pkg/upload::TestResume/sub"),
        ("acme::tests", "upload::resumes", "acme::tests::upload::resumes"),
        ("", "resumes an upload", "resumes an upload"),
    ],
)
def test_an_id_is_found_however_its_runner_spells_it(
    classname: str, name: str, declared: str
) -> None:
    content = report(f'<testcase classname="{classname}" name="{name}">{LOST}</testcase>')

    assert said(content, test=declared) == "message"


def test_a_message_is_looked_for_with_its_type_and_in_a_text_without_source() -> None:
    java = '<failure message="lost 8" type="ChunkError">ChunkError: lost 8\n\tat A.b</failure>'
    golang = '<failure message="Failed" type="">    upload_test.go:9: lost 8</failure>'
    jest = "<failure>Error: lost 8</failure>"

    assert said(report(case(java)), message="ChunkError: lost") == "message"
    assert said(report(case(golang))) == "message"
    assert said(report(case(jest))) == "message"


def test_the_source_code_that_pytest_prints_is_not_the_message() -> None:
    text = (
        "    def test_resume():\n"
        ">       assert up() == 1\nE       assert 2 == 1\n"
        '        assert chunks, "lost 8"\n'
    )

    assert said(report(case(f'<failure message="assert 2 == 1">{text}</failure>'))) == (
        "other-message"
    )


def test_suites_may_nest() -> None:
    inner = f"<testsuite name='b'><testcase {CASE}/></testsuite>"

    assert said(f"<testsuite name='a'>{inner}</testsuite>".encode()) == "clean"
    assert said(report(inner)) == "clean"


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 200))
def test_no_bytes_make_the_matcher_raise(noise: bytes, start: int, end: int) -> None:
    whole = report(case(LOST))

    assert said(noise)
    assert said(whole[:start] + noise + whole[end:])


PROBE = """
import pytest
class TestC:
    @pytest.mark.parametrize("n", [8, 9])
    def test_resume(self, n):
        assert n == 9, f"lost {n}"
    def test_teardown(self, broken):
        assert False, "lost 1"
@pytest.fixture
def broken():
    yield
    raise RuntimeError("lost 2")
def test_error(nope): ...
def test_skipped(): pytest.skip("lost 3")
"""


@pytest.mark.slow
def test_the_reports_that_pytest_writes_are_understood(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "test_probe_case.py").write_text(PROBE)
    world = {"PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=."]

    subprocess.run(
        [*command, "--junitxml=all.xml"], cwd=tmp_path, env=world, capture_output=True, check=False
    )
    subprocess.run(
        [*command, "--junitxml=none.xml", "sub/test_probe_case.py::test_missing"],
        cwd=tmp_path,
        env=world,
        capture_output=True,
        check=False,
    )

    written = (tmp_path / "all.xml").read_bytes()
    ids = "sub/test_probe_case.py::"
    assert said(written, test=f"{ids}TestC::test_resume[8]") == "message"
    assert said(written, test=f"{ids}TestC::test_resume[9]") == "clean"
    assert said(written, test=f"{ids}TestC::test_teardown") == "conflicting"
    assert said(written, test=f"{ids}test_error") == "error"
    assert said(written, test=f"{ids}test_skipped") == "skipped"
    assert said(written, test=f"{ids}test_missing") == "absent"
    assert said((tmp_path / "none.xml").read_bytes()) == "empty"
