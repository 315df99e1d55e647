import unicodedata

import pytest
from hypothesis import example, given, strategies as st

from reproduce.report.as_json import document
from reproduce.report.look import Look, draw
from reproduce.report.markdown import escape
from reproduce.report.text import JOINERS, one_line, printable
from reproduce.testing.accounts import HOSTILE

DANGEROUS = {"Cc", "Cf", "Cs", "Zl", "Zp"}

texts = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\x1b\x9b\x9d\x90[]mJ;\x07\\\r\n\t\u202e\u2066\u200f\ud800=@`|<#\u2028"),
    )
)


def dangerous(text: str) -> set[str]:
    return {c for c in text if unicodedata.category(c) in DANGEROUS} - JOINERS


@given(texts)
@example(HOSTILE)
def test_no_control_character_survives_printing(text: str) -> None:
    assert not dangerous(printable(text))
    assert not dangerous(one_line(text))
    assert dangerous(printable(text, lines=True)) <= {"\n", "\t"}


@given(texts)
def test_printing_twice_changes_nothing_more(text: str) -> None:
    shown = printable(text, lines=True)

    assert printable(shown, lines=True) == shown


@given(texts)
@example(HOSTILE)
def test_no_control_character_survives_on_a_terminal_or_in_a_document(text: str) -> None:
    look = Look(40, unicode=True)

    assert dangerous(draw([look.text(text)], look)) <= {"\n"}
    assert dangerous(document({"text": text})) <= {"\n"}
    assert not dangerous(escape(text))


@given(texts)
def test_a_terminal_without_unicode_gets_ascii_alone(text: str) -> None:
    look = Look(40, unicode=False)

    assert draw([look.text(text)], look).isascii()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]8;;https://evil.example\x07link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r0m\x1b\\after", "after"),
        ("\x1b]0;title without an end", "0;title without an end"),
        ("\x1b7\x1b(Bsaved", "saved"),
        ("user\u202egnp.exe", "usergnp.exe"),
        ("one\r\ntwo\tthree", "one  two three"),
        ("\ud800", "\ufffd"),
        ("क\u200dष 👩\u200d💻", "क\u200dष 👩\u200d💻"),
    ],
)
def test_control_sequences_go_with_what_they_carry(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_lone_carriage_return_cannot_overwrite_a_line_of_captured_output() -> None:
    assert printable("honest\rforged\r\nnext", lines=True) == "honest\nforged\nnext"


def test_a_long_line_is_cut_with_a_mark() -> None:
    assert one_line("a b  c d e", limit=5) == "a b …"
