"""What a slot's spool tells whoever comes after a crash."""

import errno
import os
import select
import signal
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reproduce import clock
from reproduce.executors.frames import (
    MAX_FRAME_BYTES,
    FrameError,
    decoded,
    natural,
    order_from,
    report_from,
    text,
)
from reproduce.executors.model import Order, Report

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


def read_spool(path: Path) -> Spool:
    """The content of a spool up to its first torn frame; an absent file reads as an empty one.

    A trial may have written to the file, so nothing is taken from it that a slot host would not
    write: what is of another type, ends without a start, or comes twice, is left out. Without
    its header, which names the slot that the file is named for, it reads as an empty one.
    """
    frames = _frames(path)
    header = _first(next(frames, None), path)
    if header is None:
        return Spool(None, {}, ())
    started: dict[tuple[int, int], Order] = {}
    reports: dict[tuple[int, int], Report] = {}
    for frame in frames:
        try:
            match frame:
                case ("start", fields):
                    order = order_from(fields)
                    started.setdefault((order.number, order.attempt), order)
                case ("spawned", pid, began) if natural(pid) > 1:
                    header = header._replace(trial=_process((pid, began)))
                case ("done", fields):
                    report = report_from(fields)
                    key = (report.number, report.attempt)
                    if key in started and answers(report, started[key], header.slot):
                        reports.setdefault(key, report)
                case _:
                    continue
        except FrameError:
            continue
    return Spool(header, started, tuple(reports.values()))


def answers(report: Report, order: Order, slot: int) -> bool:
    """Whether a report is one of this order, carried out in this slot."""
    return report[:6] == (
        order.number,
        order.attempt,
        order.condition,
        order.block,
        order.seed,
        slot,
    )


def header_from(facts: Any) -> Header:
    """Who a slot host says that it is.

    Raises:
        FrameError: a fact is missing or of another type.
    """
    try:
        return Header(
            session=text(facts["session"]),
            slot=natural(facts["slot"]),
            boot=text(facts["boot"]),
            containment=text(facts["containment"]),
            world=text(facts["world"]),
            stub=_process(facts["stub"]),
            init=_process(facts["init"]),
            trial=None,
        )
    except (KeyError, TypeError) as error:
        raise FrameError("a fact is missing") from error


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


def _frames(path: Path) -> Iterator[tuple[Any, ...]]:
    """The whole frames of a file; one with a value that no slot host writes comes as `()`."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ELOOP, errno.ENXIO}:
            return
        raise
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        return
    with os.fdopen(opened, "rb") as file:
        while len(head := file.read(_FRAME.size)) == _FRAME.size:
            size, checksum = _FRAME.unpack(head)
            if not 0 < size <= MAX_FRAME_BYTES:
                return
            body = file.read(size)
            if len(body) < size or zlib.crc32(body) != checksum:
                return
            try:
                frame = decoded(body)
            except FrameError:
                frame = ()
            yield frame if type(frame) is tuple else ()


def _first(frame: tuple[Any, ...] | None, path: Path) -> Header | None:
    """The header of a file that is named for the same slot."""
    match frame:
        case ("header", facts):
            try:
                header = header_from(facts)
            except FrameError:
                return None
            return header if path.name.startswith(f"slot-{header.slot}.") else None
        case _:
            return None


def _process(fields: Any) -> Process:
    if type(fields) is not tuple or len(fields) != len(Process._fields):
        raise FrameError("not a process")
    return Process(natural(fields[0]), natural(fields[1]))


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
