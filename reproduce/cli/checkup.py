"""What runs trials on this machine, and what is missing: the checks of `doctor`."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import typer

from reproduce._origin import PACKAGES
from reproduce.cli.output import emit, emit_json
from reproduce.errors import ExitCode, ReproduceError
from reproduce.knobs import KNOBS
from reproduce.report.text import one_line

LEAST_PYTHON = (3, 11)

LEAST_SQLITE = (3, 37, 0)
"""The first with the strict tables of a ledger."""

LEAST_BYTES = 100 * 1024 * 1024
MOST_BYTES_WANTED = 1024 * 1024 * 1024
"""Free space below which nothing should start, and below which a long run may fill the disk."""

EXTRAS: Mapping[str, str] = {
    "ray": "ray",
    "serve": "fastapi",
    "postgres": "psycopg",
    "mcp": "mcp",
    "plots": "matplotlib",
    "llm": "openai",
}
"""A module that tells whether an extra is installed."""


class State(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(NamedTuple):
    """One thing that trials need or would like."""

    name: str
    state: State
    found: str
    fix: str = ""


def print_checkup(*, as_json: bool) -> None:
    """Prints one line for each check.

    Raises:
        Exit: with 5 if a check failed.
    """
    checks = tuple(checkup(Path.cwd()))
    if as_json:
        emit_json({"schema": "reproduce.doctor/1", "checks": [one._asdict() for one in checks]})
    else:
        emit("\n".join(line(check) for check in checks))
    if any(check.state is State.FAIL for check in checks):
        raise typer.Exit(ExitCode.INFRASTRUCTURE)


def line(check: Check) -> str:
    """A check in one line."""
    fix = f"; {check.fix}" if check.fix else ""
    return f"{check.state:<4}  {check.name:<11}  {one_line(check.found)}{fix}"


def checkup(folder: Path) -> Iterator[Check]:
    """Every check, for investigations in this folder."""
    yield _system()
    yield _python()
    yield _origin()
    yield _sqlite(folder)
    yield _space(folder)
    yield _memory()
    yield from _slot_host()
    yield _git()
    yield _locales()
    yield _extras()


def _system() -> Check:
    name = f"{platform.system()} {platform.release()} {platform.machine()}"
    if platform.system() == "Linux":
        return Check("system", State.OK, name)
    fix = "run trials on Linux; `verify`, `verdict` and `compare` work here"
    return Check("system", State.FAIL, name, fix)


def _python() -> Check:
    name = f"Python {platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] >= LEAST_PYTHON:
        return Check("python", State.OK, name)
    return Check("python", State.FAIL, name, "install Python 3.11 or newer")


def _origin() -> Check:
    specs = [importlib.util.find_spec(name) for name in PACKAGES]
    homes = {str(Path(s.origin).parent.parent) if s and s.origin else "nowhere" for s in specs}
    if len(homes) == 1 and "nowhere" not in homes:
        return Check("origin", State.OK, f"{', '.join(PACKAGES)} from {homes.pop()}")
    found = f"our packages come from {', '.join(sorted(homes))}"
    return Check("origin", State.FAIL, found, "install into an environment of its own")


def _sqlite(folder: Path) -> Check:
    name = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < LEAST_SQLITE:
        return Check("sqlite", State.FAIL, name, "use a Python with SQLite 3.37 or newer")
    try:
        with tempfile.TemporaryDirectory(prefix=".reproduce-doctor-", dir=folder) as made:
            connection = sqlite3.connect(Path(made) / "probe.sqlite")
            (mode,) = connection.execute("PRAGMA journal_mode = wal").fetchone()
            connection.close()
    except (OSError, sqlite3.Error) as error:
        fix = "work in a folder that you may write to"
        return Check("sqlite", State.FAIL, f"{name}, cannot write here: {error}", fix)
    if mode != "wal":
        fix = "keep the ledger on a local disk: `--ledger PATH`"
        return Check("sqlite", State.FAIL, f"{name}, no write-ahead log in this folder", fix)
    return Check("sqlite", State.OK, f"{name} with a write-ahead log")


def _space(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free
    found = f"{free / 1e9:.1f} GB free in this folder"
    if free < LEAST_BYTES:
        return Check("disk", State.FAIL, found, "make room")
    if free < MOST_BYTES_WANTED:
        return Check("disk", State.WARN, found, "make room before a long run")
    return Check("disk", State.OK, found)


def _memory() -> Check:
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(os.sched_getaffinity(0))
    return Check("cores", State.OK, f"{cores} cores, {size / 1e9:.1f} GB of memory")


def _slot_host() -> Iterator[Check]:
    """Starts a slot host as a run would, and says what encloses its trials."""
    from reproduce.executors.local import LocalExecutor
    from reproduce.executors.model import World

    with tempfile.TemporaryDirectory(prefix="reproduce-doctor-") as made:
        tree = Path(made) / "tree"
        tree.mkdir()
        worlds = [World(("true",), {"PATH": "/usr/bin:/bin"}, 1_000_000, tree=str(tree))]
        try:
            with LocalExecutor(world=Path(made) / "world") as executor:
                place = executor.start(worlds, slots=1, spool=Path(made) / "spools" / "session")
        except (ReproduceError, OSError) as error:
            yield Check("containment", State.FAIL, str(error), "trials cannot run here")
            return
    facts = dict(place.facts)
    yield _containment(facts["containment"])
    yield _fresh_tree(facts["fresh_tree"])


def _containment(found: str) -> Check:
    if found == "pidns":
        return Check("containment", State.OK, "a process namespace for each slot")
    fix = "allow user namespaces, or run as root, to be sure that nothing outlives its trial"
    return Check("containment", State.WARN, f"{found}: leftovers are hunted down", fix)


def _fresh_tree(found: str) -> Check:
    if found == "overlay":
        return Check("tree", State.OK, "an overlay of the tree for each trial")
    fix = "no overlays here: keep the source tree small"
    return Check("tree", State.WARN, f"{found}: the tree is copied for each trial", fix)


def _git() -> Check:
    found = shutil.which("git")
    if found is not None:
        return Check("git", State.OK, found)
    fix = "install git, for revisions and to leave out ignored files"
    return Check("git", State.WARN, "not on PATH", fix)


def _locales() -> Check:
    found = KNOBS["locale"].probe(None).why
    if shutil.which("locale") is None:
        return Check("locales", State.WARN, "no `locale` program", "install the C library's tools")
    return Check("locales", State.OK, found)


def _extras() -> Check:
    there = [name for name, module in EXTRAS.items() if importlib.util.find_spec(module)]
    version = importlib.metadata.version("reproduce-flaky")
    return Check(
        "extras", State.OK, f"reproduce-flaky {version} with {', '.join(there) or 'none'}"
    )
