"""The command, the folders and the files of a trial, for the slot host.

Standard library only, like `slothost.py`, which loads this file from its own folder.
"""
# pathlib takes longer to import than a trial to start.
# ruff: noqa: PTH101, PTH102, PTH103, PTH108, PTH113, PTH114, PTH118, PTH208

import errno
import os
import stat

# Not imported: `typing` would double the memory of a slot host.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from reproduce.executors.slotguard import mount, slurp, unmount
else:
    from slotguard import mount, slurp, unmount

MAX_FILES = 1000
MAX_ENTRIES = 10_000
MAX_DEPTH = 32
MAX_PATH_BYTES = 64 * 1024
PATH_BYTES = 512
"""Listed of an output folder: a flood of files must not become a flood of records."""

MAX_SIZE = 2**53 - 1
"""What a record can say; a file of holes may claim more."""

KEPT_BYTES = 64 * 1024 * 1024
"""Of all files of a trial that are kept whole, so that a report has a largest size."""

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

OVERFLOW_ID = 65534
"""How a user namespace shows every owner that it does not know."""

DEFAULT_PATH = "/bin:/usr/bin"
"""Where the C library looks when there is no `PATH`."""


class World:
    """The world of one condition; its texts are as `templates.parsed` returns them."""

    def __init__(  # noqa: PLR0917 - the fields of `model.World`
        self,
        argv: "list[tuple[str, ...]]",
        env: "dict[str, tuple[str, ...]]",
        timeout_us: int,
        umask: int,
        tree: str | None,
        keep_files: tuple[str, ...],
        evidence: tuple[str, ...],
    ) -> None:
        self.argv = argv
        self.constant = {name: parts[0] for name, parts in env.items() if len(parts) == 1}
        self.varied = {name: parts for name, parts in env.items() if len(parts) > 1}
        self.timeout_us, self.umask, self.tree = timeout_us, umask, tree
        self.keep_files, self.evidence = frozenset(keep_files), evidence
        self.found: dict[str, str] = {}

    def command(self, values: dict[str, str]) -> tuple[list[str], dict[str, str]]:
        """The arguments and the environment of one trial.

        Raises:
            KeyError: a placeholder has no value.
        """
        argv = [filled(parts, values) for parts in self.argv]
        env = self.constant.copy()
        for name, parts in self.varied.items():
            env[name] = filled(parts, values)
        return argv, env

    def program(self, name: str, env: dict[str, str], root: str) -> str:
        """The file that `execvp` would run in the trial, whose own `PATH` counts.

        Raises:
            OSError: as `execvp` would say.
        """
        if "/" in name:
            return name
        if name in self.found:
            return self.found[name]
        code = errno.ENOENT
        for folder in env.get("PATH", DEFAULT_PATH).split(":"):
            path = f"{folder or '.'}/{name}"
            if os.access(path, os.X_OK) and os.path.isfile(path):
                # What the trial's own folders hold may be gone in the next trial.
                if "PATH" in self.constant and path[0] == "/" and not path.startswith(root):
                    self.found[name] = path
                return path
            if os.path.isfile(path):
                code = errno.EACCES
        raise OSError(code, os.strerror(code), name)


def filled(parts: tuple[str, ...], values: dict[str, str]) -> str:
    """The text of a template: the odd parts are names of values."""
    if len(parts) == 1:
        return parts[0]
    return "".join([values[part] if i % 2 else part for i, part in enumerate(parts)])


class Folders:
    """The folders of a trial, new for each: `work`, `out`, `knobs`, `tmp/home`, `tmp/tmp`.

    With `mounts` they lie on a memory file system of their own, which also makes a fresh view of
    any tree cheap; without, on the disk, and a tree is copied.
    """

    def __init__(self, root: str, *, mounts: bool, size: str) -> None:
        self.root, self.mounts, self.size = root, mounts, size
        self.work, self.out, self.knobs, self.tmp = (
            os.path.join(root, name) for name in ("work", "out", "knobs", "tmp")
        )
        inner = tuple(os.path.join(self.tmp, name) for name in ("home", "tmp"))
        self.all = (self.tmp, *inner, self.work, self.out, self.knobs)
        self.lower: dict[str, int] = {}
        """Folders that can be overlaid, open: a path in mount options would need escapes."""
        # Within a user namespace there are no trusted attributes.
        is_initial = slurp("/proc/self/uid_map").split() == [b"0", b"0", b"4294967295"]
        self.overlay_option = "" if is_initial else ",userxattr"
        self.made: dict[str, tuple[tuple[int, ...], int]] = {}
        """The folders and what they looked like before the trial."""
        self.is_fresh = self.is_mounted = False
        self.out_fd = self.knobs_fd = -1
        """Held open from the start: a trial may put a link in their place."""
        os.makedirs(root, exist_ok=True)

    def probe(self, tree: str) -> None:
        """Finds out once whether a tree can be overlaid; else it will be copied."""
        if not self.mounts or tree in self.lower:
            return
        if self.overlay_option and not all_ours(tree):
            return
        try:
            self.lower[tree] = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self.make(tree)
        except OSError:
            fd = self.lower.pop(tree, None)
            if fd is not None:
                os.close(fd)
        self.clear()

    def make(self, tree: str | None) -> None:
        """Leaves this process in a fresh working folder; OSError if there can be none."""
        if not self.is_fresh:
            self._renew()
        if tree is not None:
            self.is_fresh = False
            if tree in self.lower:
                self._overlay(self.lower[tree])
            else:
                self._copy(tree)
        os.chdir(self.work)

    def clear(self) -> None:
        """Removes what the last trial left, at next to no cost if that is nothing."""
        os.chdir("/")
        try:
            if not (self.is_fresh and self._is_untouched()):
                self._renew()
        except OSError:
            # Something is in the way: made anew before the next trial, which can report it.
            self.is_fresh = False

    def remove(self) -> None:
        """Takes the folders away for good; a mount of our own ends with its namespace."""
        os.chdir("/")
        self._close()
        if not self.mounts:
            self._remove_all()

    def _close(self) -> None:
        for fd in (self.out_fd, self.knobs_fd):
            if fd >= 0:
                os.close(fd)
        self.out_fd = self.knobs_fd = -1

    def _is_untouched(self) -> bool:
        # Making the folders anew would say the same, but costs a disk more than a trial.
        return all(
            facts(path) == before and len(os.listdir(path)) == entries
            for path, (before, entries) in self.made.items()
        )

    def _make_all(self) -> None:
        for path in self.all:
            os.mkdir(path)
        self.made = {path: (facts(path), len(os.listdir(path))) for path in (self.root, *self.all)}
        self.out_fd = os.open(self.out, FOLDER_FLAGS)
        self.knobs_fd = os.open(self.knobs, FOLDER_FLAGS)
        self.is_fresh = True

    def _renew(self) -> None:
        self.is_fresh = False
        os.chdir("/")
        self._close()
        if not self.mounts:
            self._remove_all()
            os.makedirs(self.root)
        else:
            if self.is_mounted:
                unmount(self.root)
                self.is_mounted = False
            data = f"mode=755,size={self.size}"
            mount("tmpfs", self.root, data)
            self.is_mounted = True
        self._make_all()

    def _overlay(self, lower: int) -> None:
        os.chdir(self.root)
        for path in (".overlay", ".overlay/upper", ".overlay/work"):
            os.mkdir(path)
        os.chmod(".overlay/upper", stat.S_IMODE(os.fstat(lower).st_mode))
        data = f"lowerdir=/proc/self/fd/{lower},upperdir=.overlay/upper,workdir=.overlay/work"
        mount("overlay", self.work, data + self.overlay_option)

    def _copy(self, tree: str) -> None:
        import shutil  # noqa: PLC0415 - slow, and seldom needed

        try:
            shutil.copytree(tree, self.work, symlinks=True, dirs_exist_ok=True)
        except shutil.Error as error:
            # It holds a list of (source, destination, reason).
            source, _, why = error.args[0][0]
            raise OSError(errno.EIO, str(why), source) from error

    def _remove_all(self) -> None:
        import shutil  # noqa: PLC0415 - slow, and seldom needed

        if os.path.islink(self.root):
            # Not followed: what it leads to is not ours.
            os.unlink(self.root)
        for folder, names, _ in os.walk(self.root):
            for name in names:
                path = os.path.join(folder, name)
                if not os.path.islink(path):
                    os.chmod(path, stat.S_IRWXU)
        if os.path.lexists(self.root):
            shutil.rmtree(self.root)


def facts(folder: str) -> tuple[int, ...]:
    """What changes when anything is done to a folder."""
    found = os.lstat(folder)
    return found.st_mode, found.st_uid, found.st_gid, found.st_ino, found.st_ctime_ns


def all_ours(tree: str) -> bool:
    """Whether this user and group own all of a tree.

    A user namespace knows no other owner, and an overlay there refuses to change their files.
    """
    own = os.geteuid(), os.getegid()
    if OVERFLOW_ID in own:
        return False
    for folder, names, files in os.walk(tree):
        for name in (".", *names, *files):
            found = os.lstat(os.path.join(folder, name))
            if (found.st_uid, found.st_gid) != own:
                return False
    return True


def listed(
    folder: int, keep: frozenset[str], file_bytes: int
) -> "tuple[tuple[tuple[str, int, bytes | None], ...], bool]":
    """Regular files below an open folder with their sizes, and whether some are not listed.

    No link is followed. What `keep` names comes last and with its content, whatever the number of
    the others.
    """
    kept, room = [], KEPT_BYTES
    for path in sorted(keep):
        found = whole(folder, path, min(file_bytes, room))
        if found is not None:
            size, content = found
            kept.append((path, size, content if content is None or len(content) == size else None))
            room -= size if kept[-1][2] is not None else 0
    others, is_cut = walked(folder, keep)
    return (*others, *kept), is_cut


def walked(
    folder: int, keep: frozenset[str]
) -> "tuple[list[tuple[str, int, bytes | None]], bool]":
    """Regular files below an open folder but for some, and whether there are more."""
    files: list[tuple[str, int, bytes | None]] = []
    left, is_cut, waiting = MAX_PATH_BYTES, False, [""]
    while waiting:
        below = waiting.pop()
        entries, is_long = entered(folder, below)
        is_cut = is_cut or is_long
        for name, is_folder, size in entries:
            path = below + name
            shown = printable(path)
            if is_folder and (below.count("/") >= MAX_DEPTH or len(waiting) >= MAX_FILES):
                is_cut = True
            elif is_folder:
                waiting.append(f"{path}/")
            elif path in keep or shown in keep:
                continue
            elif len(files) >= MAX_FILES or len(shown.encode()) > left:
                return files, True
            else:
                left -= len(shown.encode())
                files.append((shown, size, None))
    return files, is_cut


def entered(folder: int, below: str) -> "tuple[list[tuple[str, bool, int]], bool]":
    """The folders and regular files of a folder below an open one, and whether there are more."""
    found: list[tuple[str, bool, int]] = []
    try:
        fd = opened(folder, below.split("/")[:-1])
    except OSError:
        return found, False
    try:
        with os.scandir(fd) as entries:
            for number, entry in enumerate(entries):
                if number >= MAX_ENTRIES:
                    return sorted(found), True
                if entry.is_dir(follow_symlinks=False):
                    found.append((entry.name, True, 0))
                elif entry.is_file(follow_symlinks=False):
                    size = entry.stat(follow_symlinks=False).st_size
                    found.append((entry.name, False, min(size, MAX_SIZE)))
    except OSError:
        pass
    finally:
        os.close(fd)
    return sorted(found), False


def opened(folder: int, names: "list[str]") -> int:
    """A folder below an open one, without a step through a link; OSError if there is none."""
    fd = os.dup(folder)
    for name in names:
        if name in {"", ".", ".."}:
            os.close(fd)
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        above = fd
        try:
            fd = os.open(name, FOLDER_FLAGS, dir_fd=above)
        finally:
            os.close(above)
    return fd


def printable(path: str) -> str:
    """A path as a record holds it: of any bytes, but not of any length."""
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    if len(shown.encode()) <= PATH_BYTES:
        return shown
    mark = "[cut]"
    return shown.encode()[: PATH_BYTES - len(mark)].decode("utf-8", "ignore") + mark


def whole(folder: int, path: str, size: int) -> "tuple[int, bytes | None] | None":
    """The size and first bytes of a regular file below an open folder; `None` if there is none.

    The bytes are `None` where it cannot be read.
    """
    *above, name = path.split("/")
    try:
        fd = opened(folder, above)
    except OSError:
        return None
    try:
        facts = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if not stat.S_ISREG(facts.st_mode):
            return None
        length = min(facts.st_size, MAX_SIZE)
        try:
            file = os.open(name, FILE_FLAGS, dir_fd=fd)
        except OSError:
            return length, None
        with os.fdopen(file, "rb") as data:
            return length, data.read(min(size, length))
    except (OSError, ValueError):
        return None
    finally:
        os.close(fd)
