"""Values that are written down: frozen records, their canonical bytes and their digests."""

import hashlib
from typing import Annotated, Self, TypeAlias

import rfc8785
from pydantic import BaseModel, ConfigDict, Field

MAX_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader keeps exactly (RFC 8785, section 3.2.2.3)."""

Integer = Annotated[int, Field(ge=-MAX_INTEGER, le=MAX_INTEGER)]
"""An integer that canonical JSON can carry."""

Natural = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
"""An integer from zero that canonical JSON can carry."""

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 in lower-case hexadecimal digits."""

Json: TypeAlias = "str | int | bool | list[Json] | dict[str, Json] | None"
"""What the canonical profile can hold: no floats, so that no two machines disagree on a digit."""


class CanonicalError(ValueError):
    """A value cannot be written in the canonical profile; the message names the place."""


class Record(BaseModel):
    """A value that is written down: frozen, closed, and made of tuples, text and integers."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    def canonical(self) -> bytes:
        """The bytes that are stored and hashed: the RFC 8785 form of the record.

        Raises:
            CanonicalError: a field holds a float or an integer beyond 2**53.
        """
        return canonical_bytes(self.model_dump(mode="json"))

    @classmethod
    def from_canonical(cls, body: bytes) -> Self:
        """The record that `body` spells, if `body` is its canonical form to the byte.

        Raises:
            CanonicalError: the bytes describe the record in another spelling.
            pydantic.ValidationError: the bytes describe no such record.
        """
        record = cls.model_validate_json(body)
        if record.canonical() != body:
            message = f"the bytes are not the canonical form of a `{cls.__name__}`"
            raise CanonicalError(message)
        return record


def canonical_bytes(value: Json) -> bytes:
    """The RFC 8785 form of `value`, restricted to integers below 2**53, text, and ASCII keys.

    Raises:
        CanonicalError: the value holds a float, a larger integer or a key outside ASCII.
    """
    _check(value, "$")
    return bytes(rfc8785.dumps(value))


def _check(value: object, place: str) -> None:
    match value:
        case None | bool() | str():
            return
        case int():
            if abs(value) > MAX_INTEGER:
                message = f"{place}: {value} does not fit below 2**53"
                raise CanonicalError(message)
        case list():
            for index, item in enumerate(value):
                _check(item, f"{place}[{index}]")
        case dict():
            for key, item in value.items():
                if not (isinstance(key, str) and key.isascii()):
                    message = f"{place}: key {key!r} is not ASCII text"
                    raise CanonicalError(message)
                _check(item, f"{place}.{key}")
        case _:
            message = f"{place}: a {type(value).__name__} has no canonical form"
            raise CanonicalError(message)


def domain_digest(domain: str, body: bytes) -> str:
    """SHA-256 over `domain`, a line feed and `body`, in hexadecimal.

    The domain keeps a digest of one kind of value from standing for another kind.
    """
    return hashlib.sha256(domain.encode("ascii") + b"\n" + body).hexdigest()
