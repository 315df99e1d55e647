"""What a slot's spool tells whoever comes after a crash."""

import marshal
import os
import select
import signal
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reproduce import clock
from reproduce.executors.model import Captured, KeptFile, Order, Report

_FRAME = struct.Struct("<II")
_ENDED = frozenset("ZX")
"""States in `/proc/PID/stat` of a process that runs no more."""


class Process(NamedTuple):
    """A process by its pid and its start, which no other process of one boot shares."""

    pid: int
    started: int


class Header(NamedTuple):
    """Who wrote a spool, and in which boot of the machine."""

    session: str
    slot: int
    boot: str
    containment: str
    world: str
    stub: Process
    init: Process
    trial: Process | None
    """The last trial's process, where no namespace ends it."""


class Spool(NamedTuple):
    """The attempts of one slot host, by number and attempt; both in the order of their time."""

    header: Header | None
    """`None` if the slot host did not come to write it; then nothing started."""
    started: Mapping[tuple[int, int], Order]
    """Every attempt that began, also those with a report."""
    reports: tuple[Report, ...]


def report_from(fields: tuple[Any, ...]) -> Report:
    """The report that a slot host sent or spooled."""
    *plain, stdout, stderr, files, evidence, detail = fields
    return Report(
        *plain,  # type: ignore[call-arg]  # thirteen of them
        Captured(*stdout),
        Captured(*stderr),
        tuple(KeptFile(*file) for file in files) if files else (),
        evidence,
        detail,
    )


def read_spool(path: Path) -> Spool:
    """The content of a spool up to its first torn frame; an absent file reads as an empty one."""
    header: Header | None = None
    started: dict[tuple[int, int], Order] = {}
    reports: list[Report] = []
    for kind, *fields in _frames(path.read_bytes() if path.exists() else b""):
        match kind:
            case "header":
                header = _header(fields[0])
            case "start":
                order = Order(*fields[0])
                started[order.number, order.attempt] = order
            case "spawned" if header is not None:
                header = header._replace(trial=Process(*fields))
            case "done":
                reports.append(report_from(fields[0]))
            case _:
                break
    return Spool(header, started, tuple(reports))


def wait_until_gone(header: Header, timeout_s: float) -> bool:
    """Whether nothing of the slot host and its trials runs any more, waiting up to `timeout_s`.

    A process of another boot is gone. Without a namespace, what a trial left is killed here.
    """
    if header.boot != boot_id():
        return True
    deadline_us = clock.monotonic_us() + round(timeout_s * 1e6)
    for process in (header.stub, header.init):
        if not _wait(process, deadline_us):
            return False
    if header.containment == "pidns":
        return True
    return all(_kill(process, deadline_us) for process in _stale(header))


def boot_id() -> str:
    """The kernel's name for this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def _frames(data: bytes) -> Iterator[tuple[Any, ...]]:
    at = 0
    while at + _FRAME.size <= len(data):
        size, checksum = _FRAME.unpack_from(data, at)
        body = data[at + _FRAME.size : at + _FRAME.size + size]
        if len(body) < size or zlib.crc32(body) != checksum:
            return
        yield marshal.loads(body)  # noqa: S302 - written by our own slot host
        at += _FRAME.size + size


def _header(facts: Mapping[str, Any]) -> Header:
    return Header(
        session=facts["session"],
        slot=facts["slot"],
        boot=facts["boot"],
        containment=facts["containment"],
        world=facts["world"],
        stub=Process(*facts["stub"]),
        init=Process(*facts["init"]),
        trial=None,
    )


def _is_running(process: Process) -> bool:
    try:
        line = Path(f"/proc/{process.pid}/stat").read_bytes()
    except OSError:
        return False
    state, *rest = line[line.rindex(b")") + 2 :].decode("ascii").split()
    # The start is the 22nd field; the state is the third.
    return state not in _ENDED and int(rest[18]) == process.started


def _wait(process: Process, deadline_us: int) -> bool:
    """Whether a process has ended by the deadline."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        # Asked after the descriptor is open: it names this very process or a later one.
        while _is_running(process):
            left_us = deadline_us - clock.monotonic_us()
            if left_us <= 0:
                return False
            poll.poll(-(-left_us // 1000))
        return True
    finally:
        os.close(pidfd)


def _kill(process: Process, deadline_us: int) -> bool:
    if _is_running(process):
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return True
    return _wait(process, deadline_us)


def _stale(header: Header) -> Iterator[Process]:
    """What is left of the last trial: its process group, and all that carry its environment."""
    mark = f"REPRODUCE_OUT={header.world}/out\0".encode()
    group = header.trial.pid if header.trial and _is_running(header.trial) else None
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            line = (folder / "stat").read_bytes()
            has_mark = mark in (folder / "environ").read_bytes()
        except OSError:
            continue
        fields = line[line.rindex(b")") + 2 :].split()
        if has_mark or int(fields[2]) == group:
            yield Process(int(folder.name), int(fields[19]))
