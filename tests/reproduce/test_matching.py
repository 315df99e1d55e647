import pytest

from ledger.records import Finding
from matrices import (
    DurationSymptom,
    ExitCodeSymptom,
    JunitSymptom,
    OutputSymptom,
    Stream,
    Symptom,
    TimeoutSymptom,
)
from reproduce.errors import UsageError
from reproduce.executors.model import Captured
from reproduce.matching import Matchers, compile_pattern, keep_files, stored_stream


def findings(symptom: Symptom, *, stdout: bytes = b"", stderr: bytes = b"") -> dict[str, str]:
    found = Matchers([symptom]).find(stdout=stdout, stderr=stderr, files={})
    return {finding.name: finding.value for finding in found}


def seen(pattern: str, stored: bytes) -> bool:
    return compile_pattern(pattern, place="symptom.pattern").seen(stored)


EXIT_CODE = ExitCodeSymptom(matched=(1,), clean=(0,))


def test_an_attempt_without_output_has_no_findings_for_an_exit_code() -> None:
    assert findings(EXIT_CODE) == {}


@pytest.mark.parametrize(
    "stderr",
    [
        (
            b"Traceback (most recent call last):\n"
            b'  File "/probe.py", line 1, in <module>\n    import nope\n'
            b"ModuleNotFoundError: No module named 'nope'\n"
        ),
        (
            b"warning: x\nTraceback (most recent call last):\n"
            b'  File "/probe.py", line 1, in <module>\n    from os import nope\n'
            b"ImportError: cannot import name 'nope' from 'os'\n\n"
        ),
        b"  File \"/probe.py\", line 1\n    foo(\n       ^\nSyntaxError: '(' was never closed\n",
        b'  File "/probe.py", line 2\n    x\nIndentationError: unexpected indent\r\n',
        b"/usr/bin/python3: No module named pytest\n",
    ],
)
def test_an_interpreter_that_could_not_load_the_probe_is_a_finding(stderr: bytes) -> None:
    assert findings(EXIT_CODE, stderr=stderr) == {"harness": "seen"}
    assert findings(EXIT_CODE, stdout=stderr) == {"harness": "seen"}


@pytest.mark.parametrize(
    "stderr",
    [
        (
            b"Traceback (most recent call last):\n"
            b'  File "/probe.py", line 1, in <module>\nAssertionError: ImportError: no\n'
        ),
        b"ImportError: printed by a program, without any frame\n",
        b'  File "/x.py", line 1, in f\nImportError: handled\nlost a chunk\n',
        b'  File "/x.py", line 1, in f\nMyImportError: x\n',
    ],
)
def test_other_ends_of_the_output_are_not_taken_for_a_harness_error(stderr: bytes) -> None:
    assert findings(EXIT_CODE, stderr=stderr) == {}


def test_a_pattern_is_looked_for_on_its_stream_only() -> None:
    on_stdout = OutputSymptom(pattern="lost", clean="ok", stream=Stream.STDOUT)
    anywhere = OutputSymptom(pattern="lost", clean="ok")

    assert findings(on_stdout, stderr=b"lost") == {"pattern": "absent", "clean": "absent"}
    assert findings(on_stdout, stdout=b"lost") == {"pattern": "seen", "clean": "absent"}
    assert findings(anywhere, stdout=b"lost", stderr=b"ok") == {"pattern": "seen", "clean": "seen"}


def test_any_stream_means_either_and_not_both_glued_together() -> None:
    assert findings(OutputSymptom(pattern="(?s)a.*b"), stdout=b"a", stderr=b"b") == {
        "pattern": "absent"
    }


def test_a_symptom_without_a_clean_pattern_says_nothing_of_one() -> None:
    assert findings(OutputSymptom(pattern="lost"), stdout=b"lost") == {"pattern": "seen"}


def test_the_sign_of_life_is_a_finding_of_a_time_limit() -> None:
    symptom = TimeoutSymptom(alive="^started", clean=(0,))

    assert findings(symptom, stdout=b"x\nstarted 8 workers\n") == {"alive": "seen"}
    assert findings(symptom, stdout=b"not started\n") == {"alive": "absent"}


def test_a_duration_needs_no_findings() -> None:
    assert findings(DurationSymptom(longer_than_us=1, exit=(0,)), stdout=b"x") == {}


def test_findings_name_their_symptom_and_stand_in_the_order_of_the_symptoms() -> None:
    matchers = Matchers(
        [OutputSymptom(name="one", pattern="a"), OutputSymptom(name="two", pattern="b")]
    )

    assert matchers.find(stdout=b"b", stderr=b"", files={}) == (
        Finding(symptom="one", name="pattern", value="absent"),
        Finding(symptom="two", name="pattern", value="seen"),
    )


def test_only_files_that_a_matcher_reads_are_kept() -> None:
    symptoms: list[Symptom] = [
        EXIT_CODE,
        JunitSymptom(name="b", test="t", message="m", file="b.xml"),
        JunitSymptom(name="a", test="t", message="m", file="a.xml"),
    ]

    assert keep_files(symptoms) == ("a.xml", "b.xml")


def test_line_anchors_match_at_lines_and_text_anchors_at_the_ends() -> None:
    assert seen("^two$", b"one\ntwo\nthree\n")
    assert seen(r"three$", b"one\ntwo\nthree\n")
    assert not seen(r"\Atwo", b"one\ntwo\n")
    assert not seen(r"(?-m:^two)", b"one\ntwo\n")


def test_bytes_that_are_not_utf_8_are_read_as_latin_1() -> None:
    assert seen("caf\u00e9", b"caf\xe9")
    assert seen("caf\u00e9", "caf\u00e9".encode())
    assert seen("^.\u00e9.\u20ac$", b"\xff\xc3\xa9\xfe" + "\u20ac".encode())


def test_one_broken_byte_does_not_hide_the_text_around_it() -> None:
    assert seen("verloren: gr\u00fc\u00dfe", b"\x80\n" + "verloren: gr\u00fc\u00dfe".encode())


def test_a_hostile_pattern_takes_no_hostile_time() -> None:
    assert not seen(r"(a+)+$", b"a" * 60_000 + b"b")


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        (r"(?=a)b", "look-around"),
        (r"(?<!a)b", "look-around"),
        (r"(a)\1", "back-references"),
        (r"(?P<n>a)(?P=n)", "back-references"),
        (r"a{1001}", "1000"),
        (r"a++", "possessive"),
        (r"(?>a)", "atomic"),
        (r"lost\Z", r"\z"),
        (r"[a", "single quotes"),
    ],
)
def test_what_re2_lacks_is_named_in_the_hint(pattern: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        compile_pattern(pattern, place="symptom.pattern")

    assert raised.value.place == "symptom.pattern"
    assert hint in raised.value.hint


def test_refused_patterns_are_not_written_to_the_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(UsageError):
        compile_pattern("(?=a)", place="symptom.pattern")

    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("pattern", ["", "x*", "a|", ".*", "^"])
def test_a_pattern_that_matches_any_output_shows_nothing_and_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="matches any output"):
        compile_pattern(pattern, place="symptom.alive")


def test_a_pattern_may_ask_for_no_output_at_all() -> None:
    assert seen(r"\A\z", b"")
    assert not seen(r"\A\z", b"x")


@pytest.mark.parametrize("pattern", ["a" * 1025, "\udc80"])
def test_patterns_that_are_too_long_or_no_text_are_refused(pattern: str) -> None:
    with pytest.raises(UsageError):
        compile_pattern(pattern, place="symptom.pattern")


def test_a_refused_pattern_is_found_by_the_name_of_its_symptom() -> None:
    with pytest.raises(UsageError) as raised:
        Matchers([OutputSymptom(name="lost", pattern="a", clean="(?=b)")])

    assert raised.value.place == "symptom.lost.clean"


def test_a_stream_that_fits_is_stored_as_it_is() -> None:
    assert stored_stream(Captured(b"abc", b"def", 6)) == (b"abcdef", False)
    assert stored_stream(Captured(b"", b"", 0)) == (b"", False)


def test_a_longer_stream_says_how_much_is_missing() -> None:
    stored, truncated = stored_stream(Captured(b"head", b"tail", 208))

    assert stored == b"head\n[... 200 bytes not stored ...]\ntail"
    assert truncated


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?s)head.*tail",
        r"head[^x]*tail",
        r"head\s+\[",
        r"head\C*tail",
        r"head$",
        r"head\z",
        r"^tail",
        r"\Atail",
        r"not stored",
        r"^\[",
        r"200 bytes",
    ],
)
def test_no_pattern_matches_across_what_was_dropped_or_at_its_edges(pattern: str) -> None:
    stored, _ = stored_stream(Captured(b"the head", b"tail end", 216))

    assert not seen(pattern, stored)


@pytest.mark.parametrize("pattern", ["the head", r"\Athe", "tail end$", r"end\z", "(?s)the.*d"])
def test_patterns_match_within_either_part_of_a_truncated_stream(pattern: str) -> None:
    stored, _ = stored_stream(Captured(b"the head", b"tail end", 216))

    assert seen(pattern, stored)


def test_a_character_cut_by_the_seam_does_not_hide_the_others() -> None:
    euro = "\u20ac".encode()
    stored, _ = stored_stream(Captured("gr\u00fc\u00dfe".encode() + euro[:2], euro[2:] + b"x", 99))

    assert seen("gr\u00fc\u00dfe", stored)
