"""What each knob does to a program that was made to show it."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from matrices import Setting
from reproduce.executors.local import LocalExecutor
from reproduce.executors.model import Order, Report
from reproduce.knobs import WorldDraft, apply_knobs, knob_evidence, parse_knob

PYTHON = sys.executable


class Ended(NamedTuple):
    code: int
    stdout: str
    missed: tuple[str, ...]
    shown: dict[str, str]


def knob(name: str, value: object) -> Setting:
    return parse_knob(name, value, place="matrix")


def run(
    command: Sequence[str],
    *settings: Setting,
    knobs: Path,
    number: int = 0,
    user: int | None = None,
) -> Ended:
    """Runs a command in the world that the knobs draft for it."""
    draft = WorldDraft(argv=list(command), env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"})
    apply_knobs(settings, draft)
    values = {"knobs": str(knobs), **draft.trial_values(seed=7, number=number)}
    ended = subprocess.run(
        [text.format(**values) for text in draft.argv],
        env={name: text.format(**values) for name, text in draft.env.items()},
        umask=draft.umask,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        cwd=knobs,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    left = {name: knobs / name for name in draft.evidence}
    reported = {name: path.read_text() for name, path in left.items() if path.exists()}
    shown, missed = knob_evidence(settings, reported)
    return Ended(ended.returncode, ended.stdout, missed, {one.name: one.value for one in shown})


def test_env_reaches_the_program(tmp_path: Path) -> None:
    ended = run(["sh", "-c", "echo $WORKERS"], knob("env", {"WORKERS": "8"}), knobs=tmp_path)

    assert ended.stdout == "8\n"


def test_args_reach_the_program(tmp_path: Path) -> None:
    assert run(["echo", "a"], knob("args", ["b", "c d"]), knobs=tmp_path).stdout == "a b c d\n"


def test_hash_seed_orders_sets(tmp_path: Path) -> None:
    command = [PYTHON, "-c", "print(hash('chunk'))"]

    def hashes(value: object) -> list[str]:
        setting = knob("hash_seed", value)
        return [run(command, setting, knobs=tmp_path, number=n).stdout for n in range(3)]

    assert len(set(hashes(5))) == 1
    assert len(set(hashes("per-trial"))) == 3
    assert hashes("per-trial") == hashes("per-trial")


def test_seed_is_what_a_trial_is_given(tmp_path: Path) -> None:
    draft = WorldDraft(argv=["sh", "-c", "echo {seed}"], env={"PATH": os.environ["PATH"]})
    apply_knobs([knob("seed", 42)], draft)
    assert draft.seed is not None

    report = carried_out(draft, tmp_path, seed=draft.seed)

    assert report.stdout.head == b"42\n"


def test_tz_moves_the_clock_of_the_program(tmp_path: Path) -> None:
    command = [PYTHON, "-c", "import time; print(time.localtime(0).tm_hour)"]

    assert run(command, knob("tz", "Asia/Tokyo"), knobs=tmp_path).stdout == "9\n"
    assert run(command, knob("tz", "UTC"), knobs=tmp_path).stdout == "0\n"


def test_locale_changes_the_character_set(tmp_path: Path) -> None:
    assert run(["locale", "charmap"], knob("locale", "C"), knobs=tmp_path).stdout != "UTF-8\n"
    assert (
        run(["locale", "charmap"], knob("locale", "C.UTF-8"), knobs=tmp_path).stdout == "UTF-8\n"
    )


def test_umask_decides_the_permissions_of_new_files(tmp_path: Path) -> None:
    command = ["sh", "-c", "rm -f new; : > new; ls -l new | cut -c1-10"]

    assert run(command, knob("umask", "077"), knobs=tmp_path).stdout == "-rw-------\n"
    assert run(command, knob("umask", "002"), knobs=tmp_path).stdout == "-rw-rw-r--\n"


INTERVAL = [PYTHON, "-c", "import sys; print(sys.getswitchinterval())"]


def test_switch_interval_is_set_and_read_back(tmp_path: Path) -> None:
    ended = run(INTERVAL, knob("switch_interval", "0.000001"), knobs=tmp_path)

    assert ended == Ended(0, "1e-06\n", (), {"switch_interval": "0.000001000"})


def test_switch_interval_reaches_the_programs_that_the_command_starts(tmp_path: Path) -> None:
    code = f"import subprocess; subprocess.run({INTERVAL!r})"

    ended = run([PYTHON, "-c", code], knob("switch_interval", "0.25"), knobs=tmp_path)

    assert ended.stdout == "0.25\n"
    assert ended.missed == ()


@pytest.mark.parametrize("command", [[PYTHON, "-I", "-c", "pass"], ["true"]])
def test_switch_interval_on_a_program_that_does_not_read_it_is_not_applied(
    command: list[str], tmp_path: Path
) -> None:
    ended = run(command, knob("switch_interval", "0.000001"), knobs=tmp_path)

    assert ended.code == 0
    assert ended.missed == ("switch_interval",)


def test_the_sitecustomize_of_the_target_still_runs(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "sitecustomize.py").write_text("import sys; sys.theirs = __file__")
    code = "import sys, sitecustomize; print(sys.theirs == sitecustomize.__file__, sys.path[1:2])"

    ended = run(
        [PYTHON, "-c", code],
        knob("switch_interval", "0.001"),
        knob("env", {"PYTHONPATH": str(tmp_path / "lib")}),
        knobs=tmp_path,
    )

    assert ended.stdout == f"True ['{tmp_path / 'lib'}']\n"
    assert ended.missed == ()


def test_the_module_that_sets_the_interval_leaves_nothing_else_behind(tmp_path: Path) -> None:
    code = "import sys; print([p for p in sys.path if 'preload' in p], 'reproduce' in sys.modules)"

    ended = run([PYTHON, "-c", code], knob("switch_interval", "0.001"), knobs=tmp_path)

    assert ended.stdout == "[] False\n"


def test_too_few_descriptors_make_a_program_fail(tmp_path: Path) -> None:
    command = [PYTHON, "-c", "[open('/dev/null') for _ in range(40)]"]

    tight = run(command, knob("limits", {"nofile": 20}), knobs=tmp_path)
    loose = run(command, knob("limits", {}), knobs=tmp_path)

    assert (tight.code, tight.missed, tight.shown) == (1, (), {"limits": "nofile 20/20"})
    assert (loose.code, loose.missed, loose.shown) == (0, (), {"limits": "none asked for"})


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"as": 512 * 1024**2}, "import mmap; mmap.mmap(-1, 2**30)"),
        ({"fsize": 8192}, "open('big', 'wb', 0).write(bytes(8193)) == 8193 or 1 / 0"),
    ],
)
def test_bytes_beyond_a_limit_are_refused(
    limits: dict[str, int], code: str, tmp_path: Path
) -> None:
    command = [PYTHON, "-c", code]

    assert run(command, knob("limits", {}), knobs=tmp_path).code == 0
    ended = run(command, knob("limits", limits), knobs=tmp_path)

    assert ended.code != 0
    assert ended.missed == ()


def test_a_stack_limit_is_the_one_that_the_program_has(tmp_path: Path) -> None:
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_STACK))"

    ended = run([PYTHON, "-c", code], knob("limits", {"stack": 1024**2}), knobs=tmp_path)

    assert ended.stdout == f"({1024**2}, {1024**2})\n"
    assert ended.shown == {"limits": "stack 1024/1024"}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user may write to and reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_a_limit_of_processes_stops_a_user_from_forking(open_folder: Path) -> None:
    # Root is never limited, so root becomes nobody.
    user = 65534 if os.geteuid() == 0 else None
    command = ["sh", "-c", "(exit 0) && echo forked"]

    loose = run(command, knob("limits", {}), knobs=open_folder, user=user)
    (open_folder / "limits").unlink()
    tight = run(command, knob("limits", {"nproc": 1}), knobs=open_folder, user=user)

    assert loose.stdout == "forked\n"
    assert tight.stdout == ""
    assert tight.missed == ()


def test_a_command_whose_limit_was_refused_does_not_run(open_folder: Path) -> None:
    user = 65534 if os.geteuid() == 0 else None
    lower = knob("limits", {"nofile": 64})
    draft = WorldDraft(argv=["sh", "-c", "echo ran"], env={})
    apply_knobs([knob("limits", {"nofile": 128})], draft)
    # The inner shell asks for more than the outer one has left it.
    nested = [text.format(knobs=open_folder) for text in draft.argv]

    ended = run(nested, lower, knobs=open_folder, user=user)

    assert (ended.code, ended.stdout) == (125, "")


def test_a_shell_in_front_says_127_of_a_command_that_is_not_there(tmp_path: Path) -> None:
    assert run(["no-such-program"], knob("limits", {"nofile": 64}), knobs=tmp_path).code == 127


def carried_out(draft: WorldDraft, folder: Path, *, seed: int) -> Report:
    """What the local executor reports of one trial in a drafted world."""
    world = draft.world(timeout_us=30_000_000, tree=None, keep_files=())
    order = Order(
        number=0,
        block=0,
        condition=0,
        attempt=0,
        seed=seed,
        values=draft.trial_values(seed=7, number=0),
    )
    with LocalExecutor() as executor:
        executor.start([world], slots=1, spool=folder / "spool")
        for slot in executor.free():
            executor.submit(slot, [order])
        for _ in range(300):
            for event in executor.events(0.1):
                assert isinstance(event, Report)
                return event
    raise AssertionError("no report")


def test_the_local_executor_brings_the_evidence_of_every_knob(tmp_path: Path) -> None:
    settings = [
        knob("hash_seed", "per-trial"),
        knob("limits", {"nofile": 64}),
        knob("switch_interval", "0.000001"),
        knob("umask", "077"),
    ]
    code = "import os, sys; print(sys.getswitchinterval(), os.umask(0), hash('a'))"
    draft = WorldDraft(argv=[PYTHON, "-c", code], env={"PATH": os.environ["PATH"]})
    apply_knobs(settings, draft)

    report = carried_out(draft, tmp_path, seed=1)

    assert report.code == 0, report
    assert report.stdout.head.startswith(b"1e-06 63 ")
    shown, missed = knob_evidence(settings, dict(report.evidence))
    assert missed == ()
    assert {one.name for one in shown} == {"limits", "switch_interval"}
