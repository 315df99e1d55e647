import os
import select
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from matrices import Environment
from reproduce.environments import (
    Built,
    build,
    find_python,
    requirements_text,
    verify_environment,
)
from reproduce.environments.steps import run_step
from reproduce.errors import InfrastructureError, IntegrityError, UsageError

SEARCH_PATH = os.environ["PATH"]


def wheel(folder: Path) -> Path:
    """Writes the smallest wheel there is: one module and one command."""
    path = folder / "tiny-1.0-py3-none-any.whl"
    info = "tiny-1.0.dist-info"
    files = {
        "tiny.py": "def main():\n    print('tiny runs')\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ntiny = tiny:main\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return path


class Case(NamedTuple):
    """An environment that two builders asked for at one moment."""

    environment: Environment
    store: Path
    tree: Path
    built: tuple[Built, ...]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("environments")
    tree = folder / "tree"
    tree.mkdir()
    (tree / "source.txt").write_text("x\n")
    (tree / "link").symlink_to("source.txt")
    environment = Environment(
        requirements=f"# the only one\n{wheel(folder)}\n",
        setup=(
            ("sh", "-c", f"echo built >> {folder}/builds; tiny > made.txt; env > env.txt"),
            ("sh", "-c", "sleep 1000 & echo left > second.txt"),
        ),
    )
    store = folder / "store"
    found: list[Built] = []

    def ask() -> None:
        built = build(
            environment, store=store, search_path=SEARCH_PATH, tree=tree, tree_digest="0" * 64
        )
        found.append(built)

    builders = [threading.Thread(target=ask) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    return Case(environment, store, tree, tuple(found))


@pytest.mark.slow
def test_two_builders_of_one_environment_make_it_once(case: Case) -> None:
    first, second = case.built

    assert first == second
    assert (case.store.parent / "builds").read_text() == "built\n"


@pytest.mark.slow
def test_what_was_installed_runs_and_is_listed(case: Case) -> None:
    built = case.built[0]

    ended = subprocess.run([built.bin / "tiny"], capture_output=True, check=True)
    where = subprocess.run(
        [built.python, "-c", "import sys, tiny; print(sys.prefix)"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout == b"tiny runs\n"
    assert where.stdout.strip() == str(built.bin.parent)
    assert "tiny" in built.facts
    assert "pip==" in built.facts


@pytest.mark.slow
def test_set_up_works_in_a_copy_of_the_tree_with_the_environment_first(case: Case) -> None:
    tree = case.built[0].tree
    assert tree is not None

    assert (tree / "made.txt").read_text() == "tiny runs\n"
    assert (tree / "second.txt").read_text() == "left\n"
    assert (tree / "link").is_symlink()
    assert sorted(path.name for path in case.tree.iterdir()) == ["link", "source.txt"]


@pytest.mark.slow
def test_set_up_sees_the_plan_and_not_the_person(case: Case) -> None:
    tree = case.built[0].tree
    assert tree is not None

    lines = (tree / "env.txt").read_text().splitlines()
    variables = dict(line.split("=", 1) for line in lines if "=" in line)

    assert variables["PATH"] == f"{case.built[0].bin}:{SEARCH_PATH}"
    assert variables["HOME"] != os.environ.get("HOME")
    shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    known = {"PATH", "HOME", "TMPDIR", "LANG", "VIRTUAL_ENV", "PIP_CACHE_DIR"}
    rest = variables.keys() - shell - known
    assert all(
        name.upper().startswith(("PIP_", "SSL_", "REQUESTS_")) or "PROXY" in name.upper()
        for name in rest
    ), rest


@pytest.mark.slow
def test_a_built_environment_is_not_built_again(case: Case) -> None:
    again = build(
        case.environment,
        store=case.store,
        search_path=SEARCH_PATH,
        tree=case.tree,
        tree_digest="0" * 64,
    )

    assert again == case.built[0]
    assert (case.store.parent / "builds").read_text() == "built\n"


@pytest.mark.slow
def test_a_finished_environment_that_was_changed_is_found_out(case: Case) -> None:
    built = case.built[0]
    compiled = built.bin.parent / "__pycache__"
    compiled.mkdir()
    (compiled / "x.pyc").write_text("compiled since")
    verify_environment(built)
    shutil.rmtree(compiled)

    for change, undo in (
        (lambda: (built.bin / "tiny2").write_text("x"), (built.bin / "tiny2").unlink),
        (lambda: (built.bin / "tiny").chmod(0o711), lambda: (built.bin / "tiny").chmod(0o755)),
        (lambda: retargeted(built.tree, "made.txt"), lambda: retargeted(built.tree, "source.txt")),
    ):
        change()
        with pytest.raises(IntegrityError, match="is not what was built"):
            verify_environment(built)
        with pytest.raises(IntegrityError, match="is not what was built"):
            build(
                case.environment,
                store=case.store,
                search_path=SEARCH_PATH,
                tree=case.tree,
                tree_digest="0" * 64,
            )
        undo()
        verify_environment(built)


def retargeted(tree: Path | None, target: str) -> None:
    assert tree is not None
    (tree / "link").unlink()
    (tree / "link").symlink_to(target)


@pytest.mark.slow
def test_a_requirement_that_cannot_be_installed_ends_with_what_pip_said(
    case: Case, tmp_path: Path
) -> None:
    pip = (str(case.built[0].python), "-I", "-m", "pip", "install", "--no-index")

    with pytest.raises(InfrastructureError, match="ended with 1") as raised:
        step(tmp_path, *pip, "--disable-pip-version-check", "no-such-project==1.0")

    said = raised.value.message.splitlines()[-1]
    assert said == "ERROR: No matching distribution found for no-such-project==1.0"


def test_an_environment_whose_build_failed_is_not_taken_for_a_finished_one(
    tmp_path: Path,
) -> None:
    python = tmp_path / "python3"
    python.write_text(
        "#!/bin/sh\n"
        f"""test "$3" = -c && echo '["{python}", "CPython", "3.11.2", "linux"]' && exit\n"""
        f"""test "$4" = -c && exit 9\necho "ensurepip is not available"\nexit 1\n"""
    )
    python.chmod(0o755)
    search_path = f"{tmp_path}:{SEARCH_PATH}"

    for _ in range(2):
        with pytest.raises(InfrastructureError, match="ensurepip is not available"):
            build(Environment(requirements="tiny\n"), store=tmp_path, search_path=search_path)

    assert list(tmp_path.glob("*/built.json")) == []


def test_environments_that_cannot_be_stored_are_a_matter_of_infrastructure(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(InfrastructureError, match="cannot be stored"):
        build(Environment(), store=tmp_path / "file" / "store", search_path=SEARCH_PATH)


def test_no_python_on_the_path_is_said_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="no `python3`") as raised:
        find_python(str(tmp_path))

    assert "PATH" in raised.value.hint


def test_a_python_that_does_not_start_is_said(tmp_path: Path) -> None:
    fake = tmp_path / "python3"
    fake.write_text("#!/bin/sh\necho 'broken \033[31mloader' >&2\nexit 3\n")
    fake.chmod(0o755)

    with pytest.raises(InfrastructureError, match=r"does not start: broken  \[31mloader"):
        find_python(f"{tmp_path}:{SEARCH_PATH}")


def test_the_python_of_a_plan_learns_nothing_of_what_the_person_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "python3"
    fake.write_text(f'#!/bin/sh\nenv > {tmp_path}/env\nexec {sys.executable} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.setenv("PYENV_VERSION", "3.11")
    monkeypatch.setenv("HOME", str(tmp_path))

    find_python(f"{tmp_path}:{SEARCH_PATH}")

    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert {"HOME", "PATH", "PYENV_VERSION"} <= names
    shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    assert {name for name in names - shell if not name.startswith(("PYENV_", "ASDF_"))} == {
        "HOME",
        "PATH",
    }


def test_the_python_behind_a_launcher_is_found(tmp_path: Path) -> None:
    launcher = tmp_path / "python3"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    launcher.chmod(0o755)

    found = find_python(f"{tmp_path}:{SEARCH_PATH}")

    assert found.path != launcher
    assert found.version.startswith("CPython 3.")


@pytest.mark.parametrize(
    "line",
    ["-r other.txt", "-rother.txt", "--requirement=o.txt", "-c c.txt", "--constraint c.txt"],
)
def test_requirements_in_other_files_would_not_be_part_of_the_plan(
    line: str, tmp_path: Path
) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text(f"tiny\n{line}\n")

    with pytest.raises(UsageError, match=r"line 2 .* includes another file") as raised:
        requirements_text(path, place="run.requirements")

    assert raised.value.place == "run.requirements"


def test_a_project_installed_in_place_would_escape_the_fresh_tree(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("-e .\n")

    with pytest.raises(UsageError, match="installs a project in place"):
        requirements_text(path, place="run.requirements")


def test_the_text_of_a_requirements_file_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("# why\ntiny==1.0 ; python_version > '3'\n")

    assert requirements_text(path, place="run.requirements") == path.read_text()


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_requirements_file_that_cannot_be_read_is_a_usage_error(
    content: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "requirements.txt"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(UsageError, match="cannot be read"):
        requirements_text(path, place="run.requirements")


def test_a_requirements_file_that_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "zero.txt").symlink_to("/dev/zero")
    (tmp_path / "folder.txt").mkdir()

    for name, said in (("pipe", "regular file"), ("zero", "leads out"), ("folder", "directory")):
        with pytest.raises(UsageError, match=said):
            requirements_text(tmp_path / f"{name}.txt", place="run.requirements")
    with pytest.raises(UsageError, match="regular file"):
        requirements_text(Path("/dev/zero"), place="run.requirements")


def test_a_requirements_file_beyond_a_mebibyte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_bytes(b"#" * 1024**2)
    assert len(requirements_text(path, place="run.requirements")) == 1024**2
    path.write_bytes(b"#" * (1024**2 + 1))

    with pytest.raises(UsageError, match="more than 1048576 bytes"):
        requirements_text(path, place="run.requirements")


def test_a_requirements_file_outside_the_folder_of_the_investigation_is_refused(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret\n")
    (folder / "in.txt").write_text("tiny\n")
    (folder / "out.txt").symlink_to("../secret.txt")
    (folder / "sub" / "in.txt").symlink_to("../in.txt")

    for path in (folder / "out.txt", folder / "../secret.txt", tmp_path / "secret.txt"):
        with pytest.raises(UsageError, match="leads out of the folder"):
            requirements_text(path, place="run.requirements", folder=folder)
    for path in (folder / "out.txt", folder / "../secret.txt"):
        with pytest.raises(UsageError, match="leads out of the folder"):
            requirements_text(path, place="run.requirements")
    for path in (folder / "in.txt", folder / "sub" / "in.txt", folder / "sub/../in.txt"):
        assert requirements_text(path, place="run.requirements", folder=folder) == "tiny\n"


def step(folder: Path, *command: str) -> None:
    variables = {"PATH": SEARCH_PATH}
    run_step(command, what="set-up command", here=folder, variables=variables, log=folder / "log")


def test_a_step_that_ends_badly_says_its_last_lines(tmp_path: Path) -> None:
    script = "for n in $(seq 99); do echo line $n; done; exit 3"

    with pytest.raises(InfrastructureError, match="ended with 3") as raised:
        step(tmp_path, "sh", "-c", script)

    assert raised.value.message.splitlines()[-15:] == [f"line {n}" for n in range(85, 100)]
    assert str(tmp_path / "log") in raised.value.hint


@pytest.mark.parametrize("program", ["no-such-program", "./no-such-program"])
def test_a_step_without_its_program_says_which(program: str, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="no-such-program"):
        step(tmp_path, program)


def test_a_program_of_the_tree_is_found_where_the_step_runs(tmp_path: Path) -> None:
    script = tmp_path / "configure"
    script.write_text("#!/bin/sh\n: > configured\n")
    script.chmod(0o755)

    step(tmp_path, "./configure")

    assert (tmp_path / "configured").exists()


def test_what_a_step_leaves_behind_is_killed(tmp_path: Path) -> None:
    step(tmp_path, "sh", "-c", "sleep 1000 & echo $! > pid")

    pid = int((tmp_path / "pid").read_text())
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([process], [], [], 30)
    os.close(process)
    assert ended
