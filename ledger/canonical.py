"""The canonical bytes of what is stored: RFC 8785 without floats, written fast and read strictly."""

from types import NoneType
from typing import cast

import orjson

from matrices import CanonicalError, Json, canonical_bytes

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_SCALARS = frozenset((str, int, bool, NoneType))


def encode(value: object) -> bytes:
    """The canonical bytes of `value`; the same bytes as `matrices.canonical_bytes`.

    Plain dicts, lists, text, integers, booleans and `None` take the fast way, which agrees with
    RFC 8785 on this profile: keys are ASCII, so sorting bytes and sorting UTF-16 units is one
    order, and there are no floats. All else takes the slow way, which refuses or writes it.

    Raises:
        CanonicalError: the value holds a float, an integer from 2**53, a key outside ASCII, or
            text that UTF-8 cannot carry.
    """
    if _is_plain(value):
        try:
            return orjson.dumps(value, option=_OPTIONS)
        except orjson.JSONEncodeError:
            pass  # the slow way names the place
    try:
        return canonical_bytes(cast("Json", value))
    except CanonicalError:
        raise
    except (ValueError, RecursionError) as error:
        message = f"the value has no canonical form: {error}"
        raise CanonicalError(message) from error


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


def _is_plain(value: object) -> bool:
    """Whether `value` is made of exactly the types that the fast way writes as the profile asks."""
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is not str or not key.isascii():
                return False
            if type(item) not in _SCALARS and not _is_plain(item):
                return False
        return True
    if type(value) is list:
        return all(type(item) in _SCALARS or _is_plain(item) for item in value)
    return type(value) in _SCALARS
