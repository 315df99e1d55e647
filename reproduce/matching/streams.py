"""Streams as they are stored, and as patterns see them."""

import re
from typing import NamedTuple

from reproduce.executors.model import Captured

_MARKER = re.compile(rb"\n\[\.\.\. [0-9]+ bytes not stored \.\.\.\]\n")
_MARKER_END = b" bytes not stored ...]\n"

_SEAM = b"\0"
"""Stands for what was dropped: no line starts or ends here, whatever stood in the gap."""

_LATIN_1 = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}
"""From what `surrogateescape` makes of a byte that is not UTF-8 to its Latin-1 character."""


class Stretch(NamedTuple):
    """An unbroken part of a stream: `text[start:end]`, with what is around it for anchors."""

    text: bytes
    start: int
    end: int


def stored_stream(captured: Captured) -> tuple[bytes, bool]:
    """The bytes to store of a stream, and whether some were dropped.

    Where bytes were dropped, a line between head and tail says how many.
    """
    dropped = captured.size - len(captured.head) - len(captured.tail)
    if dropped <= 0:
        return captured.head + captured.tail, False
    marker = b"\n[... %d bytes not stored ...]\n" % dropped
    return captured.head + marker + captured.tail, True


def stretches(stored: bytes) -> tuple[Stretch, ...]:
    """The parts of a stored stream that hang together, as UTF-8.

    Bytes that are not UTF-8 are read as Latin-1. No stretch crosses dropped bytes, not even for
    a pattern that matches every byte; a line of the command's own that reads like the mark of
    dropped bytes divides the stream too.
    """
    if _MARKER_END not in stored:
        text = _as_utf8(stored)
        return (Stretch(text, 0, len(text)),)
    parts = [_as_utf8(part) for part in _MARKER.split(stored)]
    text = _SEAM.join(parts)
    found = []
    start = 0
    for part in parts:
        found.append(Stretch(text, start, start + len(part)))
        start += len(part) + len(_SEAM)
    return tuple(found)


def _as_utf8(stored: bytes) -> bytes:
    if stored.isascii():
        return stored
    try:
        stored.decode("utf-8")
    except UnicodeDecodeError:
        return stored.decode("utf-8", "surrogateescape").translate(_LATIN_1).encode("utf-8")
    return stored
