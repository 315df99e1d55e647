"""One command of a build."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from reproduce.errors import InfrastructureError

_LIMIT_S = 3600
"""A step that takes longer hangs: the largest resolve or compile stays below it."""

_SHOWN_LINES = 15
_SHOWN_BYTES = 64 * 1024


def run_step(
    command: Sequence[str],
    *,
    what: str,
    here: Path,
    variables: Mapping[str, str],
    log: Path,
) -> None:
    """Runs a command to its end and kills what it leaves behind; its output goes to the log.

    Raises:
        InfrastructureError: it is not there, ends with another code than 0, or does not end.
    """
    shown = f"{what} `{' '.join(command)}`"
    # A path is relative to where the step runs, a name is looked up.
    name = command[0]
    program = name if "/" in name else shutil.which(name, path=variables["PATH"])
    if program is None:
        message = f"{shown}: `{name}` is not on the plan's `PATH`"
        raise InfrastructureError(message, hint="install it, or inherit a `PATH` that has it")
    with log.open("wb") as output:
        # The log is a file, since a pipe would be held open by what the command leaves behind.
        try:
            started = subprocess.Popen(  # noqa: S603 - approved with the plan
                [program, *command[1:]],
                cwd=here,
                env=dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            message = f"{shown} cannot be started: {error.strerror}"
            raise InfrastructureError(message, hint="mend the command") from error
        code = _ended(started, shown)
    if code != 0:
        with log.open("rb") as output:
            output.seek(max(0, log.stat().st_size - _SHOWN_BYTES))
            said = last_lines(output.read())
        message = f"{shown} ended with {code}:\n{said}"
        raise InfrastructureError(message, hint=f"mend the cause and run again; all of it: {log}")


def last_lines(output: bytes) -> str:
    """The end of an output, without what could steer a terminal."""
    lines = output.decode("utf-8", "replace").strip().splitlines()[-_SHOWN_LINES:]
    printable = ("".join(c if c.isprintable() else " " for c in line).rstrip() for line in lines)
    return "\n".join(printable)


def _ended(started: "subprocess.Popen[bytes]", shown: str) -> int:
    try:
        return started.wait(timeout=_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        message = f"{shown} did not end within {_LIMIT_S} s"
        raise InfrastructureError(message, hint="find out what it waits for") from error
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
