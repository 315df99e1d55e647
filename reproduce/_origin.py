"""Checks that our four packages come from one installation, before any of them is imported.

The tool runs inside strangers' repositories: a `policies/` folder in the working directory must
never issue verdicts in our name. Standard library only, because nothing else can be trusted yet.
"""

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType, TracebackType

PACKAGES = ("matrices", "ledger", "policies", "reproduce")

EXIT_INTEGRITY = 6
"""The exit code of the command for things that cannot be trusted. Python's own, 1, means refuted."""


class ForeignPackageError(ImportError):
    """One of our names belongs to somebody else's package.

    An `ImportError` of its own: `reproduce.errors` cannot be imported safely yet.
    """


def check_origin(home: Path) -> None:
    """Returns if all four packages lie in `home`, and keeps later imports of them there.

    A package that is already imported is judged by where it was loaded from, the others by where
    an import would find them; nothing is run to find out.

    Raises:
        ForeignPackageError: a package is missing, or comes from another folder.
    """
    for name in PACKAGES:
        found = _folder(name)
        if found != home.resolve() / name:
            sys.excepthook = _exit_without_trace
            raise ForeignPackageError(_message(name, found, home))
    _pin(home)
    if _is_command():
        _leave_out_working_directory(home.resolve())


def _is_command() -> bool:
    """Whether this process is the command, and not a program that imports us as a library."""
    if sys.argv[:1] == ["-m"]:
        return "reproduce" in sys.orig_argv
    return bool(sys.argv) and Path(sys.argv[0]).name == "reproduce"


def _leave_out_working_directory(home: Path) -> None:
    """Keeps later imports, also those of libraries, away from the folder that we work on.

    Python puts it on the path for `-m` and for an empty or relative entry of `PYTHONPATH`, which
    it has made absolute by now. Our own source tree stays.
    """
    declared = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    try:
        left_out = {
            Path(entry).resolve() for entry in ("", *declared) if not Path(entry).is_absolute()
        }
    except OSError:
        # The working directory is gone: nothing can be imported from there.
        left_out = set()
    sys.path[:] = [entry for entry in sys.path if _stays(entry, home, left_out)]


def _stays(entry: str, home: Path, left_out: set[Path]) -> bool:
    if not Path(entry).is_absolute():
        return False
    folder = Path(entry).resolve()
    return folder == home or folder not in left_out


def _folder(name: str) -> Path | None:
    """Returns the folder of the regular package `name`, or None if the name is anything else."""
    module = sys.modules.get(name)
    # `find_spec` locates a top-level package without running it.
    locations = _loaded_from(module) if module is not None else _would_load_from(name)
    return Path(locations[0]).resolve() if len(locations) == 1 else None


def _loaded_from(module: ModuleType) -> Sequence[str]:
    is_regular = getattr(module, "__file__", None) is not None
    return tuple(getattr(module, "__path__", ())) if is_regular else ()


def _would_load_from(name: str) -> Sequence[str]:
    spec = importlib.util.find_spec(name)
    # A folder without `__init__.py` has no origin, and may be stitched together from several.
    if spec is None or spec.origin is None:
        return ()
    return tuple(spec.submodule_search_locations or ())


def _exit_without_trace(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Ends the command like any other error of ours, since no code of ours can catch this one."""
    if not issubclass(kind, ForeignPackageError):
        sys.__excepthook__(kind, error, trace)
        return
    sys.stderr.write(f"error: {error}\n")
    sys.exit(EXIT_INTEGRITY)


def _message(name: str, found: Path | None, home: Path) -> str:
    where = f"would be loaded from `{found}`" if found else "is not a package of this installation"
    return (
        f"`{name}` {where}, not from `{home}`\n"
        "hint: start the `reproduce` command, or `python -P -m reproduce`, "
        f"in an environment of its own and without a `PYTHONPATH` that holds another `{name}`"
    )


class _Pin:
    """Finds our four packages in the checked folder, whatever `sys.path` says by then.

    We import late, so the working directory or the search path may have changed since the check.
    """

    def __init__(self, home: Path) -> None:
        self._home = str(home)

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [self._home], target) if name in PACKAGES else None


def _pin(home: Path) -> None:
    if not any(isinstance(finder, _Pin) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Pin(home.resolve()))
