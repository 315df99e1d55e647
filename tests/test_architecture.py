"""What import contracts cannot see: what is loaded at run time, how long files are, what they name."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("matrices", "ledger", "policies", "reproduce")
MAX_LINES = 500
SHAPELESS = ("utils", "helpers", "common", "base", "manager", "types")

EFFECTS = ("docker", "fastapi", "ray", "sqlalchemy", "sqlmodel", "typer", "rich", "reproduce")
SLOW = ("numpy", "scipy", "sqlalchemy", "sqlmodel", "ray", "docker", "alembic")

# One letter of each is in brackets, so that this file does not name them either.
NOT_FOR_READERS = re.compile(
    r"(?<![\w.}$-])/(?:[w]ork|[r]oot)/"
    r"|/[t]mp/(?:brief|probe-)"
    r"|/[o]pt/(?:wheels|pypi)"
    r"|[p]ypi\.org|[p]ythonhosted\.org|[r]egistry\.npmjs|[d]eb\.debian\.org"
)
TEXT = {".cfg", ".css", ".html", ".ini", ".json", ".md", ".py", ".sh", ".sql", ".toml", ".txt"}
TEXT_NAMES = {"Makefile", "LICENSE", "run", ".gitignore"}
NOT_OURS = {".git", ".venv", ".reproduce", ".hypothesis", ".pytest_cache", "dist", "build"}


def loaded_after(statement: str) -> set[str]:
    """Returns the top-level modules of a new interpreter after one statement."""
    script = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    ended = subprocess.run(
        [sys.executable, "-P", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(ended.stdout.split("\n")[-2].split())


@pytest.mark.parametrize(
    "module",
    ["matrices", "policies", "ledger", "ledger.records", "ledger.canonical", "ledger.tree"],
)
def test_a_pure_package_loads_nothing_that_has_effects(module: str) -> None:
    loaded = loaded_after(f"import {module}")

    assert loaded.isdisjoint(EFFECTS)


def test_asking_for_help_loads_nothing_slow() -> None:
    loaded = loaded_after(
        "import sys\n"
        "from reproduce.__main__ import main\n"
        "sys.argv = ['reproduce', '--help']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    pass"
    )

    assert "typer" in loaded
    assert loaded.isdisjoint(SLOW)


def python_files() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def test_no_module_of_ours_is_longer_than_500_lines() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in python_files()
    }

    assert {path: length for path, length in lengths.items() if length > MAX_LINES} == {}


def test_every_module_is_named_for_one_thing() -> None:
    shapeless = [str(path) for path in python_files() if path.stem in SHAPELESS]

    assert shapeless == []


def test_test_folders_are_not_packages() -> None:
    # `tests/policies/__init__.py` would make `policies` mean the tests.
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def text_files() -> Iterator[Path]:
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        is_text = path.suffix in TEXT or path.name in TEXT_NAMES
        if is_text and NOT_OURS.isdisjoint(parts) and path.is_file():
            yield path


def test_no_file_names_a_registry_host_or_a_folder_of_one_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in text_files()
        for match in NOT_FOR_READERS.finditer(path.read_text("utf-8"))
    ]

    assert found == []
