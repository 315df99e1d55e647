"""Runs the command as a person does, and writes the investigation files that it is given."""

import os
import pty
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ledger.sqlite import SqliteStore
from ledger.store import InvestigationRow
from reproduce import clock
from reproduce.state import State, state_of

FILE = """\
version = 1
title   = "a probe that says what it is told"

[run]
cmd       = ["sh", "probe.sh"]
timeout_s = 20
inherit   = ["PATH"]

[symptom]
kind       = "output"
pattern    = "^LOST"
clean_exit = [0]

[matrix.bug]
on  = { args = ["1"] }
off = { args = ["0"] }

[arms]
treatment = { bug = "on" }
control   = { bug = "off" }

[budget]
trials   = 12
parallel = 2

[policy]
name = "strict/1"
"""
"""An investigation of `PROBE`, whose bug always shows in the treatment."""

PROBE = '[ "$1" = 1 ] && echo LOST && exit 1\nexit 0\n'


_DEADLINE_S = 30


class Ended(NamedTuple):
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str


def write_investigation(
    folder: Path, *changes: tuple[str, str], name: str = "reproduce.toml", probe: str = PROBE
) -> Path:
    """Writes the probe and its investigation file, with each old text replaced by its new one.

    Raises:
        ValueError: an old text is not in the file exactly once.
    """
    text = FILE
    for old, new in changes:
        if text.count(old) != 1:
            message = f"{old!r} is in the file {text.count(old)} times"
            raise ValueError(message)
        text = text.replace(old, new)
    (folder / "probe.sh").write_text(probe, encoding="utf-8")
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def environment(**more: str) -> dict[str, str]:
    """An environment for the command that says nothing of terminals, with `more` in it."""
    silent = {"NO_COLOR", "COLUMNS", "TERM", "PYTHONPATH", "REPRODUCE_DEBUG"}
    kept = {name: value for name, value in os.environ.items() if name not in silent}
    return {**kept, "PYTHONUTF8": "1", **more}


def words(*arguments: str) -> list[str]:
    """The command with its arguments, run by this interpreter."""
    return [sys.executable, "-P", "-m", "reproduce", *arguments]


def command(
    folder: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 60,
) -> Ended:
    """Runs the command in the folder, without a terminal, to its end."""
    found = subprocess.run(  # noqa: S603 - our own command
        words(*arguments),
        cwd=folder,
        env=environment() if env is None else env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=timeout_s,
    )
    out, err = found.stdout.decode("utf-8"), found.stderr.decode("utf-8")
    return Ended(found.returncode, out, err)


def at_terminal(
    folder: Path, *arguments: str, answer: bytes = b"", env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Runs the command at a terminal, which gives its answer to the first question.

    Returns its exit code and all that the terminal showed.

    Raises:
        TimeoutError: it does not ask or does not end.
    """
    driver, terminal = pty.openpty()
    with subprocess.Popen(  # noqa: S603 - our own command
        words(*arguments),
        cwd=folder,
        env=environment(TERM="xterm") if env is None else env,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    ) as ended:
        os.close(terminal)
        shown = b""
        if answer:
            shown += _until(driver, b"[y/N]")
            os.write(driver, answer)
        shown += _until(driver, None)
        code = ended.wait(_DEADLINE_S)
    os.close(driver)
    return code, shown.decode("utf-8", "replace")


def _until(driver: int, wanted: bytes | None) -> bytes:
    """What a terminal shows until it shows what is wanted, or until the command has left it."""
    shown, deadline_us = b"", clock.monotonic_us() + _DEADLINE_S * 1_000_000
    while wanted is None or wanted not in shown:
        if clock.monotonic_us() > deadline_us:
            raise TimeoutError(shown)
        if not select.select([driver], [], [], 0.5)[0]:
            continue
        try:
            data = os.read(driver, 65536)
        except OSError:
            data = b""  # the last process at the terminal has left it
        if not data:
            return shown
        shown += data
    return shown


def state(folder: Path) -> State:
    """The state folder of the investigations in the folder."""
    return state_of(folder)


def investigations(folder: Path) -> Sequence[InvestigationRow]:
    """What the ledger of the folder holds; nothing where there is none."""
    path = state_of(folder).ledger
    if not path.is_file():
        return ()
    with SqliteStore(path) as store:
        return store.investigations()
