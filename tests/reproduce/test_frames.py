import marshal
import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, strategies as st

from reproduce.executors.frames import FrameError, decoded, order_from, report_from
from reproduce.executors.model import HEAD_BYTES

SAID = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.binary(max_size=40)
    | st.text(st.characters(), max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(SAID)
def test_what_a_slot_host_can_say_is_read_as_it_was(value: Any) -> None:
    assert decoded(marshal.dumps(value, 2)) == value


def test_a_long_output_is_read_whole() -> None:
    value = (b"\xff" * 200_000, "\ud800ß" * 1000, 2**53 - 1, -(2**40))

    assert decoded(marshal.dumps(value, 2)) == value


MANY = struct.pack("<I", 2**31 - 1)
BOMBS = [
    b"(" + MANY,
    b"[" + MANY,
    b"s" + MANY,
    b"u" + MANY,
    b"l" + MANY,
    b"l\x06\0\0\0" + b"\x01\0" * 6,
    b"(" + struct.pack("<I", 400_000) + b"N" * 400_000,
    b"[" + struct.pack("<I", 400_000) + b"{0" * 400_000,
    b"(\x01\0\0\0" * 100_000 + b"N",
    b"{" * 100_000,
    b"{{0N0",
    b"",
    b"c" + b"\0" * 100,
    b"r\0\0\0\0",
    marshal.dumps(1.5, 2),
    marshal.dumps(frozenset({1}), 2),
    marshal.dumps(compile("1", "", "eval"), 2),
    marshal.dumps(1, 2) + b"N",
    marshal.dumps((b"ab", 1), 2)[:-1],
    b"u\x01\0\0\0\xff",
]


@pytest.mark.parametrize("number", range(len(BOMBS)))
def test_bytes_that_no_slot_host_sends_are_refused_in_little_memory(number: int) -> None:
    tracemalloc.start()
    with pytest.raises(FrameError):
        decoded(BOMBS[number])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 32 * 1024 * 1024


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(noise: bytes) -> None:
    try:
        decoded(noise)
    except FrameError:
        return


REPORT = (4, 1, 0, 2, 77, 1, "exited", 3, 5, 6, 7, None, 0, (b"o", b"", 1), (b"", b"", 0))
DONE = (*REPORT, (("junit.xml", 2, b"ab"),), (("tz", "UTC"),), "")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, "4"),
        (0, -1),
        (0, 2**53),
        (0, True),
        (4, 1.5),
        (6, "driver_lost"),
        (6, "time_limit"),
        (6, ["exited"]),
        (7, None),
        (7, -1),
        (8, None),
        (11, -1),
        (13, (b"o", b"", 0)),
        (13, ("o", b"", 1)),
        (13, (b"o", b"")),
        (13, (b"x" * (HEAD_BYTES + 1), b"", 2**20)),
        (13, None),
        (15, (("junit.xml", 2, b"abc"),)),
        (15, (("junit.xml", 2**53, None),)),
        (15, ((b"junit.xml", 2, None),)),
        (15, (("junit.xml", 2),)),
        (15, [("junit.xml", 2, None)]),
        (15, (("x", 0, None),) * 10_001),
        (16, (("tz", b"UTC"),)),
        (16, (("tz",),)),
        (17, None),
        (17, "x" * 70_000),
    ],
)
def test_a_report_with_a_field_that_it_cannot_have_is_refused(place: int, value: Any) -> None:
    assert report_from(DONE).code == 3
    with pytest.raises(FrameError):
        report_from((*DONE[:place], value, *DONE[place + 1 :]))


@pytest.mark.parametrize("fields", [None, (), DONE[:-1], (*DONE, ""), list(DONE)])
def test_what_is_not_the_fields_of_a_report_is_refused(fields: Any) -> None:
    with pytest.raises(FrameError):
        report_from(fields)


@pytest.mark.parametrize(
    "fields",
    [
        (4, 2, 0, 1, 77, 0),
        [4, 2, 0, 1, 77, 0, {}],
        (4, 2, 0, -1, 77, 0, {}),
        (4, 2, 0, 1, 77, 0, {"a": 1}),
        (4, 2, 0, 1, 77, 0, []),
    ],
)
def test_what_is_not_the_fields_of_an_order_is_refused(fields: Any) -> None:
    with pytest.raises(FrameError):
        order_from(fields)
