"""Carries out one trial after the other, and lets nothing of a trial outlive it.

One small single-threaded process for each concurrency slot, run as
`python3 -I -S slothost.py NAME=VALUE...` with nothing but the standard library and the two files
`slotguard.py` and `slotworld.py` beside it: the same code runs on this machine, inside a node agent and as pid 1 of a container. It is told
what to do in frames on stdin and answers in frames on stdout (u32 length, marshal). It judges
nothing.

Where the kernel allows it is pid 1 of its own PID and mount namespace (`pidns`): nothing can
leave that, and the kernel ends all of it with pid 1. Elsewhere it is the reaper of its
descendants (`subreaper`), and has to find what a trial left. In a container it is pid 1 already.
"""

import errno
import marshal
import os
import resource
import select
import signal
import struct
import sys
import time
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from reproduce.executors.slotguard import (
        NO_NAMESPACES,
        enclose,
        harden,
        identity,
        kill_descendants,
        kill_namespace,
        level_limits,
        make_private,
        slurp,
        spread_pids,
        sweep,
    )
    from reproduce.executors.slotworld import Folders, World, listed, whole
else:
    sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120 - pathlib is slow to import
    from slotguard import (
        NO_NAMESPACES,
        enclose,
        harden,
        identity,
        kill_descendants,
        kill_namespace,
        level_limits,
        make_private,
        slurp,
        spread_pids,
        sweep,
    )
    from slotworld import Folders, World, listed, whole

    del sys.path[0]

Order = tuple[int, int, int, int, int, int, dict[str, str]]
"""As `model.Order`: number, block, condition, attempt, seed, delay_us, values."""

FRAME = struct.Struct("<I")
SPOOLED = struct.Struct("<II")
MARSHAL = 2
"""The last format in which nothing refers to what was read before, as `frames` wants it."""

DETAIL_CHARS = 4096
CUT = "more was left in the output folder than is listed"

CHUNK = 1 << 16
EVIDENCE_BYTES = 4096
REAP_MS = 1000
"""A trial's orphans that ended by themselves are reaped this often, or they would use up pids."""

HOLD_NS = 5_000_000
"""Reports of short trials travel together for so long: waking the driver costs as much as one."""
HOLD_MS = 2
"""A report waits so long for the next trial to end."""
HOLD_BYTES = 1 << 22
"""No trial starts while the driver is behind by more; waiting for it would distort a running one."""

NOTHING = (b"", b"", 0)


def now_us() -> int:
    """Microseconds since the epoch, for the record only."""
    return time.time_ns() // 1000  # noqa: TID251 - nothing of ours can be imported here


class Stream:
    """One output of a trial: the first and the last bytes, and how many there were."""

    def __init__(self) -> None:
        # This process keeps the end for writing open too: a trial that ends then wakes it once,
        # not once more for each stream.
        self.source, self.sink = os.pipe()
        self.head, self.tail, self.size = b"", bytearray(), 0

    def take(self, head_bytes: int, tail_bytes: int) -> None:
        """Reads what is there, which is never nothing."""
        data = os.read(self.source, CHUNK)
        room = head_bytes - len(self.head)
        self.size += len(data)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data[-tail_bytes:]
        if len(self.tail) > tail_bytes:
            del self.tail[:-tail_bytes]

    def close(self) -> tuple[bytes, bytes, int]:
        """Gives up the pipe and returns what was read."""
        os.close(self.source)
        os.close(self.sink)
        return self.head, bytes(self.tail), self.size


class Host:
    """Takes orders from stdin and carries them out."""

    def __init__(self, options: dict[str, str], facts: "dict[str, Any]") -> None:
        containment = options["containment"]
        self.kill = kill_descendants if containment == "subreaper" else kill_namespace
        self.is_shared = containment == "subreaper"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.spool = os.open(options["spool"], flags, 0o600)
        self.folders = Folders(
            options["slot_world" if self.is_shared else "world"],
            mounts=containment == "pidns",
            size=options["world_bytes"],
        )
        self.facts = facts | {"world": self.folders.root}
        self.worlds: list[World] = []
        self.limits = (0, 0, 0)
        self.orders: list[Order] = []
        self.inbox, self.outbox, self.held_since = bytearray(), bytearray(), 0
        self.is_aborted = False
        self.token = b""
        self.null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.poll = select.poll()
        self.poll.register(0, select.POLLIN)
        os.set_blocking(1, False)
        self.default_signals = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}

    def serve(self) -> "NoReturn":
        """Carries out orders until the driver asks for the end or is gone."""
        self.folders.make(None)
        self.folders.clear()
        self.note("header", self.facts)
        while True:
            if not self.orders or len(self.outbox) > HOLD_BYTES:
                if self.poll.poll(HOLD_MS if self.outbox else None):
                    self.listen()
                self.flush()
            elif self.may_start():
                self.is_aborted = False
                report = self.carry_out(self.orders.pop(0))
                self.note("done", report)
                self.send("report", report, may_wait=bool(self.orders))
                self.folders.clear()

    def may_start(self) -> bool:
        """Whether the first order's delay goes by without its being recalled."""
        first = self.orders[0]
        due = time.monotonic_ns() + first[5] * 1000
        while self.orders and self.orders[0] is first:
            left = due - time.monotonic_ns()
            if left <= 0:
                return True
            self.flush()
            if self.poll.poll(-(-left // 1_000_000)):
                self.listen()
        return False

    def listen(self) -> None:
        """Reads and obeys what the driver sent."""
        data = os.read(0, CHUNK)
        if not data:
            self.end()
        self.inbox += data
        while len(self.inbox) >= FRAME.size:
            end = FRAME.size + FRAME.unpack_from(self.inbox)[0]
            if len(self.inbox) < end:
                return
            word, *fields = marshal.loads(bytes(self.inbox[FRAME.size : end]))  # noqa: S302 - ours
            del self.inbox[:end]
            self.obey(word, fields)

    def obey(self, word: str, fields: "list[Any]") -> None:
        """Does what one frame asks for."""
        if word == "run":
            self.orders += fields[0]
        elif word == "token":
            self.token = fields[0]
        elif word == "worlds":
            self.worlds = [World(*world) for world in fields[0]]
            self.limits = fields[1]
            trees = {world.tree for world in self.worlds if world.tree is not None}
            for tree in sorted(trees):
                self.folders.probe(tree)
            fresh = "overlay" if len(trees) == len(self.folders.lower) else "copy"
            self.send("ready", self.facts | {"fresh_tree": fresh if trees else "none"})
        elif word in {"recall", "abort"}:
            self.is_aborted = self.is_aborted or word == "abort"
            if self.orders:
                self.send("returned", self.orders)
                self.orders = []
        elif word == "quit":
            self.end()

    def note(self, *fields: "Any") -> None:
        """Appends a frame to the spool, so that it is whole or can be told to be torn."""
        body = marshal.dumps(fields, MARSHAL)
        left = memoryview(SPOOLED.pack(len(body), zlib.crc32(body)) + body)
        while left:
            left = left[os.write(self.spool, left) :]

    def send(self, *fields: "Any", may_wait: bool = False) -> None:
        """Sends one frame to the driver, at once or with those of the next few milliseconds."""
        body = self.token + marshal.dumps(fields, MARSHAL)
        if not self.outbox:
            self.held_since = time.monotonic_ns()
        self.outbox += FRAME.pack(len(body)) + body
        if not may_wait or time.monotonic_ns() - self.held_since > HOLD_NS:
            self.flush()

    def flush(self) -> None:
        """Sends what was held back, as far as the driver takes it without waiting."""
        done = 0
        try:
            with memoryview(self.outbox) as data:
                while done < len(data):
                    done += os.write(1, data[done:])
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self.end()
        del self.outbox[:done]

    def end(self) -> "NoReturn":
        """Leaves nothing behind."""
        sweep(self.kill)
        self.folders.remove()
        os._exit(0)

    def carry_out(self, order: Order) -> "tuple[Any, ...]":
        """The report of one attempt; its start is in the spool before it begins."""
        number, block, condition, _, seed, _, values = order
        world, folders = self.worlds[condition], self.folders
        own = {"out": folders.out, "tmp": folders.tmp, "knobs": folders.knobs}
        own |= {"seed": str(seed), "trial": str(number), "block": str(block)}
        try:
            argv, env = world.command({**values, **own})
            folders.make(world.tree)
        except (KeyError, OSError) as error:
            self.note("start", order)
            return self.report(order, "setup_failed", None, detail=said(error))
        self.note("start", order)
        streams, started_us, began = (Stream(), Stream()), now_us(), time.monotonic_ns()
        try:
            pid, floor = self.spawn(world, argv, env, streams)
        except (OSError, ValueError) as error:
            captured = streams[0].close(), streams[1].close()
            facts: tuple[Any, ...] = (started_us, 0, 0, None, 0, *captured)
            code = getattr(error, "errno", None) or errno.EINVAL
            return self.report(order, "not_started", code, detail=said(error), facts=facts)
        if self.is_shared:
            self.note("spawned", *identity(str(pid)))
        why, status, usage = self.watch(pid, began + world.timeout_us * 1000, streams)
        duration_us = (time.monotonic_ns() - began) // 1000
        cpu_us = round((usage.ru_utime + usage.ru_stime) * 1e6)
        peak_kb = usage.ru_maxrss if usage.ru_maxrss > floor else None
        leftovers = sweep(self.kill)
        facts = started_us, duration_us, cpu_us, peak_kb, leftovers, *self.drained(streams)
        code = os.waitstatus_to_exitcode(status)
        ending = why or ("signalled" if code < 0 else "exited")
        *left, is_cut = self.left(world)
        code, detail = None if why else abs(code), CUT if is_cut else ""
        return self.report(order, ending, code, facts=facts, left=left, detail=detail)

    def report(
        self,
        order: Order,
        ending: str,
        code: int | None,
        *,
        detail: str = "",
        facts: "tuple[Any, ...] | None" = None,
        left: "Sequence[Any]" = ((), ()),
    ) -> "tuple[Any, ...]":
        """The fields of `model.Report`, in its order."""
        number, block, condition, attempt, seed, _, _ = order
        facts = facts or (now_us(), 0, 0, None, 0, NOTHING, NOTHING)
        slot = self.facts["slot"]
        key = number, attempt, condition, block, seed, slot
        return *key, ending, code, *facts, *left, detail[:DETAIL_CHARS]

    def spawn(
        self, world: World, argv: list[str], env: dict[str, str], streams: tuple[Stream, Stream]
    ) -> tuple[int, int]:
        """The new process, and this one's peak memory, from which the kernel counts the new one's.

        Raises:
            OSError: the command cannot be started.
            ValueError: an argument or a variable holds what the kernel cannot pass on.
        """
        path = world.program(argv[0] if argv else "", env, self.folders.root)
        actions = [(os.POSIX_SPAWN_DUP2, self.null, 0)]
        actions += [(os.POSIX_SPAWN_DUP2, stream.sink, fd) for fd, stream in enumerate(streams, 1)]
        floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        before = os.umask(world.umask)
        try:
            pid = os.posix_spawn(
                path,
                argv,
                env,
                file_actions=actions,
                setpgroup=0,
                setsigmask=(),
                setsigdef=self.default_signals,
            )
        finally:
            os.umask(before)
        return pid, floor

    def watch(
        self, pid: int, deadline: int, streams: tuple[Stream, Stream]
    ) -> tuple[str, int, resource.struct_rusage]:
        """Waits for the end of the main process, or makes it; says why if it was made."""
        pidfd = os.pidfd_open(pid)
        ends = {stream.source: stream for stream in streams}
        for fd in (pidfd, *ends):
            self.poll.register(fd, select.POLLIN)
        why, end = "", None
        while end is None:
            left = REAP_MS if why else -(-(deadline - time.monotonic_ns()) // 1_000_000)
            if self.attend(ends, max(0, min(left, REAP_MS))):
                end = reap(pid)
            if end is None and not why:
                if self.is_aborted:
                    why = "cancelled"
                elif time.monotonic_ns() >= deadline:
                    why = "time_limit"
                if why:
                    self.kill()
        for fd in (pidfd, *ends):
            self.poll.unregister(fd)
        os.close(pidfd)
        return why, *end

    def attend(self, ends: dict[int, Stream], wait_ms: int) -> bool:
        """Serves the pipes and the driver once; whether a process may have ended."""
        ready = self.poll.poll(min(wait_ms, HOLD_MS) if self.outbox else wait_ms)
        for fd, _ in ready:
            if fd in ends:
                ends[fd].take(*self.limits[:2])
            elif fd == 0:
                self.listen()
            else:
                return True
        if not ready and self.outbox:
            self.flush()
        return not ready

    def drained(self, streams: tuple[Stream, Stream]) -> "tuple[Any, Any]":
        """What the streams held, once nothing can write to them any more."""
        poll = select.poll()
        ends = {stream.source: stream for stream in streams}
        for fd in ends:
            poll.register(fd, select.POLLIN)
        while ready := poll.poll(0):
            for fd, _ in ready:
                ends[fd].take(*self.limits[:2])
        return streams[0].close(), streams[1].close()

    def left(self, world: World) -> "tuple[Any, Any, bool]":
        """The files of the output folder, the evidence of the knobs, and whether files miss."""
        files, is_cut = listed(self.folders.out_fd, world.keep_files, self.limits[2])
        found = (
            (name, whole(self.folders.knobs_fd, name, EVIDENCE_BYTES)) for name in world.evidence
        )
        evidence = tuple(
            (name, held[1].decode("utf-8", "replace")) for name, held in found if held and held[1]
        )
        return files, evidence, is_cut


def said(error: Exception) -> str:
    """An error in the words of the kernel, with what it is about."""
    if isinstance(error, KeyError):
        return f"no value for the placeholder `{{{error.args[0]}}}`"
    if not isinstance(error, OSError):
        return str(error).lower()
    name = error.filename
    if isinstance(error, FileNotFoundError) and os.path.exists(name):  # noqa: PTH110
        return f"its interpreter does not exist: `{name}`"
    return str(error.strerror).lower() + (f": `{name}`" if name is not None else "")


def reap(pid: int) -> tuple[int, resource.struct_rusage] | None:
    """How the main process ended if it did; orphans that ended are reaped on the way."""
    while True:
        ended, status, usage = os.wait4(-1, os.WNOHANG)
        if ended == pid:
            return status, usage
        if not ended:
            return None


def main() -> "NoReturn":
    """Encloses this process as it is told, and serves."""
    options = dict(argument.split("=", 1) for argument in sys.argv[1:])
    containment, slot = options["containment"], int(options["slot"])
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o022)
    stub = identity("self") if containment == "container" else enclose(containment)
    facts = {"session": options["session"], "slot": slot, "containment": containment}
    # Read before `/proc` is the namespace's own: it shows this process as it is seen from outside.
    facts |= {"stub": stub, "init": identity("self")}
    facts["limits"] = level_limits()
    facts["boot"] = slurp("/proc/sys/kernel/random/boot_id").decode().strip()
    if containment == "pidns":
        try:
            make_private()
            Folders(options["world"], mounts=True, size=options["world_bytes"]).make(None)
        except OSError:
            os._exit(NO_NAMESPACES)
        spread_pids(slot)
    harden()
    host = Host(options, facts)
    if containment == "subreaper":
        # Sent when the guard dies; dying of it would leave the trial behind.
        signal.signal(signal.SIGTERM, lambda _signal, _frame: host.end())
    host.serve()


if __name__ == "__main__":
    main()
