"""What a finished environment consists of."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from matrices import domain_digest

DOMAIN = "reproduce-environment-contents-v1"

_PARTS = ("venv", "tree")
"""The folders that trials use."""

_COMPILED = "__pycache__"
"""Python writes there when a module is first imported."""


def environment_digest(folder: Path) -> str:
    """The digest of all folders, files, links and modes that trials use, but for compiled code.

    Raises:
        OSError: something cannot be read.
    """
    digest = hashlib.sha256()
    for part in _PARTS:
        if (folder / part).is_dir():
            for line in _lines(os.fsencode(folder), os.fsencode(part)):
                digest.update(line)
    return domain_digest(DOMAIN, digest.digest())


def _lines(root: bytes, below: bytes) -> Iterator[bytes]:
    with os.scandir(os.path.join(root, below)) as found:  # noqa: PTH118 - names are bytes
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        path = below + b"/" + entry.name
        facts = entry.stat(follow_symlinks=False)
        mode = facts.st_mode
        content = b""
        if stat.S_ISLNK(mode):
            content = os.readlink(entry.path)  # noqa: PTH115 - the same
        elif stat.S_ISREG(mode):
            content = _file_digest(entry.path)
        elif stat.S_ISDIR(mode) and entry.name == os.fsencode(_COMPILED):
            continue
        yield b"%o %d %s%d %s" % (mode, len(path), path, len(content), content)
        if stat.S_ISDIR(mode):
            yield from _lines(root, path)


def _file_digest(path: bytes) -> bytes:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(opened, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor
        return hashlib.file_digest(file, "sha256").digest()
