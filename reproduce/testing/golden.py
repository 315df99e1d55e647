"""Golden files: text that must stay as it is, to the byte."""

import os
from pathlib import Path

WRITE = "REPRODUCE_WRITE_GOLDEN"
"""With this variable set to `1`, files that are missing or differ are written instead."""


def assert_golden(path: Path, text: str) -> None:
    """Compares the text with the file, byte for byte."""
    body = text.encode("utf-8")
    if os.environ.get(WRITE) == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        return
    if not path.exists():
        message = f"{path} does not exist; set {WRITE}=1 to write it"
        raise AssertionError(message)
    expected = path.read_bytes()
    if body != expected:
        shown = f"expected:\n{expected.decode('utf-8')}\nfound:\n{text}"
        message = f"{path.name} differs; set {WRITE}=1 to write it anew\n{shown}"
        raise AssertionError(message)
