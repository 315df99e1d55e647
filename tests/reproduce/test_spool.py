import marshal
import os
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest

from reproduce.executors.model import Order
from reproduce.executors.spool import (
    Header,
    Process,
    boot_id,
    read_spool,
    report_from,
    wait_until_gone,
)
from reproduce.executors.templates import parsed

FACTS = {
    "session": "s",
    "slot": 1,
    "boot": "b",
    "containment": "subreaper",
    "world": "/w",
    "stub": (10, 11),
    "init": (12, 13),
}
START = (4, 2, 0, 1, 77, 0, {"a": "b"})
REPORT = (4, 1, 0, 2, 77, 1, "exited", 3, 5, 6, 7, None, 0, (b"o", b"", 1), (b"", b"", 0))
DONE = (*REPORT, (("junit.xml", 2, b"ab"),), (("tz", "UTC"),), "")


def frame(*fields: Any) -> bytes:
    body = marshal.dumps(fields, 4)
    return struct.pack("<II", len(body), zlib.crc32(body)) + body


WHOLE = [
    frame("header", FACTS),
    frame("start", START),
    frame("spawned", 20, 21),
    frame("done", DONE),
]


def test_a_spool_tells_who_wrote_it_what_began_and_what_ended(tmp_path: Path) -> None:
    (tmp_path / "spool").write_bytes(b"".join(WHOLE))

    spool = read_spool(tmp_path / "spool")

    assert spool.header == Header(
        "s", 1, "b", "subreaper", "/w", Process(10, 11), Process(12, 13), Process(20, 21)
    )
    assert spool.started == {(4, 1): Order(*START)}
    assert spool.reports == (report_from(DONE),)
    assert spool.reports[0].files[0].content == b"ab"
    assert spool.reports[0].stdout.size == 1


def test_a_spool_reads_up_to_its_last_whole_frame_wherever_it_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    data, ends = b"".join(WHOLE), [sum(map(len, WHOLE[: n + 1])) for n in range(4)]

    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        spool = read_spool(path)
        assert (spool.header is not None, len(spool.started), len(spool.reports)) == (
            length >= ends[0],
            int(length >= ends[1]),
            int(length >= ends[3]),
        )


def test_a_damaged_frame_ends_a_spool(tmp_path: Path) -> None:
    data = bytearray(b"".join(WHOLE))
    data[-1] ^= 1
    (tmp_path / "spool").write_bytes(data)

    spool = read_spool(tmp_path / "spool")

    assert (len(spool.started), spool.reports) == (1, ())


def test_an_absent_spool_reads_as_one_in_which_nothing_began(tmp_path: Path) -> None:
    assert read_spool(tmp_path / "none") == (None, {}, ())


def header(pid: int, started: int, **fields: Any) -> Header:
    process = Process(pid, started)
    return Header("s", 0, boot_id(), "pidns", "/w", process, process, None)._replace(**fields)


def started_at(pid: int) -> int:
    line = Path(f"/proc/{pid}/stat").read_text("utf-8")
    return int(line.rpartition(")")[2].split()[19])


def test_a_slot_host_is_gone_when_its_pid_is_another_process_or_another_boot() -> None:
    own, began = os.getpid(), started_at(os.getpid())

    assert not wait_until_gone(header(own, began), 0)
    assert wait_until_gone(header(own, began + 1), 0)
    assert wait_until_gone(header(own, began, boot="another"), 0)


def test_a_process_that_ended_is_gone_before_anyone_reaps_it() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
        began = started_at(process.pid)
        process.kill()

        assert wait_until_gone(header(process.pid, began), 10)


@pytest.mark.faults
def test_a_stale_trial_without_a_namespace_is_killed_with_what_it_started(tmp_path: Path) -> None:
    gone = header(os.getpid(), 0, containment="subreaper", world=str(tmp_path))
    env = {"REPRODUCE_OUT": f"{tmp_path}/out", "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(
        ["/bin/sh", "-c", "setsid sleep 600 & sleep 600 & echo; wait"],
        env=env,
        stdout=subprocess.PIPE,
        process_group=0,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        trial = Process(process.pid, started_at(process.pid))

        assert wait_until_gone(gone._replace(trial=trial), 10)

        process.stdout.read()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("",)),
        ("plain", ("plain",)),
        ("{out}", ("", "out", "")),
        ("a{out}b{seed}c", ("a", "out", "b", "seed", "c")),
        ("{{x}}", ("{x}",)),
        ("{{{x}}}", ("{", "x", "}")),
    ],
)
def test_a_template_is_text_and_names_in_turn(text: str, parts: tuple[str, ...]) -> None:
    assert parsed(text) == parts
