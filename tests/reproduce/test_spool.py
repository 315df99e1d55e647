import marshal
import os
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest

from reproduce.executors.frames import report_from
from reproduce.executors.model import Order
from reproduce.executors.spool import (
    Header,
    Process,
    Spool,
    boot_id,
    read_spool,
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
    body = marshal.dumps(fields, 2)
    return struct.pack("<II", len(body), zlib.crc32(body)) + body


WHOLE = [
    frame("header", FACTS),
    frame("start", START),
    frame("spawned", 20, 21),
    frame("done", DONE),
]


def test_a_spool_tells_who_wrote_it_what_began_and_what_ended(tmp_path: Path) -> None:
    (tmp_path / "slot-1.0.spool").write_bytes(b"".join(WHOLE))

    spool = read_spool(tmp_path / "slot-1.0.spool")

    assert spool.header == Header(
        "s", 1, "b", "subreaper", "/w", Process(10, 11), Process(12, 13), Process(20, 21)
    )
    assert spool.started == {(4, 1): Order(*START)}
    assert spool.reports == (report_from(DONE),)
    assert spool.reports[0].files[0].content == b"ab"
    assert spool.reports[0].stdout.size == 1


def test_a_spool_reads_up_to_its_last_whole_frame_wherever_it_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "slot-1.0.spool"
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
    (tmp_path / "slot-1.0.spool").write_bytes(data)

    spool = read_spool(tmp_path / "slot-1.0.spool")

    assert (len(spool.started), spool.reports) == (1, ())


def read(folder: Path, *frames: bytes, name: str = "slot-1.0.spool") -> Spool:
    (folder / name).write_bytes(b"".join(frames))
    return read_spool(folder / name)


def done(**fields: Any) -> tuple[Any, ...]:
    return report_from(DONE)._replace(**fields)[:13] + DONE[13:]


def test_an_end_counts_only_after_its_start_and_only_once(tmp_path: Path) -> None:
    header, start, _, end = WHOLE
    second = frame("done", done(code=0))

    assert read(tmp_path, header, end).reports == ()
    assert read(tmp_path, header, end, start).reports == ()
    assert read(tmp_path, header, start, end, second).reports == (report_from(DONE),)


@pytest.mark.parametrize("field", ["number", "attempt", "condition", "block", "seed", "slot"])
def test_an_end_of_something_else_than_what_was_started_does_not_count(
    tmp_path: Path, field: str
) -> None:
    other = frame("done", done(**{field: 9}))

    assert read(tmp_path, *WHOLE[:2], other).reports == ()


@pytest.mark.parametrize(
    "stray",
    [
        frame("start", START[:-1]),
        frame("start", (4, 2, 0, 1, 77, 0, 5)),
        frame("start", "xxxxxxx"),
        frame("done", (*DONE[:6], "exited", None, *DONE[8:])),
        frame("done", None),
        frame("done"),
        frame("spawned", "a", 1),
        frame("spawned", 1, 1),
        frame("spawned", 0, 1),
        frame("header", FACTS | {"world": "/elsewhere"}),
        frame(1.5),
        frame(),
        struct.pack("<II", 5, zlib.crc32(b"(\xff\xff\xff\x7f")) + b"(\xff\xff\xff\x7f",
        struct.pack("<II", 1, zlib.crc32(b"N")) + b"N",
    ],
)
def test_a_frame_that_no_slot_host_writes_is_left_out(tmp_path: Path, stray: bytes) -> None:
    spool = read(tmp_path, *WHOLE[:3], stray, WHOLE[3])

    assert spool == read(tmp_path, *WHOLE)
    assert len(spool.reports) == 1


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("slot-2.0.spool", FACTS),
        ("slot-11.0.spool", FACTS),
        ("other.spool", FACTS),
        ("slot-1.0.spool", {**FACTS, "slot": "1"}),
        ("slot-1.0.spool", {**FACTS, "init": (1,)}),
        ("slot-1.0.spool", {**FACTS, "init": (-5, 1)}),
        ("slot-1.0.spool", {"slot": 1}),
        ("slot-1.0.spool", None),
    ],
)
def test_a_header_of_another_slot_or_type_makes_a_spool_worthless(
    tmp_path: Path, name: str, facts: Any
) -> None:
    assert read(tmp_path, frame("header", facts), *WHOLE[1:], name=name) == (None, {}, ())


def test_a_spool_that_became_something_else_than_a_file_reads_as_an_empty_one(
    tmp_path: Path,
) -> None:
    read(tmp_path, *WHOLE)
    os.mkfifo(tmp_path / "slot-1.1.spool")
    (tmp_path / "slot-1.2.spool").symlink_to("slot-1.0.spool")
    (tmp_path / "slot-1.3.spool").mkdir()

    found = {read_spool(tmp_path / f"slot-1.{n}.spool").header for n in range(1, 4)}

    assert found == {None}


def test_holes_and_sizes_beyond_every_report_end_a_spool_at_once(tmp_path: Path) -> None:
    path = tmp_path / "slot-1.0.spool"
    for tail in (b"", struct.pack("<II", 2**32 - 1, 0)):
        whole = read(tmp_path, *WHOLE, tail)
        os.truncate(path, 2**40)

        assert read_spool(path) == whole
        assert len(whole.reports) == 1


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
