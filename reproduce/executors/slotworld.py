"""The command, the folders and the files of a trial, for the slot host.

Standard library only, like `slothost.py`, which loads this file from its own folder.
"""
# pathlib takes longer to import than a trial to start.
# ruff: noqa: PTH101, PTH102, PTH103, PTH113, PTH114, PTH118, PTH208

import errno
import os
import stat

# Not imported: `typing` would double the memory of a slot host.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from reproduce.executors.slotguard import mount, slurp, unmount
else:
    from slotguard import mount, slurp, unmount

MAX_FILES = 1000
"""Files listed of an output folder: a flood of files must not become a flood of records."""

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
        if not self.mounts:
            self._remove_all()

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
        self.is_fresh = True

    def _renew(self) -> None:
        self.is_fresh = False
        os.chdir("/")
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
    folder: str, keep: frozenset[str], file_bytes: int
) -> "Iterator[tuple[str, int, bytes | None]]":
    """Regular files below a folder with their sizes; no link is followed.

    What `keep` names comes with its content, whatever the number of the others.
    """
    left, waiting = MAX_FILES, [""]
    while waiting:
        below = waiting.pop()
        try:
            with os.scandir(f"{folder}/{below}") as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            path = below + entry.name
            if entry.is_dir(follow_symlinks=False):
                if len(waiting) < MAX_FILES:
                    waiting.append(f"{path}/")
            elif entry.is_file(follow_symlinks=False) and (left > 0 or path in keep):
                left -= 1
                size = entry.stat(follow_symlinks=False).st_size
                shown = os.fsencode(path).decode("utf-8", "backslashreplace")
                is_kept = path in keep and size <= file_bytes
                yield shown, size, whole(entry.path, size) if is_kept else None


def whole(path: str, size: int) -> bytes | None:
    """The first bytes of a file that may be anything by now; `None` if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            return file.read(size)
    except OSError:
        return None
