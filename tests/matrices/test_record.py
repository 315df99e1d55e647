import pytest
import rfc8785
from hypothesis import given, strategies as st

from matrices import CanonicalError, Record, Setting, canonical_bytes, domain_digest
from matrices.record import MAX_INTEGER

values = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abcXYZ_09", max_size=8), inner),
    max_leaves=20,
)


@given(values)
def test_every_value_of_the_profile_has_one_spelling(value):
    assert canonical_bytes(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, 0.5]}, r"\$\.a\[1\]"),
        ({"a": 2**53}, r"\$\.a"),
        ({"ä": 1}, "ASCII"),
        ({1: 1}, "ASCII"),
        ([{1, 2}], r"\$\[0\]"),
    ],
)
def test_a_value_outside_the_profile_is_refused_with_its_place(value, place):
    with pytest.raises(CanonicalError, match=place):
        canonical_bytes(value)


def test_a_record_read_from_another_spelling_is_refused():
    body = Setting(name="a", value="b").canonical()

    assert Setting.from_canonical(body) == Setting(name="a", value="b")
    with pytest.raises(CanonicalError):
        Setting.from_canonical(body.replace(b":", b": "))


def test_a_record_cannot_be_changed_and_takes_no_unknown_field():
    setting = Setting(name="a", value="b")

    with pytest.raises(ValueError, match="frozen"):
        setting.name = "c"
    with pytest.raises(ValueError, match="Extra inputs"):
        Setting(name="a", value="b", more="c")


def test_equal_bytes_in_two_domains_have_different_digests():
    assert domain_digest("one", b"x") != domain_digest("two", b"x")


def test_a_float_in_a_record_is_refused():
    class Odd(Record):
        value: float

    with pytest.raises(CanonicalError, match="float"):
        Odd(value=0.5).canonical()
