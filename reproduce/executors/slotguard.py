"""Encloses what a slot host starts, and kills what is left of it.

Standard library only, like `slothost.py`, which loads this file from its own folder.
"""

import ctypes
import os
import resource
import select
import signal

# Not imported: `typing` would double the memory of a slot host.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

NO_NAMESPACES = 75
"""Exit status that asks for another containment: this kernel or this user may not have ours."""

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PR_SET_DUMPABLE, PR_CAPBSET_DROP, CAP_SYS_PTRACE = 4, 24, 19
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 2, 4, 0x4000, 0x40000
MNT_DETACH = 2

LIMITS = ("as", "core", "cpu", "data", "fsize", "memlock", "nofile", "nproc", "rss", "stack")
SOFT = {"core": 0, "nofile": 1024, "stack": 8 << 20}
"""Where a login starts; every other limit is as high as it may be."""

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    """Raises OSError if a C call says that it did not work."""
    if result:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)


def mount(kind: str, target: str, data: str = "") -> None:
    """Mounts a file system of a kind on a folder."""
    name, where, flags = kind.encode(), os.fsencode(target), MS_NOSUID | MS_NODEV
    check(libc.mount(name, where, name, ctypes.c_ulong(flags), os.fsencode(data)), target)


def unmount(target: str) -> None:
    """Takes a mount and those within it out of sight; they end with their last user."""
    check(libc.umount2(os.fsencode(target), MNT_DETACH), target)


def make_private() -> None:
    """Keeps every later mount within this namespace, whose processes get a `/proc` of their own."""
    check(libc.mount(None, b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None), "/")
    mount("proc", "/proc")


def slurp(path: str) -> bytes:
    """The content of a file of the kernel's."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 1 << 20)
    finally:
        os.close(fd)


def put(path: str, text: str) -> None:
    """Writes to a file of the kernel's."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def identity(pid: str) -> tuple[int, int]:
    """A process by its pid and its start, as `/proc` shows them: the first and the 22nd field."""
    line = slurp(f"/proc/{pid}/stat")
    return int(line.split(b" ", 1)[0]), int(line[line.rindex(b")") + 2 :].split()[19])


def kill_namespace() -> bool:
    """Kills every process of this PID namespace but pid 1; whether there was any."""
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def kill_descendants() -> bool:
    """Kills what can be found below this process; whether there was any.

    What is forked meanwhile is missed: ask again until no child is left.
    """
    found = False
    for pid in descendants():
        found = True
        try:  # noqa: SIM105 - contextlib takes longer to import than a trial to start
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return found


def descendants() -> "Iterator[int]":
    """Processes below this one, parents first; some may be gone and others new by now."""
    waiting = [os.getpid()]
    while waiting:
        parent = waiting.pop()
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):  # noqa: PTH208
                for child in slurp(f"/proc/{parent}/task/{thread}/children").split():
                    waiting.append(int(child))
                    yield int(child)
        except OSError:
            pass


def sweep(kill: "Callable[[], bool]") -> int:
    """Kills and reaps until nothing of the trial is left; returns how many had to be killed.

    An orphan becomes a child of this process, so no children means that nothing is left.
    """
    killed, flags = 0, os.WNOHANG
    while True:
        try:
            pid, status = os.waitpid(-1, flags)
        except ChildProcessError:
            return killed
        if pid:
            killed += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            flags = os.WNOHANG
        # Waiting is safe only for what was killed: a process that was forked meanwhile lives.
        elif kill():
            flags = 0


def unshare() -> None:
    """Gives the next child a PID namespace of its own, and this process a mount namespace."""
    flags, uid, gid = CLONE_NEWPID | CLONE_NEWNS, os.geteuid(), os.getegid()
    if uid == 0 and not libc.unshare(flags):
        return
    check(libc.unshare(flags | CLONE_NEWUSER), "namespaces")
    put("/proc/self/setgroups", "deny")
    put("/proc/self/uid_map", f"{uid} {uid} 1")
    put("/proc/self/gid_map", f"{gid} {gid} 1")


def guard(host: int, driver: int, *, is_shared: bool) -> "NoReturn":
    """Waits for the end of the slot host, and makes it when the driver is gone."""
    os.close(0)
    os.close(1)
    harden()
    poll = select.poll()
    poll.register(driver, select.POLLIN)
    poll.register(os.pidfd_open(host), select.POLLIN)
    if any(fd == driver for fd, _ in poll.poll()):
        os.kill(host, signal.SIGKILL)
    _, status = os.waitpid(host, 0)
    if is_shared:
        sweep(kill_descendants)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def enclose(containment: str) -> tuple[int, int]:
    """Goes on in the process that is to be the slot host; returns who guards it."""
    # Not the parent-death signal, which comes when the thread ends that started us.
    driver, stub = os.pidfd_open(os.getppid()), identity("self")
    is_shared = containment == "subreaper"
    try:
        if is_shared:
            # The guard inherits what a slot host leaves that is killed.
            check(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper")
        else:
            unshare()
        pid = os.fork()
    except OSError:
        os._exit(NO_NAMESPACES)
    if pid:
        guard(pid, driver, is_shared=is_shared)
    os.close(driver)
    if is_shared:
        check(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper")
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM if is_shared else signal.SIGKILL)
    return stub


def harden() -> None:
    """Keeps trials of the same user, root included, out of this process.

    Its memory and its descriptors in `/proc` then need a right over processes that no trial gets.
    A program that is executed can be looked into again.
    """
    check(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")
    # Refused to all but administrators, whose trials alone would have it.
    if libc.prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0) and os.geteuid() == 0:
        check(-1, "CAP_SYS_PTRACE")


def level_limits() -> str:
    """Sets what a trial inherits to the same wherever it was asked for, and says what it is now.

    `name=soft` or `name=soft:hard`; `-` is no limit. What only an administrator may change stays.
    """
    try:  # noqa: SIM105 - as above
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    except OSError:
        pass
    said = [f"nice={os.getpriority(os.PRIO_PROCESS, 0)}"]
    for name in LIMITS:
        number = getattr(resource, f"RLIMIT_{name.upper()}")
        wanted, (_, hard) = SOFT.get(name, resource.RLIM_INFINITY), resource.getrlimit(number)
        soft = hard if hard != resource.RLIM_INFINITY and not 0 <= wanted <= hard else wanted
        hard = 0 if name == "core" else hard
        resource.setrlimit(number, (soft, hard))
        shown = ["-" if each == resource.RLIM_INFINITY else str(each) for each in (soft, hard)]
        said.append(f"{name}={shown[0] if soft == hard else ':'.join(shown)}")
    return " ".join(sorted(said))


def spread_pids(slot: int) -> None:
    """Gives slots different pids, for trials that name files in a shared `/tmp` after theirs."""
    try:
        limit = int(slurp("/proc/sys/kernel/pid_max"))
        put("/proc/sys/kernel/ns_last_pid", str(1 + slot * 4999 % (limit // 2)))
    except OSError:
        pass
