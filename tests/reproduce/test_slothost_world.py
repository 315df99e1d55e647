import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reproduce.executors.local import LocalExecutor
from reproduce.executors.model import Order, Report, World
from reproduce.testing.executors import order, reports

pytestmark = pytest.mark.slow

CONTAINMENTS = ("pidns", "subreaper")

INTERNAL_SIGNALS = 0b11 << 31
"""32 and 33 belong to the C library, whose `posix_spawn` leaves them ignored for every program."""

LOOK = """
import json, os, sys
umask = os.umask(0)
print(json.dumps({
    "argv": sys.argv[1:],
    "env": dict(os.environ),
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")),
    "stdin": os.readlink("/proc/self/fd/0"),
    "stdout": os.readlink("/proc/self/fd/1").partition(":")[0],
    "is_blocking": os.get_blocking(1),
    "umask": umask,
    "cwd": os.getcwd(),
    "group": os.getpgrp() == os.getpid(),
    "below": {name: sorted(os.listdir(name)) for name in (".", "..", "../tmp", "../out", "../knobs")},
}))
"""


@pytest.fixture(params=CONTAINMENTS)
def executor(request: pytest.FixtureRequest) -> Any:
    with LocalExecutor(containment=request.param) as executor:
        yield executor


def carried_out(
    executor: LocalExecutor, folder: Path, worlds: list[World], orders: list[Order]
) -> list[Report]:
    executor.start(worlds, slots=1, spool=folder / "state" / "spool" / "s")
    executor.submit(0, orders)
    return reports(executor, len(orders))


def python(text: str, *argv: str, **fields: Any) -> World:
    command = (sys.executable, "-I", "-c", text.replace("{", "{{").replace("}", "}}"), *argv)
    return World(command, {}, 60_000_000)._replace(**fields)


def shell(text: str, **fields: Any) -> World:
    return World(("sh", "-c", text), {"PATH": "/usr/bin:/bin"}, 60_000_000)._replace(**fields)


def test_a_trial_sees_what_its_world_declares_and_nothing_else(
    executor: LocalExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_NUM_THREADS", "RAY_ADDRESS", "PYTHONPATH", "PYTHONHASHSEED", "LANG"):
        monkeypatch.setenv(name, "1")
    env = {"LANG": "C.UTF-8", "SEED": "<{seed}>", "BRACES": "{{}}", "WORKERS": "{workers}"}
    world = python(LOOK, "{out}/x", "{trial}", env=env, umask=0o027)
    asked = Order(number=12, block=5, condition=0, attempt=1, seed=77, values={"workers": "8"})

    (report,) = carried_out(executor, tmp_path, [world], [asked])

    assert report.stderr.head == b""
    seen = json.loads(report.stdout.head)
    root = Path(seen["cwd"]).parent
    assert seen["env"] == {
        "LANG": "C.UTF-8",
        "SEED": "<77>",
        "BRACES": "{}",
        "WORKERS": "8",
        "HOME": str(root / "tmp" / "home"),
        "TMPDIR": str(root / "tmp" / "tmp"),
        "REPRODUCE_BLOCK": "5",
        "REPRODUCE_OUT": f"{root}/out",
        "REPRODUCE_SEED": "77",
        "REPRODUCE_TRIAL": "12",
    }
    assert seen["argv"] == [f"{root}/out/x", "12"]
    assert (seen["fds"], seen["stdin"], seen["stdout"]) == ([0, 1, 2], "/dev/null", "pipe")
    assert (seen["is_blocking"], seen["umask"], seen["group"]) == (True, 0o027, True)
    assert root.is_relative_to(tmp_path / "state" / "spool" / "world")
    assert seen["below"] == {
        ".": [],
        "..": ["knobs", "out", "tmp", "work"],
        "../tmp": ["home", "tmp"],
        "../out": [],
        "../knobs": [],
    }


def test_a_trial_blocks_and_ignores_no_signal(executor: LocalExecutor, tmp_path: Path) -> None:
    # Not in Python, which ignores two of its own.
    world = World(("/usr/bin/grep", "Sig[BI]", "/proc/self/status"), {}, 10_000_000)

    (report,) = carried_out(executor, tmp_path, [world], [order(0)])

    masks = dict(line.split(":") for line in report.stdout.head.decode().splitlines())
    assert int(masks["SigBlk"], 16) == 0
    assert int(masks["SigIgn"], 16) & ~INTERNAL_SIGNALS == 0


def test_signals_that_the_driver_ignores_work_in_a_trial(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        seen = carried_out(
            executor,
            tmp_path,
            [shell("kill -USR1 $$"), shell("kill -USR2 $$"), shell("kill -PIPE $$")],
            [order(number, number) for number in range(3)],
        )
    finally:
        signal.signal(signal.SIGUSR1, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    assert [(report.ending, report.code) for report in seen] == [
        ("signalled", signal.SIGUSR1),
        ("signalled", signal.SIGUSR2),
        ("signalled", signal.SIGPIPE),
    ]


def test_a_plan_may_name_home_and_tmpdir_itself(executor: LocalExecutor, tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "TMPDIR": "{out}"}

    (report,) = carried_out(
        executor, tmp_path, [shell('echo "$HOME $TMPDIR $REPRODUCE_OUT"', env=env)], [order(0)]
    )

    home, folder, out = report.stdout.head.decode().split()
    assert home == "/nowhere"
    assert folder == out


def test_a_command_is_looked_up_in_the_path_of_its_world(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "probe").write_text(f"#!/bin/sh\necho {name}\n", "utf-8")
        (tmp_path / name / "probe").chmod(0o755)
    (tmp_path / "one" / "data").write_text("no program", "utf-8")
    (tmp_path / "one" / "lost").write_text("#!/no/such/shell\n", "utf-8")
    (tmp_path / "one" / "lost").chmod(0o755)
    path = {"PATH": f"/nowhere:{tmp_path}/one:{tmp_path}/two"}
    worlds = [
        World(("probe",), path, 10_000_000),
        World(("probe",), {"PATH": f"{tmp_path}/{{which}}"}, 10_000_000),
        World(("./probe",), path, 10_000_000, tree=str(tmp_path / "two")),
        World(("data",), path, 10_000_000),
        World(("lost",), path, 10_000_000),
        World(("sh", "-c", "echo default"), {}, 10_000_000),
        World((), path, 10_000_000),
    ]
    orders = [order(n, n)._replace(values={"which": "two"}) for n in range(len(worlds))]

    seen = carried_out(executor, tmp_path, worlds, orders)

    assert [report.stdout.head for report in seen] == [
        b"one\n",
        b"two\n",
        b"two\n",
        b"",
        b"",
        b"default\n",
        b"",
    ]
    assert [(report.ending, report.code) for report in seen[3:5]] == [
        ("not_started", 13),
        ("not_started", 2),
    ]
    assert seen[3].detail == "permission denied: `data`"
    assert seen[4].detail == f"its interpreter does not exist: `{tmp_path}/one/lost`"
    assert seen[6].ending == "not_started"


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text("utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def test_every_trial_gets_the_tree_as_it_was_and_the_original_stays(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    tree = tmp_path / "a tree, with: odd\\name"
    (tree / "src").mkdir(parents=True)
    (tree / "src" / "kept.txt").write_text("kept", "utf-8")
    (tree / "src" / "gone.txt").write_text("gone", "utf-8")
    (tree / "link").symlink_to("src/kept.txt")
    tree.chmod(0o750)
    before = contents(tree)
    spoil = (
        "stat -c %a .; find . -type f -exec cat {} + | sort; ls -A .. ../*; readlink link;"
        "echo spoilt >> src/kept.txt; rm src/gone.txt; rm -r src; mkdir src; touch src/new;"
        "echo x > ../out/left; echo y > ../tmp/home/left; echo z > ../stray; mkdir ../knobs/k;"
        "chmod 0 ../tmp/tmp src"
    ).replace("{}", "{{}}")

    seen = carried_out(
        executor, tmp_path, [shell(spoil, tree=str(tree))], [order(number) for number in range(3)]
    )

    assert [report.stderr.head for report in seen] == [b""] * 3
    assert seen[0].stdout.head.startswith(b"750\n")
    assert b"spoilt" not in seen[0].stdout.head
    assert {report.stdout for report in seen} == {seen[0].stdout}
    assert contents(tree) == before


def test_what_a_trial_left_is_gone_for_the_next_one_without_a_tree_too(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    text = "ls -A . .. ../tmp/* ../out ../knobs; mkdir -p a/b ../out/c; touch a/b/x ../tmp/tmp/y ../z; chmod 0 a"

    seen = carried_out(executor, tmp_path, [shell(text)], [order(number) for number in range(3)])

    assert {report.stdout for report in seen} == {seen[0].stdout}
    assert [report.stderr.head for report in seen] == [b""] * 3


def test_both_slots_see_the_same_folder_names_where_namespaces_allow_it(tmp_path: Path) -> None:
    with LocalExecutor(containment="pidns") as executor:
        executor.start([shell("pwd; touch x; ls")], slots=2, spool=tmp_path / "spool" / "s")
        executor.submit(0, [order(0)])
        executor.submit(1, [order(1)])
        seen = reports(executor, 2)

    assert {report.stdout.head for report in seen} == {
        f"{tmp_path}/spool/world/work\nx\n".encode()
    }


def test_a_tree_that_is_gone_is_a_failed_set_up_and_says_so(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    world = shell("exit 0", tree=str(tmp_path / "gone"))

    (report,) = carried_out(executor, tmp_path, [world], [order(0)])

    assert (report.ending, report.code) == ("setup_failed", None)
    assert str(tmp_path / "gone") in report.detail


def test_files_in_the_output_folder_are_listed_and_the_wanted_ones_come_whole(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    text = (
        "cd ../out; echo report > junit.xml; mkdir sub; printf 12345 > sub/log; echo no > other;"
        "ln -s /etc/passwd link; ln -s /etc etc; mkfifo pipe; echo more > sub/wanted"
    )
    keep = ("junit.xml", "sub/wanted", "link", "etc/passwd", "pipe", "absent")

    (report,) = carried_out(executor, tmp_path, [shell(text, keep_files=keep)], [order(0)])

    assert {(file.path, file.size, file.content) for file in report.files} == {
        ("junit.xml", 7, b"report\n"),
        ("other", 3, None),
        ("sub/log", 5, None),
        ("sub/wanted", 5, b"more\n"),
    }


def test_a_flood_of_files_is_listed_in_part_but_never_without_the_wanted_one(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    text = "import os\nfor n in range(1500): open(f'../out/{n:04}', 'w').close()\n"
    text += "open('../out/wanted', 'w').write('x')"

    (report,) = carried_out(executor, tmp_path, [python(text, keep_files=("wanted",))], [order(0)])

    assert len(report.files) == 1001
    assert report.files[-1] == ("wanted", 1, b"x")


CUT = "more was left in the output folder than is listed"


def test_a_listing_that_is_whole_says_nothing_of_it(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    (report,) = carried_out(executor, tmp_path, [shell("touch ../out/x")], [order(0)])

    assert (len(report.files), report.detail) == (1, "")


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("for n in range(1500): open(f'{out}/{n:04}', 'w').close()", 1000),
        ("for n in range(300): open(f'{out}/{n:0250}', 'w').close()", 262),
        ("os.makedirs(out + '/d' * 60); open(out + '/d' * 60 + '/x', 'w').close()", 0),
        ("for n in range(1500): os.makedirs(f'{out}/{n:04}')", 0),
    ],
)
def test_a_listing_that_is_cut_says_so(
    executor: LocalExecutor, tmp_path: Path, text: str, most: int
) -> None:
    world = python(f"import os\nout = '../out'\n{text}")

    (report,) = carried_out(executor, tmp_path, [world], [order(0)])

    assert (report.ending, report.code, report.detail) == ("exited", 0, CUT)
    assert len(report.files) == most


def test_a_path_of_any_length_and_a_size_of_holes_fit_a_record(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    deep = "/".join(["é" * 100] * 4)
    text = f"mkdir -p ../out/{deep}; touch ../out/{deep}/x; cd ../out; truncate -s 7E huge || :"

    (report,) = carried_out(executor, tmp_path, [shell(text, keep_files=("huge",))], [order(0)])

    path = next(file.path for file in report.files if file.path != "huge")
    assert len(path.encode()) <= 512
    assert path.startswith("éé")
    assert path.endswith("[cut]")
    assert all(file.size < 2**53 for file in report.files)


@pytest.mark.faults
def test_a_link_in_the_place_of_a_folder_of_ours_leads_nowhere(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    (tmp_path / "secret").mkdir(mode=0o750)
    (tmp_path / "secret" / "junit.xml").write_text("secret", "utf-8")
    (tmp_path / "secret" / "sub").mkdir(mode=0o750)
    there = f"{tmp_path}/secret"
    texts = [
        f"cd ..; mv out old; ln -s {there} out; echo mine > old/junit.xml",
        f"cd ..; rm -r out; ln -s {there} out",
        f"cd ..; rm -r knobs; ln -s {there} knobs",
        f"cd ../out; ln -s {there} sub",
        f"root=$(dirname $PWD); cd ../..; mv $root gone || exit 0; ln -s {there} $root",
        "echo mine > ../out/junit.xml",
    ]
    worlds = [
        shell(text, keep_files=("junit.xml", "sub/junit.xml"), evidence=("junit.xml",))
        for text in texts
    ]

    seen = carried_out(executor, tmp_path, worlds, [order(n, n) for n in range(len(texts))])

    contents = [{file.content for file in report.files} for report in seen]
    assert contents == [{b"mine\n"}, set(), set(), set(), set(), {b"mine\n"}]
    assert [report.evidence for report in seen] == [()] * len(texts)
    assert (tmp_path / "secret" / "junit.xml").read_text("utf-8") == "secret"
    assert (tmp_path / "secret" / "sub").stat().st_mode & 0o777 == 0o750


LIMITS = """
import os, resource
names = ("core", "nofile", "stack", "cpu", "fsize")
print(*(resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[0] for name in names))
print(os.getpriority(os.PRIO_PROCESS, 0))
"""

CALLER = """
import os, resource, sys
from pathlib import Path
from reproduce.executors.local import LocalExecutor
from reproduce.executors.model import World
from reproduce.testing.executors import order, reports
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (77, hard))
resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
os.nice(5)
world = World((sys.executable, "-I", "-c", sys.argv[2]), {}, 60_000_000)
with LocalExecutor(containment=sys.argv[3]) as executor:
    place = executor.start([world], slots=1, spool=Path(sys.argv[1]) / "spool" / "s")
    executor.submit(0, [order(0)])
    print(reports(executor, 1)[0].stdout.head.decode().strip())
print(dict(place.facts)["limits"])
"""


@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_limits_of_the_caller_do_not_reach_a_trial_or_are_said(
    tmp_path: Path, containment: str
) -> None:
    text = LIMITS.replace("{", "{{").replace("}", "}}")
    ended = subprocess.run(
        [sys.executable, "-P", "-c", CALLER, str(tmp_path), text, containment],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent.parent)},
        capture_output=True,
        check=True,
        text=True,
    )

    limits, nice, said = ended.stdout.splitlines()
    assert limits == f"0 1024 {8 << 20} -1 {1 << 30}"
    assert nice == ("0" if os.geteuid() == 0 else "5")
    facts = dict(fact.split("=") for fact in said.split())
    assert (facts["core"], facts["nice"], facts["fsize"]) == ("0", nice, str(1 << 30))
    assert facts["nofile"].split(":")[0] == "1024"


def test_a_wanted_file_beyond_the_limit_comes_with_its_size_alone(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    world = shell("head -c 16777217 /dev/zero > ../out/big", keep_files=("big",))

    (report,) = carried_out(executor, tmp_path, [world], [order(0)])

    assert report.files == (("big", 16777217, None),)


def test_wanted_files_together_stay_within_what_a_report_may_hold(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    names = tuple(f"file{n}" for n in range(5))
    text = f"cd ../out; for name in {' '.join(names)}; do truncate -s 16M $name; done"

    (report,) = carried_out(executor, tmp_path, [shell(text, keep_files=names)], [order(0)])

    assert [file.content is None for file in report.files] == [False] * 4 + [True]
    assert {file.size for file in report.files} == {1 << 24}


def test_evidence_of_knobs_is_read_from_their_folder(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    text = "echo UTC > {knobs}/tz; printf '\\377' > {knobs}/odd; ln -s /etc/passwd {knobs}/link"
    world = shell(text, evidence=("tz", "absent", "odd", "link"))

    (report,) = carried_out(executor, tmp_path, [world], [order(0)])

    assert report.evidence == (("tz", "UTC\n"), ("odd", "\ufffd"))
    assert report.files == ()


DROP_RIGHTS = """
import ctypes, sys
from pathlib import Path
from reproduce.executors.local import LocalExecutor
from reproduce.executors.model import World
from reproduce.testing.executors import order, reports
PR_CAPBSET_DROP, CAP_SYS_ADMIN = 24, 21
ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0)
text = "rm -r src && mkdir src && touch src/new && ls src && grep CapEff /proc/self/status"
world = World(("sh", "-c", text), {"PATH": "/usr/bin:/bin"}, 10_000_000, tree=sys.argv[2])
with LocalExecutor(containment="pidns") as executor:
    place = executor.start([world], slots=1, spool=Path(sys.argv[1]) / "spool" / "s")
    executor.submit(0, [order(0)])
    print(dict(place.facts)["fresh_tree"], *reports(executor, 1)[0].stdout.head.decode().split())
"""


def test_namespaces_and_overlays_work_without_the_rights_of_an_administrator(
    tmp_path: Path,
) -> None:
    (tmp_path / "tree" / "src").mkdir(parents=True)
    (tmp_path / "tree" / "src" / "old").write_text("old", "utf-8")

    ended = subprocess.run(
        [sys.executable, "-P", "-c", DROP_RIGHTS, str(tmp_path), str(tmp_path / "tree")],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent.parent)},
        capture_output=True,
        check=True,
        text=True,
    )

    fresh, new, *_ = ended.stdout.split()
    assert (fresh, new) == ("overlay", "new")
    assert contents(tmp_path / "tree") == {"src/old": "old"}


LOAD = """
import sys
path = sys.argv[1]
exec(compile(open(path).read(), path, "exec"), {"__name__": "loaded", "__file__": path})
print(*sys.modules)
"""


def test_a_slot_host_loads_nothing_of_ours_and_nothing_large() -> None:
    path = Path(__file__).parent.parent.parent / "reproduce" / "executors" / "slothost.py"

    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOAD, str(path)],
        capture_output=True,
        check=True,
        text=True,
    )

    loaded = set(ended.stdout.split())
    assert {"slotguard", "slotworld"} <= loaded
    assert loaded.isdisjoint({"reproduce", "typing", "pathlib", "re", "shutil", "subprocess"})
