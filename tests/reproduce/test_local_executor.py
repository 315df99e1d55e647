import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.records import Ending
from reproduce.errors import InfrastructureError, UsageError
from reproduce.executors import local
from reproduce.executors.local import MAX_RESTARTS, LocalExecutor
from reproduce.executors.model import Executor, Lost, Report, World
from reproduce.executors.spool import Spool, read_spool, wait_until_gone
from reproduce.testing.executors import (
    STAYS,
    ExecutorContract,
    gathered,
    order,
    reports,
    wait_until,
)

pytestmark = pytest.mark.slow

ENV = {"PATH": "/usr/bin:/bin"}
CONTAINMENTS = ("pidns", "subreaper")


def shell(text: str, **fields: object) -> World:
    return World(("sh", "-c", text), ENV, 60_000_000)._replace(**fields)


def spools(folder: Path) -> list[Spool]:
    return [read_spool(path) for path in sorted((folder / "spool" / "s").glob("*.spool"))]


def begun(folder: Path) -> set[int]:
    return {number for spool in spools(folder) for number, _ in spool.started}


class LocalContract(ExecutorContract):
    containment = ""

    @pytest.fixture(autouse=True)
    def _remember_the_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def executor(self) -> Executor:
        return LocalExecutor(containment=self.containment)

    def wait_until_begun(self, executor: Executor, *numbers: int) -> None:
        assert isinstance(executor, LocalExecutor)
        folder = self.folder / "spool" / "session"
        wait_until(
            lambda: {
                number for path in folder.glob("*.spool") for number, _ in read_spool(path).started
            }.issuperset(numbers)
        )


class TestInNamespaces(LocalContract):
    containment = "pidns"


class TestWithSubreaper(LocalContract):
    containment = "subreaper"


def test_the_place_says_what_encloses_trials_and_how_trees_are_made_fresh(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    facts = []
    for containment in CONTAINMENTS:
        with LocalExecutor(containment=containment) as executor:
            place = executor.start(
                [shell("exit 0", tree=str(tmp_path / "tree"))],
                slots=1,
                spool=tmp_path / "spool" / containment,
            )
        facts.append(dict(place.facts))

    assert [fact["containment"] for fact in facts] == ["pidns", "subreaper"]
    assert [fact["fresh_tree"] for fact in facts] == ["overlay", "copy"]
    assert list(facts[0]) == sorted(facts[0])


def test_endings_of_a_slot_host_are_those_of_the_ledger(tmp_path: Path) -> None:
    worlds = [
        shell("exit 4"),
        shell("kill -SEGV $$"),
        shell("sleep 60", timeout_us=50_000),
        World(("pytset",), ENV, 1_000_000),
        World(("sh", "-c", "{nowhere}"), ENV, 1_000_000),
    ]
    with LocalExecutor() as executor:
        executor.start(worlds, slots=1, spool=tmp_path / "spool" / "s")
        executor.submit(0, [order(number, number) for number in range(len(worlds))])
        seen = reports(executor, len(worlds))

    assert [(Ending(report.ending), report.code) for report in seen] == [
        (Ending.EXITED, 4),
        (Ending.SIGNALLED, signal.SIGSEGV),
        (Ending.TIME_LIMIT, None),
        (Ending.NOT_STARTED, 2),
        (Ending.SETUP_FAILED, None),
    ]
    assert seen[3].detail == "no such file or directory: `pytset`"
    assert seen[4].detail == "no value for the placeholder `{nowhere}`"


def test_a_single_brace_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with LocalExecutor() as executor, pytest.raises(UsageError, match="single brace"):
        executor.start([shell("echo {")], slots=1, spool=tmp_path / "spool" / "s")

    assert spools(tmp_path) == []


def test_a_slot_host_that_cannot_start_is_an_error_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "world").write_text("in the way", "utf-8")

    with LocalExecutor(containment="subreaper") as executor, pytest.raises(InfrastructureError):
        executor.start([shell("exit 0")], slots=1, spool=tmp_path / "spool" / "s")


def test_the_spool_holds_every_start_and_the_whole_report(tmp_path: Path) -> None:
    with LocalExecutor() as executor:
        executor.start([shell("echo hello; exit 3")], slots=1, spool=tmp_path / "spool" / "s")
        orders = [order(number, attempt=2) for number in range(3)]
        executor.submit(0, orders)
        seen = reports(executor, 3)

    (spool,) = spools(tmp_path)
    assert spool.header is not None
    assert spool.header.session == "s"
    assert list(spool.started.values()) == orders
    assert spool.reports == tuple(seen)
    assert seen[0].stdout.head == b"hello\n"


def test_a_second_start_in_the_same_folder_leaves_the_first_spool_alone(tmp_path: Path) -> None:
    for number in range(2):
        with LocalExecutor() as executor:
            executor.start([shell("exit 0")], slots=1, spool=tmp_path / "spool" / "s")
            executor.submit(0, [order(number)])
            reports(executor, 1)

    assert [list(spool.started) for spool in spools(tmp_path)] == [[(0, 1)], [(1, 1)]]


@pytest.mark.faults
@pytest.mark.parametrize("victim", ["init", "stub"])
@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_killed_slot_host_is_accounted_for_and_replaced(
    tmp_path: Path, containment: str, victim: str
) -> None:
    with LocalExecutor(containment=containment) as executor:
        worlds = [shell("exit 0"), shell("exit 3"), shell("exec sleep 600")]
        executor.start(worlds, slots=1, spool=tmp_path / "spool" / "s")
        executor.submit(0, [order(0), order(1, STAYS), order(2), order(3)])
        wait_until(lambda: 1 in begun(tmp_path))
        header = spools(tmp_path)[0].header
        assert header is not None

        os.kill(getattr(header, victim).pid, signal.SIGKILL)
        first, lost = gathered(executor, 4)
        assert wait_until_gone(header, 0)
        wait_until(lambda: not executor.events(0.01) and list(executor.free()) == [0])
        executor.submit(0, [order(2), order(3)])
        again = reports(executor, 2)

    assert isinstance(first, Report)
    assert isinstance(lost, Lost)
    assert lost.started == (order(1, STAYS),)
    assert lost.returned == (order(2), order(3))
    assert [report.number for report in again] == [2, 3]
    assert len(spools(tmp_path)) == 2


@pytest.mark.faults
def test_a_slot_that_keeps_dying_stays_down_and_gives_back_what_it_gets(tmp_path: Path) -> None:
    with LocalExecutor() as executor:
        executor.start([shell("exec sleep 600")], slots=1, spool=tmp_path / "spool" / "s")
        for number in range(MAX_RESTARTS + 1):
            wait_until(lambda: not executor.events(0.01) and list(executor.free()) == [0])
            executor.submit(0, [order(number)])
            wait_until(lambda number=number: number in begun(tmp_path))
            header = spools(tmp_path)[-1].header
            assert header is not None
            os.kill(header.init.pid, signal.SIGKILL)
            (lost,) = gathered(executor, 1)
            assert isinstance(lost, Lost)
            assert lost.started == (order(number),)

        assert list(executor.free()) == []
        executor.submit(0, [order(99)])
        (refused,) = gathered(executor, 1)

    assert refused == Lost(0, (), (order(99),), "slot 0 is down")


DRIVER = """
import sys
from pathlib import Path
from reproduce.executors.local import LocalExecutor
from reproduce.executors.model import Order, World
executor = LocalExecutor(containment=sys.argv[2])
env = {"PATH": "/usr/bin:/bin"}
world = World(("sh", "-c", sys.argv[3]), env, 600_000_000)
executor.start([world], slots=2, spool=Path(sys.argv[1]) / "spool" / "s")
for slot in range(2):
    executor.submit(slot, [Order(2 * n + slot, n, 0, 1, n) for n in range(1000)])
while True:
    executor.events(1)
"""


def driver(folder: Path, containment: str, command: str) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).parent.parent.parent)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", DRIVER, str(folder), containment, command],
        env=os.environ | {"PYTHONPATH": root},
    )


@pytest.mark.faults
@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_nothing_runs_on_when_the_driver_is_killed_and_the_spools_say_what_did(
    tmp_path: Path, containment: str
) -> None:
    log = tmp_path / "log"
    command = f'echo "$REPRODUCE_TRIAL" >> {log}; [ $REPRODUCE_TRIAL -lt 20 ] || exec sleep 600'

    with driver(tmp_path, containment, command) as process:
        wait_until(lambda: begun(tmp_path).issuperset({20, 21}))
        wait_until(lambda: log.read_text("utf-8").count("\n") == 22)
        process.kill()
        process.wait()
    headers = [spool.header for spool in spools(tmp_path)]
    gone = [header is not None and wait_until_gone(header, 10) for header in headers]

    assert gone == [True, True]
    ran = {int(line) for line in log.read_text("utf-8").split()}
    assert ran == set(range(22))
    assert begun(tmp_path) == ran
    reported = {report.number for spool in spools(tmp_path) for report in spool.reports}
    assert reported == ran - {20, 21}
    assert survivors(f"REPRODUCE_OUT={tmp_path}") == []


def survivors(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            text = path.read_bytes()
        except OSError:
            continue
        if mark.encode() in text:
            found.append(path.parent.name)
    return found


NO_NAMESPACES = """
import os, sys
if "containment=pidns" in sys.argv:
    sys.exit(75)
os.execv(sys.executable, [sys.executable, "-I", "-S", {host!r}, *sys.argv[1:]])
"""


def test_where_namespaces_are_refused_every_slot_falls_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = tmp_path / "refusing.py"
    refusing.write_text(NO_NAMESPACES.format(host=str(local._SLOTHOST)))
    monkeypatch.setattr(local, "_SLOTHOST", refusing)

    with LocalExecutor() as executor:
        case = World(("sh", "-c", "exit 3"), {"PATH": "/usr/bin:/bin"}, 60_000_000)
        place = executor.start([case], slots=3, spool=tmp_path / "spool" / "session")
        for slot in range(3):
            executor.submit(slot, [order(slot)])
        seen = reports(executor, 3)

    assert dict(place.facts)["containment"] == "subreaper"
    assert sorted(report.slot for report in seen) == [0, 1, 2]
    assert {report.code for report in seen} == {3}
