import marshal
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from reproduce.executors import local
from reproduce.executors.local import LocalExecutor
from reproduce.executors.model import Lost, Order, World
from reproduce.executors.spool import read_spool
from reproduce.testing.executors import gathered, order, reports, wait_until

pytestmark = pytest.mark.slow

CONTAINMENTS = ("pidns", "subreaper")
ENV = {"PATH": "/usr/bin:/bin"}
FORGED = "the slot sent a report that it could not have"

FORGE = """
import ctypes, marshal, os, struct, sys
host = os.getppid()
nothing = (b"", b"", 0)
def report(number):
    key = (number, 1, 0, number, number + 1000, 0)
    return (*key, "exited", 99, 5, 6, 7, None, 0, nothing, nothing, (), (), "")
for token in (b"", bytes(16)):
    for number in range(int(os.environ["REPRODUCE_TRIAL"]), 8):
        body = token + marshal.dumps(("report", report(number)), 2)
        for fd in (1, 4, 5, 6, 7, 8):
            try:
                pipe = os.open(f"/proc/{host}/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                print(fd, error.strerror)
            else:
                print(fd, "OPEN", os.readlink(f"/proc/{host}/fd/{fd}"))
                os.write(pipe, struct.pack("<I", len(body)) + body)
                os.close(pipe)
try:
    os.open(f"/proc/{host}/mem", os.O_RDONLY)
    print("mem OPEN")
except OSError as error:
    print("mem", error.strerror)
libc = ctypes.CDLL(None, use_errno=True)
for request in (16, 0x4206):
    print("ptrace", "OPEN" if libc.ptrace(request, host, 0, 0) == 0 else "refused")
pidfd = os.pidfd_open(host)
print("getfd", "OPEN" if libc.syscall(438, pidfd, 1, 0) >= 0 else "refused")
"""


@pytest.mark.faults
@pytest.mark.parametrize("containment", CONTAINMENTS)
def test_a_trial_reaches_neither_the_pipes_nor_the_memory_of_its_slot_host(
    tmp_path: Path, containment: str
) -> None:
    command = (sys.executable, "-I", "-S", "-c", FORGE.replace("{", "{{").replace("}", "}}"))
    with LocalExecutor(containment=containment) as executor:
        executor.start([World(command, ENV, 60_000_000)], slots=1, spool=tmp_path / "spool" / "s")
        executor.submit(0, [order(number) for number in range(3)])
        seen = reports(executor, 3)

    assert [(report.number, report.ending, report.code) for report in seen] == [
        (number, "exited", 0) for number in range(3)
    ]
    tries = seen[0].stdout.head.decode().splitlines()
    assert len(tries) > 90
    assert [line for line in tries if "OPEN" in line] == []
    assert {line for line in tries if line.startswith("1 ")} == {"1 Permission denied"}


FAKE = """
import marshal, os, struct, sys
sys.path.insert(0, {folder!r})
from slotguard import identity
options = dict(argument.split("=", 1) for argument in sys.argv[1:])
slot = int(options["slot"])
nothing = (b"", b"", 0)
def said():
    head = os.read(0, 4)
    if not head:
        sys.exit()
    return marshal.loads(os.read(0, struct.unpack("<I", head)[0]))
def write(body):
    os.write(1, struct.pack("<I", len(body)) + body)
def send(*fields):
    write(token + marshal.dumps(fields, 2))
def report(order, **changed):
    names = ("number", "block", "condition", "attempt", "seed")
    known = {{**dict(zip(names, order)), "slot": slot, "ending": "exited", "code": 0, **changed}}
    names = ("number", "attempt", "condition", "block", "seed", "slot", "ending", "code")
    key = [known[name] for name in names]
    return (*key, 5, 6, 7, None, 0, nothing, nothing, (), (), "")
facts = {{"session": options["session"], "slot": slot, "containment": "subreaper", "boot": "b"}}
facts |= {{"world": "/nowhere", "stub": identity("self"), "init": identity("self")}}
facts |= {{"limits": "", "fresh_tree": "none"}}
while True:
    word, *fields = said()
    if word == "token":
        token = fields[0]
    elif word == "worlds":
        send("ready", facts)
    elif word == "run":
        orders = fields[0]
        {forge}
        while True:
            said()
"""

FIRST = 'send("report", report(orders[0]));'

FORGERIES = {
    "out of turn": 'send("report", report(orders[1]))',
    "twice": FIRST + 'send("report", report(orders[0]))',
    "of another seed": 'send("report", report(orders[0], seed=1))',
    "of another block": 'send("report", report(orders[0], block=7))',
    "of another condition": 'send("report", report(orders[0], condition=1))',
    "of another attempt": 'send("report", report(orders[0], attempt=2))',
    "of another slot": 'send("report", report(orders[0], slot=1))',
    "of a number as text": 'send("report", report(orders[0], number="0"))',
    "of an ending that is the driver's": 'send("report", report(orders[0], ending="driver_lost"))',
    "with a field too many": 'send("report", (*report(orders[0]), 1))',
    "with another token": 'token = bytes(16); send("report", report(orders[0]))',
    "without a token": 'write(marshal.dumps(("report", report(orders[0])), 2))',
    "that is ready again": 'send("ready", facts)',
    "of another word": 'send("sent", 1)',
    "of nothing": 'write(b"")',
    "of damage": 'write(token + b"u" + bytes([9, 0, 0, 0]))',
    "of noise": 'write(b"noise")',
    "of a list with two thousand million places": 'write(b"[" + bytes([255, 255, 255, 127]))',
    "that is longer than every report": "os.write(1, bytes([255] * 4))",
    "that gives back what nobody asked for": 'send("returned", orders)',
}


def fake(folder: Path, forge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host = folder / "host.py"
    where = str(Path(local.__file__).parent)
    host.write_text(FAKE.format(folder=where, forge=forge), "utf-8")
    monkeypatch.setattr(local, "_SLOTHOST", host)


def answered(executor: LocalExecutor, folder: Path, asked: list[Order]) -> list[Any]:
    world = World(("true",), ENV, 60_000_000)
    executor.start([world], slots=1, spool=folder / "spool" / "s")
    executor.submit(0, asked)
    return gathered(executor, len(asked))


@pytest.mark.faults
@pytest.mark.parametrize("name", FORGERIES)
def test_a_slot_that_says_what_it_cannot_know_loses_all_its_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fake(tmp_path, FORGERIES[name], monkeypatch)
    asked = [order(number) for number in range(3)]

    with LocalExecutor() as executor:
        events = answered(executor, tmp_path, asked)
        wait_until(lambda: not executor.events(0.01) and list(executor.free()) == [0])

    honest = 1 if name == "twice" else 0
    assert [report.number for report in events[:-1]] == list(range(honest))
    assert events[-1] == Lost(0, tuple(asked[honest:]), (), FORGED)


def test_the_slot_host_of_these_cases_is_believed_as_long_as_it_is_honest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, 'for one in orders: send("report", report(one))', monkeypatch)

    with LocalExecutor() as executor:
        events = answered(executor, tmp_path, [order(number) for number in range(3)])

    assert [event.number for event in events] == [0, 1, 2]


def test_orders_come_back_only_as_they_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, 'said(); send("returned", [orders[0], orders[2]])', monkeypatch)
    asked = [order(number) for number in range(3)]
    with LocalExecutor() as executor:
        world = World(("true",), ENV, 60_000_000)
        executor.start([world], slots=1, spool=tmp_path / "spool" / "s")
        executor.submit(0, asked)
        executor.recall()
        events = gathered(executor, 3)

    assert events == [Lost(0, tuple(asked), (), FORGED)]


@pytest.mark.faults
@pytest.mark.parametrize("torn", [0, 400])
def test_a_trial_that_tears_its_spool_and_ends_its_slot_does_not_run_again(
    tmp_path: Path, torn: int
) -> None:
    folder = tmp_path / "spool" / "s"
    text = f"truncate -s {torn} {folder}/slot-0.0.spool; kill -9 $PPID; exec sleep 600"
    asked = [order(number) for number in range(3)]
    with LocalExecutor(containment="subreaper") as executor:
        world = World(("sh", "-c", text), ENV, 60_000_000)
        executor.start([world], slots=1, spool=folder)
        executor.submit(0, asked)
        (lost,) = gathered(executor, 3)

    assert isinstance(lost, Lost)
    assert asked[0] in lost.started
    if torn == 0:
        assert lost.returned == ()


@pytest.mark.faults
def test_a_spool_that_a_trial_forged_gives_no_report_out_of_turn(tmp_path: Path) -> None:
    folder = tmp_path / "spool" / "s"
    path = folder / "slot-0.0.spool"
    key = (2, 1, 0, 2, 1002, 0)
    nothing = (b"", b"", 0)
    done = (*key, "exited", 99, 5, 6, 7, None, 0, nothing, nothing, (), (), "")
    (tmp_path / "forged").write_bytes(
        spooled("start", (2, 2, 0, 1, 1002, 0, {})) + spooled("done", done)
    )
    text = f"cat {tmp_path}/forged >> {path}; kill -9 $PPID; exec sleep 600"
    asked = [order(number) for number in range(3)]
    with LocalExecutor(containment="subreaper") as executor:
        executor.start([World(("sh", "-c", text), ENV, 60_000_000)], slots=1, spool=folder)
        executor.submit(0, asked)
        (lost,) = gathered(executor, 3)

    assert len(read_spool(path).reports) == 1
    assert isinstance(lost, Lost)
    assert lost.started == (asked[0], asked[2])


def spooled(*fields: Any) -> bytes:
    body = marshal.dumps(fields, 2)
    return struct.pack("<II", len(body), zlib.crc32(body)) + body
