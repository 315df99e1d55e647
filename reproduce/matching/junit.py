"""What a JUnit report says of one case."""

import io
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple
from xml.etree import ElementTree as ET

from junitparser import Error, Failure, JUnitXmlError, Skipped
from junitparser.junitparser import Result
from junitparser.xunit2 import (
    FlakyError,
    FlakyFailure,
    JUnitXml,
    RerunError,
    RerunFailure,
    TestCase as Case,
)

from reproduce.matching.patterns import Pattern

_FAILURES = (Failure, FlakyFailure, RerunFailure)
_ERRORS = (Error, FlakyError, RerunError)


class Said(StrEnum):
    """What a report can say of a case."""

    MESSAGE = "message"
    """It failed with the declared message, if only until a retry."""
    CLEAN = "clean"
    ERROR = "error"
    OTHER_MESSAGE = "other-message"
    CONFLICTING = "conflicting"
    """It failed with the message, and something else is said of it as well."""
    SKIPPED = "skipped"
    ABSENT = "absent"
    NO_FILE = "no-file"
    EMPTY = "empty"
    """The report names no case at all."""
    UNREADABLE = "unreadable"
    TOO_LARGE = "too-large"


class Wanted(NamedTuple):
    """The case that is looked for: its id as declared and in the dotted form, and the message."""

    test: str
    dotted: str
    message: Pattern


class _DoctypeError(Exception):
    """The report declares a document type: no runner writes one, and entity bombs need one."""


class _TooLargeError(Exception):
    """The report holds more than any runner writes, and would take memory out of proportion."""


_MAX_ELEMENTS = 200_000
_MAX_DEPTH = 100
_MAX_ATTRIBUTES = 64
_MAX_ALL_ATTRIBUTES = 1_200_000
_MAX_ATTRIBUTE_CHARS = 1024 * 1024
_CHUNK_BYTES = 1024 * 1024


class _Builder(ET.TreeBuilder):
    def __init__(self) -> None:
        super().__init__()
        self._elements = self._depth = self._attributes = 0

    def start(self, tag: str, attributes: dict[str, str], /) -> ET.Element:
        """Begins an element, unless that would be one too many, too deep or too large."""
        self._elements += 1
        self._depth += 1
        self._attributes += len(attributes)
        if (
            self._elements > _MAX_ELEMENTS
            or self._depth > _MAX_DEPTH
            or len(attributes) > _MAX_ATTRIBUTES
            or self._attributes > _MAX_ALL_ATTRIBUTES
            or any(len(value) > _MAX_ATTRIBUTE_CHARS for value in attributes.values())
        ):
            raise _TooLargeError(tag[:80])
        return super().start(tag, attributes)

    def end(self, tag: str, /) -> ET.Element:
        """Ends an element."""
        self._depth -= 1
        return super().end(tag)

    def doctype(self, name: str, _public: str, _system: str) -> None:
        """Refuses the report, before any entity of it is declared."""
        raise _DoctypeError(name)


def wanted(test: str, message: Pattern) -> Wanted:
    """The case with this id: a pytest node id, `class::name`, or a plain name."""
    return Wanted(test, dotted(test), message)


def dotted(test: str) -> str:
    """One spelling for an id: `a/test_b.py::C::d[x]` and class `a.test_b.C`, name `d[x]`."""
    stem, bracket, parameters = test.partition("[")
    stem = stem.removeprefix("./").replace(".py::", "::")
    return stem.replace("::", ".").replace("/", ".") + bracket + parameters


def said_of(case: Wanted, report: bytes) -> Said:
    """What a report says of a case; never raises, whatever the bytes are."""
    if not report.strip():
        return Said.EMPTY
    try:
        found = list(_cases(report))
    except _TooLargeError:
        return Said.TOO_LARGE
    except (ET.ParseError, JUnitXmlError, _DoctypeError, LookupError, ValueError):
        return Said.UNREADABLE
    if not found:
        return Said.EMPTY
    return _judged(case, [one for one in found if _is(case, one)])


def _cases(report: bytes) -> Iterator[Case]:
    root = JUnitXml.fromfile(io.BytesIO(report), parse_func=_parse)._elem  # noqa: SLF001
    # Suites nest in some dialects, so the cases are looked for at any depth.
    for element in root.iter("testcase"):
        yield Case.fromelem(element)  # type: ignore[no-untyped-call]


def _parse(file: io.BytesIO) -> "ET.ElementTree[ET.Element]":
    # The standard parser even where lxml is installed: its limits are known, and it fetches nothing.
    parser = ET.XMLParser(target=_Builder())  # noqa: S314 - a document type is refused
    # Not in small chunks: a token of a megabyte would be read again with each. Not at once: a
    # report that was refused would still be read to its end.
    while chunk := file.read(_CHUNK_BYTES):
        parser.feed(chunk)
    return ET.ElementTree(parser.close())


def _is(case: Wanted, found: Case) -> bool:
    name = found.name or ""
    if name == case.test:
        return True
    classname = found.classname or ""
    full = f"{classname}::{name}" if classname else name
    return dotted(full) == case.dotted


def _judged(case: Wanted, found: list[Case]) -> Said:
    if not found:
        return Said.ABSENT
    said = {one for each in found for one in _said(case, each)}
    if Said.MESSAGE in said:
        return Said.MESSAGE if len(said) == 1 else Said.CONFLICTING
    for one in (Said.ERROR, Said.OTHER_MESSAGE, Said.SKIPPED):
        if one in said:
            return one
    return Said.CLEAN


def _said(case: Wanted, found: Case) -> Iterator[Said]:
    entries = [*found.result, *found.interim_result]
    for entry in entries:
        if isinstance(entry, _FAILURES):
            seen = any(case.message.seen(text) for text in _texts(entry))
            yield Said.MESSAGE if seen else Said.OTHER_MESSAGE
        elif isinstance(entry, _ERRORS):
            yield Said.ERROR
        elif isinstance(entry, Skipped):
            yield Said.SKIPPED
    if not entries:
        yield Said.CLEAN


def _texts(entry: Result) -> Iterable[bytes]:
    """The message with and without its type, and the text where it holds no source code."""
    message, kind, text = entry.message or "", entry.type or "", entry.text or ""
    texts = [message, f"{kind}: {message}"] if message else [kind]
    # pytest prints the source of the function into the text: a pattern would match code that
    # never ran. Go and Jest have nothing but the text.
    if not (message and any(line.startswith("E  ") for line in text.splitlines())):
        texts.append(text)
    return [one.encode("utf-8", "replace") for one in texts if one]
