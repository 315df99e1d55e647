"""Which Python a plan's commands find."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from reproduce.environments.steps import last_lines
from reproduce.errors import InfrastructureError

_ASK = (
    "import json, platform, sys, sysconfig;"
    "print(json.dumps([sys.executable, platform.python_implementation(),"
    " platform.python_version(), sysconfig.get_platform()]))"
)


class Interpreter(NamedTuple):
    """A Python as it describes itself."""

    path: Path
    version: str
    """Implementation and version, such as `CPython 3.11.2`."""
    platform: str


_LAUNCHERS = ("PYENV_", "ASDF_")
"""Launchers that choose among several versions need these settings of the person's."""


def find_python(search_path: str) -> Interpreter:
    """The `python3` on a search path, behind whatever launcher stands there.

    Raises:
        InfrastructureError: there is none, or it does not start.
    """
    found = shutil.which("python3", path=search_path)
    hint = "install Python 3, or inherit a `PATH` that has it"
    if found is None:
        raise InfrastructureError("no `python3` on the plan's `PATH`", hint=hint)
    said = b""
    try:
        ended = subprocess.run(  # noqa: S603 - the interpreter that the plan's PATH names
            [found, "-I", "-S", "-c", _ASK],
            cwd="/",
            env=_variables(search_path),
            capture_output=True,
            check=False,
            timeout=60,
        )
        said = ended.stderr
        path, implementation, version, platform = json.loads(ended.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InfrastructureError(f"`{found}` does not start: {error}", hint=hint) from error
    except ValueError as error:
        message = f"`{found}` does not start: {last_lines(said)}"
        raise InfrastructureError(message, hint=hint) from error
    return Interpreter(Path(path), f"{implementation} {version}", platform)


def _variables(search_path: str) -> dict[str, str]:
    """What a launcher needs and no more: a plan must not read what the person exports."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name == "HOME" or name.startswith(_LAUNCHERS)
    }
    return {**passed, "PATH": search_path}
