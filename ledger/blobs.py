"""Captured bytes, compressed: Zstandard, level 3."""

import hashlib
import threading

import zstandard

from ledger.errors import TamperedError

LEVEL = 3
"""Of Zstandard: a higher level costs more time than a trial that prints little takes."""


class _Compressor(threading.local):
    """One compressor for each thread, which may not share it."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=LEVEL).compress


_COMPRESSOR = _Compressor()


def compress(data: bytes) -> bytes:
    """The compressed form of `data`; the same for the same bytes and library version."""
    return _COMPRESSOR.compress(data)


def decompress(packed: bytes, *, sha256: str, size: int) -> bytes:
    """The bytes that were compressed, checked against their digest and size.

    Never makes more than `size` bytes, whatever `packed` claims.

    Raises:
        TamperedError: the bytes are not those that the digest names.
    """
    try:
        data = zstandard.ZstdDecompressor().stream_reader(packed).read(size + 1)
    except zstandard.ZstdError as error:
        raise _damaged(sha256) from error
    if len(data) != size or hashlib.sha256(data).hexdigest() != sha256:
        raise _damaged(sha256)
    return data


def _damaged(sha256: str) -> TamperedError:
    return TamperedError(
        f"the stored bytes are not those of blob {sha256[:12]}",
        rule="blob",
        place=f"blob {sha256}",
        hint="restore it from a bundle or a backup",
    )
