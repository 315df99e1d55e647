"""The canonical bytes of what is stored: RFC 8785 without floats, written fast and read strictly."""

from collections.abc import Iterable
from types import NoneType
from typing import cast

import orjson

from matrices import CanonicalError, Json, canonical_bytes

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_SCALARS = frozenset((str, int, bool, NoneType))
_CONTAINERS = frozenset((dict, list))
_PLAIN = _SCALARS | _CONTAINERS

MAX_DEPTH = 64
"""Objects and lists within each other. A number of our own, so that what can be written does not
depend on how deep the caller's stack is."""


def encode(value: object) -> bytes:
    """The canonical bytes of `value`; the same bytes as `matrices.canonical_bytes`.

    Plain dicts, lists, text, integers, booleans and `None` take the fast way, which agrees with
    RFC 8785 on this profile: keys are ASCII, so sorting bytes and sorting UTF-16 units is one
    order, and there are no floats. All else takes the slow way, which refuses or writes it.

    Raises:
        CanonicalError: the value holds a float, an integer from 2**53, a key outside ASCII,
            text that UTF-8 cannot carry, or more than `MAX_DEPTH` levels.
    """
    if _is_plain([value], MAX_DEPTH):
        try:
            body = orjson.dumps(value, option=_OPTIONS)
        except orjson.JSONEncodeError:
            pass  # the slow way names the place
        else:
            if body.isascii() or _has_ascii_keys(value):
                return body
    try:
        body = canonical_bytes(cast("Json", value))
    except CanonicalError:
        raise
    except (ValueError, RecursionError) as error:
        message = f"the value has no canonical form: {error}"
        raise CanonicalError(message) from error
    # The slow way knows no depth.
    _is_plain([orjson.loads(body)], MAX_DEPTH)
    return body


def decode(body: bytes) -> dict[str, object]:
    """The object that `body` spells, if `body` is its canonical form to the byte.

    Comparing with the bytes of the value refuses a repeated key, another order, blanks, another
    spelling of text or numbers, all at once.

    Raises:
        CanonicalError: the bytes are not the canonical form of an object.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        message = f"the bytes are not JSON: {error}"
        raise CanonicalError(message) from error
    if type(value) is not dict:
        message = f"the bytes spell a {type(value).__name__} where an object belongs"
        raise CanonicalError(message)
    if encode(value) != body:
        message = "the bytes are not the canonical form of what they spell"
        raise CanonicalError(message)
    return value


def _is_plain(values: Iterable[object], depth: int) -> bool:
    """Whether the values are made of exactly the types that the fast way writes.

    Works on sets of types, as most objects hold nothing but scalars.

    Raises:
        CanonicalError: they are nested deeper than `depth`.
    """
    kinds = set(map(type, values))
    if kinds <= _SCALARS:
        return True
    if not kinds <= _PLAIN:
        return False
    if depth == 0:
        message = f"the value is nested deeper than {MAX_DEPTH}"
        raise CanonicalError(message)
    for value in values:
        if isinstance(value, dict):
            inner: Iterable[object] = value.values()
        elif isinstance(value, list):
            inner = value
        else:
            continue
        if not _is_plain(inner, depth - 1):
            return False
    return True


def _has_ascii_keys(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(str.isascii, value)) and all(map(_has_ascii_keys, value.values()))
    return all(map(_has_ascii_keys, value)) if isinstance(value, list) else True
