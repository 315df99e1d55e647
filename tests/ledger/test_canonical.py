import json

import pytest
import rfc8785
from hypothesis import given, strategies as st

from ledger.canonical import MAX_DEPTH, decode, encode
from ledger.records import Ending
from matrices import CanonicalError

INTEGERS = st.integers(-(2**53) + 1, 2**53 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
KEYS = st.text(st.characters(max_codepoint=127))
PROFILE = st.recursive(
    st.none() | st.booleans() | INTEGERS | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=30,
)
OBJECTS = st.dictionaries(KEYS, PROFILE, max_size=6)


@given(PROFILE)
def test_the_fast_way_writes_what_rfc_8785_asks_for(value: object) -> None:
    assert encode(value) == rfc8785.dumps(value)


@given(OBJECTS)
def test_what_was_written_reads_back(value: dict[str, object]) -> None:
    assert decode(encode(value)) == value


@given(OBJECTS, st.sampled_from([1, 0]))
def test_only_one_spelling_is_read(value: dict[str, object], indent: int) -> None:
    spelled = json.dumps(value, indent=indent or None, ensure_ascii=False).encode()

    if spelled == encode(value):
        assert decode(spelled) == value
    else:
        with pytest.raises(CanonicalError):
            decode(spelled)


@pytest.mark.parametrize(
    "value",
    [
        0.0,
        {"a": [1, {"b": 1.5}]},
        float("nan"),
        2**53,
        {"a": -(2**53)},
        2**70,
        {"é": 1},
        {1: 2},
        "\ud800",
        {"a": "\udfff"},
        b"x",
        {1, 2},
        ({"a": (1, 2)}),
        object(),
    ],
    ids=lambda value: repr(value).split(" at ")[0],
)
def test_what_is_outside_the_profile_is_refused(value: object) -> None:
    with pytest.raises(CanonicalError):
        encode(value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"1",
        b"[]",
        b"null",
        b'{"a":1,"a":1}',
        b'{"a":1,"a":2}',
        b'{"b":1,"a":2}',
        b'{"a":1.0}',
        b'{"a":1e3}',
        b'{"a":-0}',
        b'{"a":01}',
        b'{"a":9007199254740992}',
        b'{"a":99999999999999999999999}',
        b'{"a":NaN}',
        b'{"a": 1}',
        b' {"a":1}',
        b'{"a":1}\n',
        b'{"a":1,}',
        b'{"a":"\\u0041"}',
        b'{"a":"\\/"}',
        b'{"a":"\\u000A"}',
        b'{"a":"\\ud800"}',
        b'{"a":"\xff"}',
        b'{"\xc3\xa9":1}',
        b"\xef\xbb\xbf{}",
        b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_every_other_spelling_is_refused(body: bytes) -> None:
    with pytest.raises(CanonicalError):
        decode(body)


@given(st.binary(max_size=60))
def test_no_bytes_do_anything_but_read_or_be_refused(body: bytes) -> None:
    try:
        value = decode(body)
    except CanonicalError:
        return
    assert encode(value) == body


def test_a_closed_set_is_written_as_its_text() -> None:
    assert encode({"ending": Ending.EXITED}) == b'{"ending":"exited"}'


def nested(levels: int, inner: object) -> object:
    for _ in range(levels):
        inner = [inner]
    return inner


@pytest.mark.parametrize("inner", [1, Ending.EXITED], ids=["fast", "slow"])
def test_how_deep_a_value_may_be_does_not_depend_on_the_way_it_is_written(inner: object) -> None:
    deepest = nested(MAX_DEPTH - 1, inner)

    assert decode(encode({"a": deepest})) == {"a": deepest}
    for levels in (MAX_DEPTH, 200, 300, 2000, 100_000):
        with pytest.raises(CanonicalError):
            encode({"a": nested(levels, inner)})


@pytest.mark.parametrize("levels", [MAX_DEPTH, 300, 1500])
def test_what_is_too_deep_to_write_is_too_deep_to_read(levels: int) -> None:
    with pytest.raises(CanonicalError):
        decode(b'{"a":' + b"[" * levels + b"]" * levels + b"}")


def test_a_refusal_names_the_place() -> None:
    with pytest.raises(CanonicalError, match=r"\$\.a\[1\]\.b"):
        encode({"a": [1, {"b": 1.5}]})
