"""Each case starts a real interpreter in a folder that holds somebody else's package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reproduce import _origin
from reproduce._origin import PACKAGES

CONSOLE_SCRIPT = str(Path(sys.executable).with_name("reproduce"))
ORIGIN = Path(_origin.__file__)
INTEGRITY = 6

FOREIGN_CODE = """
import pathlib
pathlib.Path(__file__).with_name("it-ran").touch()
"""


@pytest.fixture(params=["matrices", "ledger", "policies"])
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Returns a package that leaves a file beside itself when it runs."""
    package = tmp_path / request.param
    package.mkdir()
    (package / "__init__.py").write_text(FOREIGN_CODE)
    return package


def start(cwd: Path, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(
        argv,
        cwd=cwd,
        env=env | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def assert_refused(ended: subprocess.CompletedProcess[str], foreign: Path) -> None:
    assert ended.returncode == INTEGRITY, ended.stderr
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"error: `{foreign.name}` would be loaded from `{foreign}`")
    assert "\nhint: " in ended.stderr
    assert not (foreign / "it-ran").exists()


@pytest.mark.parametrize("argv", [("-m", "reproduce", "--help"), ("-c", "import reproduce")])
def test_a_foreign_package_in_the_working_directory_is_refused_and_never_runs(
    foreign: Path, argv: tuple[str, ...]
) -> None:
    ended = start(foreign.parent, sys.executable, *argv)

    assert_refused(ended, foreign)


@pytest.mark.parametrize(
    "argv",
    [
        (CONSOLE_SCRIPT, "--help"),
        (sys.executable, "-P", "-m", "reproduce", "--help"),
        (sys.executable, "-P", "-c", "import reproduce"),
    ],
)
def test_a_foreign_package_on_pythonpath_is_refused_and_never_runs(
    foreign: Path, argv: tuple[str, ...]
) -> None:
    ended = start(foreign.parent, *argv, PYTHONPATH=".")

    assert_refused(ended, foreign)


@pytest.mark.parametrize(
    "argv",
    [(CONSOLE_SCRIPT, "--help"), (sys.executable, "-P", "-m", "reproduce", "--help")],
)
def test_the_command_works_beside_a_foreign_package_that_python_would_not_import(
    foreign: Path, argv: tuple[str, ...]
) -> None:
    ended = start(foreign.parent, *argv)

    assert ended.returncode == 0, ended.stderr
    assert not (foreign / "it-ran").exists()


@pytest.mark.parametrize(
    "argv",
    [(CONSOLE_SCRIPT, "version"), (sys.executable, "-m", "reproduce", "version")],
    ids=["script", "module"],
)
@pytest.mark.parametrize("search", [".", "", ":", "lib", "lib:."])
def test_the_command_takes_no_library_from_the_folder_that_it_works_on(
    argv: tuple[str, ...], search: str, tmp_path: Path
) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("typer", "pydantic", "orjson", "json", "sqlalchemy"):
        for folder in (tmp_path, tmp_path / "lib"):
            (folder / f"{name}.py").write_text(FOREIGN_CODE)

    ended = start(tmp_path, *argv, PYTHONPATH=search)

    assert ended.returncode == 0, ended.stderr
    assert not list(tmp_path.rglob("it-ran"))


def test_the_command_starts_as_a_module_in_its_own_source_tree() -> None:
    ended = start(ORIGIN.parent.parent, sys.executable, "-m", "reproduce", "version")

    assert ended.returncode == 0, ended.stderr


def test_a_program_that_imports_us_keeps_its_search_path(tmp_path: Path) -> None:
    script = "import sys, reproduce; print('' in sys.path)"

    ended = start(tmp_path, sys.executable, "-c", script)

    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr


def test_a_single_file_with_one_of_our_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ledger.py").write_text(FOREIGN_CODE)

    ended = start(tmp_path, sys.executable, "-c", "import reproduce")

    assert ended.returncode == INTEGRITY
    assert "`ledger` is not a package of this installation" in ended.stderr
    assert not (tmp_path / "it-ran").exists()


def test_a_folder_without_code_shadows_nothing(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()

    ended = start(tmp_path, sys.executable, "-c", "import reproduce")

    assert ended.returncode == 0, ended.stderr


def test_a_foreign_package_that_was_imported_earlier_is_refused(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "__init__.py").touch()
    script = (
        "import sys; sys.path.insert(0, '.'); import policies; sys.path.pop(0); import reproduce"
    )

    ended = start(tmp_path, sys.executable, "-P", "-c", script)

    assert ended.returncode == INTEGRITY
    assert f"`policies` would be loaded from `{tmp_path / 'policies'}`" in ended.stderr


def test_a_module_made_by_hand_under_one_of_our_names_is_refused(tmp_path: Path) -> None:
    script = "import sys, types; sys.modules['ledger'] = types.ModuleType('ledger'); "

    ended = start(tmp_path, sys.executable, "-P", "-c", script + "import reproduce")

    assert ended.returncode == INTEGRITY
    assert "`ledger` is not a package of this installation" in ended.stderr


@pytest.mark.parametrize("first", ["", "import policies; "])
def test_a_package_of_ours_without_its_code_is_refused(tmp_path: Path, first: str) -> None:
    # Python would stitch such a folder together with others of its name.
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "policies" / "__init__.py").unlink()
    for name in ("__init__.py", "_origin.py"):
        shutil.copy(ORIGIN.with_name(name), tmp_path / "reproduce" / name)

    # Without `site`, so that the real installation is not found in its place.
    ended = start(tmp_path, sys.executable, "-S", "-c", f"{first}import reproduce")

    assert ended.returncode == INTEGRITY, ended.stderr
    assert "`policies` is not a package of this installation" in ended.stderr


def test_a_package_of_ours_that_was_given_a_second_folder_is_refused(tmp_path: Path) -> None:
    script = f"import policies; policies.__path__.append({str(tmp_path)!r}); import reproduce"

    ended = start(tmp_path, sys.executable, "-P", "-c", script)

    assert ended.returncode == INTEGRITY, ended.stderr
    assert "`policies` is not a package of this installation" in ended.stderr


def test_a_late_import_is_ours_although_the_working_directory_changed(foreign: Path) -> None:
    script = (
        "import sys, os, reproduce; "
        f"[sys.modules.pop(name, None) for name in {PACKAGES[:3]}]; "
        f"os.chdir({str(foreign.parent)!r}); sys.path.insert(0, ''); import {foreign.name}; "
        f"print({foreign.name}.__file__)"
    )

    ended = start(Path("/"), sys.executable, "-c", script)

    assert ended.returncode == 0, ended.stderr
    assert str(foreign) not in ended.stdout
    assert not (foreign / "it-ran").exists()


def test_a_library_that_imports_us_may_catch_the_error(tmp_path: Path) -> None:
    (tmp_path / "policies.py").touch()
    script = "try:\n import reproduce\nexcept ImportError as error:\n print(type(error).__name__)"

    ended = start(tmp_path, sys.executable, "-c", script)

    assert (ended.returncode, ended.stdout) == (0, "ForeignPackageError\n")


def test_other_errors_keep_their_trace_after_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "policies.py").touch()
    script = "try:\n import reproduce\nexcept ImportError:\n pass\n1 / 0"

    ended = start(tmp_path, sys.executable, "-c", script)

    assert ended.returncode == 1
    assert "Traceback" in ended.stderr
    assert "ZeroDivisionError" in ended.stderr
