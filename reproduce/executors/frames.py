"""What a slot host notes and says, taken for what it is: bytes that a trial may have written.

`marshal.loads` would give a few bytes all the memory there is. Here a value is never larger than
what it was read from, and only the shapes of `model` come out.
"""

import struct
from collections.abc import Sequence
from typing import Any

from reproduce.executors.model import (
    HEAD_BYTES,
    TAIL_BYTES,
    Captured,
    KeptFile,
    Order,
    Report,
)

MARSHAL = 2
"""The last format in which nothing refers to what was read before."""

MAX_FRAME_BYTES = 80 * 1024 * 1024
"""Above every report: its kept files have 64 MiB at most."""

_MAX_DEPTH = 8
_MAX_DIGITS = 5
"""Of 15 bits each: enough for the 64 bits of the largest number of a report."""

_MAX_VALUES = 300_000
"""An empty container takes thirty times the memory of its bytes."""

_MAX_FILES = 10_000
_MAX_TEXT = 1 << 16
_LIMIT = 2**53
_FIELDS = 18

_WITHOUT_CODE = frozenset({"time_limit", "cancelled", "setup_failed"})
_ENDINGS = _WITHOUT_CODE | {"exited", "signalled", "not_started"}

_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_NONE, _TRUE, _FALSE, _INT, _LONG, _END = b"NTFil0"
_BYTES, _TEXT, _INTERNED, _TUPLE, _LIST, _DICT = b"sut([{"
_TEXTS = frozenset({_TEXT, _INTERNED})
_SEQUENCES = frozenset({_TUPLE, _LIST})
_PLAIN = {_NONE: None, _TRUE: True, _FALSE: False}


class FrameError(Exception):
    """These bytes or values are nothing that a slot host says."""


def decoded(data: bytes) -> Any:
    """The value that `marshal.dumps(value, 2)` made these bytes of.

    Raises:
        FrameError: they are of another kind, torn, or followed by more.
    """
    try:
        value, end = _value(data, 0, [_MAX_VALUES])
    except (IndexError, TypeError, ValueError, struct.error) as error:
        raise FrameError(str(error)) from error
    if end != len(data):
        raise FrameError("bytes after the value")
    return value


def report_from(fields: Any) -> Report:
    """The report that a slot host sent or spooled.

    Raises:
        FrameError: a field is of another type or beyond what a report can hold.
    """
    if type(fields) is not tuple or len(fields) != _FIELDS:
        raise FrameError("not the fields of a report")
    *plain, stdout, stderr, files, evidence, detail = fields
    ending, code, rss = plain[6], plain[7], plain[11]
    _check_naturals((*plain[:6], *plain[8:11], plain[12]))
    _check(type(ending) is str and ending in _ENDINGS, "ending")
    _check_naturals(() if code is None else (code,))
    _check((code is None) == (ending in _WITHOUT_CODE), "code")
    if rss is not None:
        _check_naturals((rss,))
    _check(type(detail) is str and len(detail) <= _MAX_TEXT, "detail")
    return Report(
        *plain,  # type: ignore[call-arg]  # thirteen of them
        _captured(stdout),
        _captured(stderr),
        tuple(_file(*file) for file in _rows(files, 3)) if files else (),
        tuple(_pair(*pair) for pair in _rows(evidence, 2)) if evidence else (),
        detail,
    )


def order_from(fields: Any) -> Order:
    """The order that a slot host gave back or noted.

    Raises:
        FrameError: a field is of another type.
    """
    if type(fields) is not tuple or len(fields) != len(Order._fields):
        raise FrameError("not the fields of an order")
    *numbers, values = fields
    _check_naturals(numbers)
    _check(type(values) is dict, "values")
    for pair in values.items():
        _pair(*pair)
    return Order(*numbers, values)  # type: ignore[call-arg]  # six of them


def natural(value: Any) -> int:
    """The value, which is a number that a record can hold.

    Raises:
        FrameError: it is not.
    """
    _check_naturals((value,))
    return int(value)


def text(value: Any) -> str:
    """The value, which is a text of moderate length.

    Raises:
        FrameError: it is not.
    """
    _check(type(value) is str and len(value) <= _MAX_TEXT, "text")
    return str(value)


def _value(data: bytes, at: int, left: list[int], depth: int = 0) -> tuple[Any, int]:
    kind = data[at]
    at += 1
    if kind == _INT:
        return _I32.unpack_from(data, at)[0], at + 4
    if kind in _PLAIN:
        return _PLAIN[kind], at
    if kind == _LONG:
        return _long(data, at)
    if depth > _MAX_DEPTH:
        raise FrameError("nested too deeply")
    if kind == _DICT:
        return _dict(data, at, left, depth)
    return _sized(kind, data, at, left, depth)


def _sized(kind: int, data: bytes, at: int, left: list[int], depth: int) -> tuple[Any, int]:
    size = _U32.unpack_from(data, at)[0]
    at += 4
    if size > len(data) - at:
        raise FrameError("longer than its frame")
    if kind in _SEQUENCES:
        items = []
        _spend(left, size)
        for _ in range(size):
            item, at = _value(data, at, left, depth + 1)
            items.append(item)
        return (tuple(items) if kind == _TUPLE else items), at
    if kind == _BYTES:
        return data[at : at + size], at + size
    if kind in _TEXTS:
        return data[at : at + size].decode("utf-8", "surrogatepass"), at + size
    raise FrameError("a value of another kind")


def _long(data: bytes, at: int) -> tuple[int, int]:
    count = _I32.unpack_from(data, at)[0]
    if abs(count) > _MAX_DIGITS:
        raise FrameError("a number beyond 64 bits")
    digits = struct.unpack_from(f"<{abs(count)}H", data, at + 4)
    value = sum(digit << 15 * place for place, digit in enumerate(digits))
    return (value if count > 0 else -value), at + 4 + 2 * len(digits)


def _dict(data: bytes, at: int, left: list[int], depth: int) -> tuple[dict[Any, Any], int]:
    found: dict[Any, Any] = {}
    while data[at] != _END:
        _spend(left, 2)
        key, at = _value(data, at, left, depth + 1)
        found[key], at = _value(data, at, left, depth + 1)
    return found, at + 1


def _spend(left: list[int], values: int) -> None:
    left[0] -= values
    if left[0] < 0:
        raise FrameError("more values than a slot host has to tell")


def _check(holds: bool, what: str) -> None:  # noqa: FBT001 - an assertion that is never off
    if not holds:
        raise FrameError(f"an impossible {what}")


def _check_naturals(values: Sequence[Any]) -> None:
    for value in values:
        if type(value) is not int or not 0 <= value < _LIMIT:
            raise FrameError("an impossible number")


def _rows(found: Any, width: int) -> tuple[Any, ...]:
    is_bounded = type(found) is tuple and len(found) <= _MAX_FILES
    if not is_bounded or any(type(row) is not tuple or len(row) != width for row in found):
        raise FrameError("not a table")
    return tuple(found)


def _captured(stream: Any) -> Captured:
    if type(stream) is not tuple or len(stream) != len(Captured._fields):
        raise FrameError("not a stream")
    head, tail, size = stream
    are_bytes = type(head) is bytes and type(tail) is bytes and type(size) is int
    if not are_bytes or len(head) > HEAD_BYTES or len(tail) > TAIL_BYTES:
        raise FrameError("an impossible stream")
    _check(len(head) + len(tail) <= size < _LIMIT, "size of a stream")
    return Captured(head, tail, size)


def _file(path: Any, size: Any, content: Any) -> KeptFile:
    _check_naturals((size,))
    _check(content is None or (type(content) is bytes and len(content) <= size), "content")
    return KeptFile(text(path), size, content)


def _pair(name: Any, value: Any) -> tuple[str, str]:
    return text(name), text(value)
