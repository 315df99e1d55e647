"""Every command explains itself, and the pages name it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from reproduce.cli.app import app, run

ROOT = Path(__file__).parents[2]

HEAVY = ("numpy", "scipy", "sqlalchemy", "sqlmodel", "docker", "ray")


def commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every command and subcommand under its name, such as `ledger show`."""
    for part, child in getattr(command, "commands", {}).items():
        full = f"{name} {part}".strip()
        yield full, child
        yield from commands(child, full)


COMMANDS = dict(commands(get_command(app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run([*name.split(), "--help"])

    shown = capsys.readouterr()
    assert code == 0
    assert f"reproduce {name}" in " ".join(shown.out.split())
    assert (COMMANDS[name].help or "").strip()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_has_help(name: str) -> None:
    silent = [
        parameter.opts[0]
        for parameter in COMMANDS[name].params
        if parameter.param_type_name == "option" and not parameter.help
    ]

    assert silent == []


def test_every_command_is_in_the_readme_or_the_pages() -> None:
    pages = (ROOT / "README.md", *(ROOT / "docs").glob("**/*.md"))
    text = " ".join(path.read_text("utf-8") for path in pages)

    assert [name for name in COMMANDS if f"reproduce {name}" not in text] == []


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; from reproduce.cli.app import run; run(['--help'])\n"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "sys.stderr.write(' '.join(loaded))"
    )

    ended = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True
    )

    assert ended.stderr == ""
