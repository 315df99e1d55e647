"""Carries out orders on this machine, in one slot host for each slot."""

import marshal
import os
import platform
import select
import struct
import subprocess
import sys
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from reproduce import clock
from reproduce.errors import InfrastructureError
from reproduce.executors.frames import (
    MAX_FRAME_BYTES,
    FrameError,
    order_from,
    report_from,
    text,
)
from reproduce.executors.model import (
    FILE_BYTES,
    HEAD_BYTES,
    TAIL_BYTES,
    Event,
    Lost,
    Order,
    Place,
    Report,
    Returned,
    World,
)
from reproduce.executors.spool import (
    answers,
    boot_id,
    header_from,
    read_spool,
    wait_until_gone,
)
from reproduce.executors.templates import parsed

_FRAME = struct.Struct("<I")
_READ_BYTES = 1 << 20
_SLOTHOST = Path(__file__).with_name("slothost.py")

_NO_NAMESPACES = 75
"""Exit status with which a slot host asks for another containment."""

MAX_RESTARTS = 5
"""A slot that was lost more often stays down: something here kills it."""

_FORGED = "the slot sent a report that it could not have"

_TOKEN_BYTES = 16

_HOME = {"HOME": "{tmp}/home", "TMPDIR": "{tmp}/tmp"}
"""What a trial gets unless the plan names them."""

_OWN = {
    "REPRODUCE_BLOCK": "{block}",
    "REPRODUCE_OUT": "{out}",
    "REPRODUCE_SEED": "{seed}",
    "REPRODUCE_TRIAL": "{trial}",
}

_TOLD = ("containment", "fresh_tree", "limits")
"""What a slot host says of the place."""

_START_S = 30.0
_FLUSH_S = 0.005
"""Orders that a pipe did not take are offered again after so long."""

_END_S = 10.0
"""A process that was killed and lives on for so long waits for a device."""


class _Settings(NamedTuple):
    """What every slot host of one start is told."""

    worlds: bytes
    spool: Path
    world: Path
    world_bytes: int


class _Slot:
    """One slot host and the orders it has."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.spool = Path()
        self.facts: dict[str, Any] | None = None
        self.inbox = bytearray()
        self.outbox = bytearray()
        # A plain `dict` would look for its first key behind all that were struck out before.
        self.orders: OrderedDict[tuple[int, int], Order] = OrderedDict()
        self.window = 1
        self.restarts = 0
        self.recalls = 0
        self.token = b""

    def launch(self, settings: _Settings, containment: str) -> int:
        """Starts the slot host and returns the descriptor that its frames come from."""
        self.spool, log = _unused(settings.spool, self.number)
        self.facts = None
        # Every frame bears it; a trial that reaches the pipe does not know it.
        self.token, self.recalls = os.urandom(_TOKEN_BYTES), 0
        self.inbox = bytearray()
        self.outbox = bytearray(_frame(("token", self.token)) + settings.worlds)
        options = {
            "containment": containment,
            "session": settings.spool.name,
            "slot": self.number,
            "spool": self.spool,
            "world": settings.world,
            "slot_world": settings.world / f"{settings.spool.name}-{self.number}",
            "world_bytes": settings.world_bytes,
        }
        with log.open("wb") as errors:
            self.process = subprocess.Popen(  # noqa: S603 - our own file
                [sys.executable, "-I", "-S", str(_SLOTHOST)]
                + [f"{name}={value}" for name, value in options.items()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={},
                cwd="/",
                bufsize=0,
                start_new_session=True,
            )
        assert self.process.stdin is not None  # noqa: S101 - told to Popen above
        assert self.process.stdout is not None  # noqa: S101
        os.set_blocking(self.process.stdin.fileno(), False)
        self.flush()
        return self.process.stdout.fileno()

    def send(self, *fields: Any) -> None:
        """Queues one frame and sends what the pipe takes."""
        self.outbox += _frame(fields)
        self.flush()

    def flush(self) -> None:
        """Sends what the pipe takes; the end of the slot host is noticed when reading."""
        if self.process is None or self.process.stdin is None:
            return
        try:
            while self.outbox:
                del self.outbox[: os.write(self.process.stdin.fileno(), self.outbox)]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self.outbox.clear()

    def received(self, data: bytes) -> Iterator[Event]:
        """What the slot host says with these bytes and those before.

        Raises:
            FrameError: this slot host cannot say that now.
        """
        self.inbox += data
        while len(self.inbox) >= _FRAME.size:
            (size,) = _FRAME.unpack_from(self.inbox)
            if size > MAX_FRAME_BYTES:
                raise FrameError("a frame beyond every report")
            end = _FRAME.size + size
            if len(self.inbox) < end:
                return
            said = _authentic(bytes(self.inbox[_FRAME.size : end]), self.token)
            del self.inbox[:end]
            yield from self._understood(said)

    def take(self, report: Report) -> None:
        """Strikes out the order that is answered: the first, since they go one after the other.

        Raises:
            FrameError: it is another one's report.
        """
        key = next(iter(self.orders), None)
        if key is None or not answers(report, self.orders[key], self.number):
            raise FrameError("a report of no order, or out of turn")
        del self.orders[key]

    def _understood(self, said: Any) -> Iterator[Event]:
        match said:
            case ("report", fields) if self.facts is not None:
                report = report_from(fields)
                self.take(report)
                yield report
            case ("returned", list(rows)) if self.recalls:
                orders = tuple(order_from(row) for row in rows)
                self._take_back(orders)
                yield Returned(self.number, orders)
            case ("ready", dict(facts)) if self.facts is None:
                if header_from(facts).slot != self.number:
                    raise FrameError("another slot")
                for name in _TOLD:
                    text(facts.get(name))
                self.facts = facts
            case _:
                raise FrameError("nothing that was asked for")

    def _take_back(self, orders: tuple[Order, ...]) -> None:
        """Strikes out what comes back: all that waited then, behind at most the one that ran."""
        held = list(self.orders.values())
        waited = [tuple(held[first : first + len(orders)]) for first in (0, 1)]
        if not orders or orders not in waited:
            raise FrameError("orders that did not wait")
        for order in orders:
            del self.orders[order.number, order.attempt]

    def end(self, *, by_force: bool = False) -> str:
        """Waits until the slot host and all it started are gone; returns what is known of why."""
        process, self.process = self.process, None
        facts, self.facts = self.facts, None
        if process is None:
            return "it was down"
        if by_force:
            process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            status = process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        # A slot with nothing outstanding left no trial to look for, and its spool may be long.
        header = read_spool(self.spool).header if self.orders or facts is None else None
        if facts is not None:
            # Said before any trial ran; a trial may have written to the spool.
            trial = header.trial if header is not None else None
            header = header_from(facts)._replace(trial=trial)
        if header is not None and not wait_until_gone(header, _END_S):
            return f"pid {header.init.pid} does not end"
        log = self.spool.with_suffix(".log")
        last = log.read_text("utf-8", "replace").strip().rpartition("\n")[2]
        if not last:
            log.unlink()
        return f"exit status {status}" + (f": {last}" if last else "")


class LocalExecutor:
    """An `Executor` for this machine; to be used and closed by one thread.

    A slot host that ends unasked is replaced up to `MAX_RESTARTS` times. When `free` names no
    slot and nothing is under way, every slot stays down.
    """

    def __init__(self, *, world: Path | None = None, containment: str = "auto") -> None:
        self._world = world
        self._containment = containment
        self._may_fall_back = containment == "auto"
        self._slots: list[_Slot] = []
        self._by_fd: dict[int, _Slot] = {}
        self._events: deque[Event] = deque()
        self._epoll = select.epoll()
        self._settings: _Settings | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self, worlds: Sequence[World], *, slots: int, spool: Path) -> Place:
        """Makes the slots ready; each keeps a spool of starts and ends in the folder `spool`.

        Raises:
            InfrastructureError: a slot host does not start.
        """
        spool.mkdir(parents=True, exist_ok=True)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._settings = _Settings(
            worlds=_frame(("worlds", [_plain(world) for world in worlds], _limits())),
            spool=spool.resolve(),
            world=(self._world or spool.resolve().parent / "world").resolve(),
            world_bytes=memory // (2 * slots),
        )
        for number in range(slots):
            slot = _Slot(number)
            self._slots.append(slot)
            self._launch(slot)
        deadline_us = clock.monotonic_us() + round(_START_S * 1e6)
        while any(slot.facts is None for slot in self._slots):
            self._turn(0.1)
            if self._events or clock.monotonic_us() > deadline_us:
                why = "; ".join(event.detail for event in self._events if isinstance(event, Lost))
                self.close()
                raise InfrastructureError(
                    f"a slot host does not start: {why or 'it does not answer'}",
                    hint="`reproduce doctor` shows what this machine allows",
                )
        return self._place()

    def free(self) -> Sequence[int]:
        """Slots that have no more to do than half of what they were given last."""
        return [
            slot.number
            for slot in self._slots
            if slot.facts is not None and len(slot.orders) <= slot.window // 2
        ]

    def submit(self, slot: int, orders: Sequence[Order]) -> None:
        """Gives a slot orders to carry out one after the other."""
        taker = self._slots[slot]
        if taker.process is None:
            self._events.append(Lost(slot, (), tuple(orders), f"slot {slot} is down"))
            return
        taker.window = len(orders)
        taker.orders.update(((order.number, order.attempt), order) for order in orders)
        taker.send("run", [(*order[:-1], dict(order.values)) for order in orders])

    def events(self, timeout_s: float) -> Sequence[Event]:
        """What happened since the last call, waiting up to `timeout_s` for something."""
        self._turn(0 if self._events else timeout_s)
        happened = list(self._events)
        self._events.clear()
        return happened

    def recall(self) -> None:
        """Asks every slot to give back what it has not started; running trials go on."""
        self._tell("recall")

    def abort(self) -> None:
        """Kills what runs, which is reported as cancelled, and recalls the rest."""
        self._tell("abort")

    def close(self) -> None:
        """Ends every slot; nothing that a trial started is left."""
        self._tell("quit")
        for slot in self._slots:
            self._forget(slot)
            slot.end()
        self._slots.clear()
        self._epoll.close()

    def _tell(self, word: str) -> None:
        for slot in self._slots:
            slot.recalls += word != "quit"
            slot.send(word)

    def _launch(self, slot: _Slot) -> None:
        assert self._settings is not None  # noqa: S101 - set by `start`
        containment = "subreaper" if self._containment == "subreaper" else "pidns"
        fd = slot.launch(self._settings, containment)
        self._by_fd[fd] = slot
        self._epoll.register(fd, select.EPOLLIN)

    def _forget(self, slot: _Slot) -> None:
        for fd, known in list(self._by_fd.items()):
            if known is slot:
                self._epoll.unregister(fd)
                del self._by_fd[fd]

    def _turn(self, timeout_s: float) -> None:
        if any(slot.outbox for slot in self._slots):
            timeout_s = min(timeout_s, _FLUSH_S)
        for fd, _ in self._epoll.poll(timeout_s):
            slot = self._by_fd[fd]
            data = os.read(fd, _READ_BYTES)
            if not data:
                self._replace(slot)
                continue
            try:
                for event in slot.received(data):
                    self._events.append(event)
            except FrameError:
                self._condemn(slot)
        for slot in self._slots:
            if slot.outbox:
                slot.flush()

    def _replace(self, slot: _Slot) -> None:
        """Accounts for the orders of a slot host that ended, and starts another."""
        self._forget(slot)
        process, was_ready = slot.process, slot.facts is not None
        why = slot.end()
        if not was_ready and process is not None and process.returncode == _NO_NAMESPACES:
            if self._may_fall_back:
                # Every slot was started before the first of them said so.
                self._containment = "subreaper"
                self._launch(slot)
                return
            why = "this kernel or this user may not make namespaces"
        spool = read_spool(slot.spool)
        for report in spool.reports:
            with suppress(FrameError):
                slot.take(report)
                self._events.append(report)
        # Whoever ended the slot may have torn its spool; without that the first one runs no more
        # often than here, where nothing tells that it did not.
        keys = list(slot.orders)
        began = spool.started.keys() | set(keys[:was_ready])
        if was_ready and spool.header is None:
            began = set(keys)
        lost = tuple(order for key, order in slot.orders.items() if key in began)
        unstarted = tuple(order for key, order in slot.orders.items() if key not in began)
        slot.orders.clear()
        self._events.append(Lost(slot.number, lost, unstarted, f"slot {slot.number} ended: {why}"))
        self._launch_again(slot, was_ready=was_ready)

    def _condemn(self, slot: _Slot) -> None:
        """Ends a slot whose word, and whose spool, can be trusted no more."""
        self._forget(slot)
        was_ready = slot.facts is not None
        slot.end(by_force=True)
        lost = tuple(slot.orders.values())
        slot.orders.clear()
        self._events.append(Lost(slot.number, lost, (), _FORGED))
        self._launch_again(slot, was_ready=was_ready)

    def _launch_again(self, slot: _Slot, *, was_ready: bool) -> None:
        if slot.restarts < MAX_RESTARTS and was_ready:
            slot.restarts += 1
            self._launch(slot)

    def _place(self) -> Place:
        ready = [slot.facts for slot in self._slots if slot.facts is not None]
        host = os.uname()
        facts = {
            "containment": ready[0]["containment"],
            "cpus": str(len(os.sched_getaffinity(0))),
            "fresh_tree": ready[0]["fresh_tree"],
            "limits": ready[0]["limits"],
            "host": host.nodename,
            "kernel": f"{host.sysname} {host.release}",
            "machine": host.machine,
            "driver_python": platform.python_version(),
        }
        return Place(tuple(sorted(facts.items())), boot_id())


def _frame(fields: tuple[Any, ...]) -> bytes:
    body = marshal.dumps(fields, 4)
    return _FRAME.pack(len(body)) + body


def _authentic(body: bytes, token: bytes) -> Any:
    """What a frame says, if it begins with what only its slot host knows.

    Raises:
        FrameError: it does not, and is not looked into; or it is damaged.
    """
    if not body.startswith(token):
        raise FrameError("a frame of someone else's")
    try:
        return marshal.loads(body[len(token) :])  # noqa: S302 - our slot host
    except (EOFError, TypeError, ValueError) as error:
        raise FrameError("a damaged frame") from error


def _limits() -> tuple[int, int, int]:
    return HEAD_BYTES, TAIL_BYTES, FILE_BYTES


def _plain(world: World) -> tuple[object, ...]:
    """A world in the types that a frame can carry."""
    argv, env, timeout_us, umask, tree, keep_files, evidence = world
    texts = _HOME | dict(env) | _OWN
    return (
        [parsed(argument) for argument in argv],
        {name: parsed(text) for name, text in texts.items()},
        timeout_us,
        umask,
        tree,
        tuple(keep_files),
        tuple(evidence),
    )


def _unused(folder: Path, slot: int) -> tuple[Path, Path]:
    """The names of a spool that does not exist yet and of the log beside it."""
    generation = 0
    while (path := folder / f"slot-{slot}.{generation}.spool").exists():
        generation += 1
    return path, path.with_suffix(".log")
