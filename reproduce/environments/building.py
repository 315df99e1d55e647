"""Builds an environment, unless it is there already."""

import errno
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from matrices import Environment, canonical_bytes, domain_digest
from reproduce.environments.contents import environment_digest
from reproduce.environments.declared import installs_something, uses_tree
from reproduce.environments.interpreters import Interpreter, find_python
from reproduce.environments.steps import last_lines, run_step
from reproduce.errors import InfrastructureError, IntegrityError

DOMAIN = "reproduce-environment-v1"

_KEY_DIGITS = 24
"""96 bits name an environment; scripts begin with its path, which kernels cut at 127 bytes."""

_MARKER = "built.json"

_PACKAGE_SOURCE = (
    "PIP_",
    "SSL_CERT_",
    "REQUESTS_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
)
"""How a host reaches its package source; all else of the person's variables stays out."""

_NOT_PASSED = frozenset(
    {"PIP_CONSTRAINT", "PIP_PREFIX", "PIP_REQUIREMENT", "PIP_ROOT", "PIP_TARGET", "PIP_USER"}
)
"""These would install something else, or elsewhere."""


class Built(NamedTuple):
    """A finished environment."""

    bin: Path
    """The folder that leads `PATH`."""
    python: Path
    tree: Path | None
    """The tree as the set-up commands left it; `None` without any."""
    facts: str
    """The installed packages as `pip freeze` lists them."""
    key: str
    digest: str = ""
    """Of all that was built, as it was then; `verify_environment` compares with it."""


def build(
    environment: Environment,
    *,
    store: Path,
    search_path: str,
    tree: Path | None = None,
    tree_digest: str | None = None,
) -> Built:
    """The environment, built now unless it was before.

    Requirements are installed and set-up commands run with the working folder in a copy of the
    tree, with network, by the `python3` of the search path. Builders of one environment wait for
    each other; what a killed builder left is thrown away.

    Raises:
        InfrastructureError: a step ended badly, and the message has its last lines; or there is
            no room.
        IntegrityError: it was built before and is not what it was then.
    """
    interpreter = find_python(search_path)
    key = _key(environment, interpreter, tree_digest)
    folder = store / key
    with _storing(folder), _alone(store, key):
        cached = _marked(folder)
        if cached is None:
            _make(folder, environment, interpreter, search_path=search_path, tree=tree)
        else:
            verify_environment(cached)
        built = cached or _marked(folder)
        if built is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder / _MARKER)
    return built


def verify_environment(built: Built) -> None:
    """Returns if the environment is as it was built, but for what Python compiled since.

    Raises:
        IntegrityError: something in it was changed, added or removed.
    """
    folder = built.bin.parent.parent
    try:
        is_same = environment_digest(folder) == built.digest
    except OSError:
        is_same = False
    if not is_same:
        message = f"the environment `{built.key}` is not what was built"
        hint = "remove it to have it built again; trials that ran in it may have changed it"
        raise IntegrityError(message, place=str(folder), hint=hint)


def _marked(folder: Path) -> Built | None:
    """The environment that a marker describes; `None` if it is not finished."""
    try:
        built = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
        has_tree, facts, digest = built["has_tree"], built["packages"], built["digest"]
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return None
    return Built(
        bin=folder / "venv" / "bin",
        python=folder / "venv" / "bin" / "python",
        tree=folder / "tree" if has_tree else None,
        facts=facts,
        key=folder.name,
        digest=digest,
    )


def _key(environment: Environment, interpreter: Interpreter, tree_digest: str | None) -> str:
    body = canonical_bytes(
        {
            "requirements": environment.requirements,
            "setup": [list(command) for command in environment.setup],
            "python": interpreter.version,
            "executable": str(interpreter.path),
            "platform": interpreter.platform,
            "tree": tree_digest if uses_tree(environment) else None,
        }
    )
    return domain_digest(DOMAIN, body)[:_KEY_DIGITS]


@contextmanager
def _storing(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, shutil.Error) as error:
        said = getattr(error, "strerror", None) or error
        hint = "make room, or permission to write, for the state folder"
        message = f"the environment cannot be stored: {said}"
        raise InfrastructureError(message, place=str(folder), hint=hint) from error


@contextmanager
def _alone(store: Path, key: str) -> Iterator[None]:
    store.mkdir(parents=True, exist_ok=True)
    lock = os.open(store / f"{key}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _make(
    folder: Path,
    environment: Environment,
    interpreter: Interpreter,
    *,
    search_path: str,
    tree: Path | None,
) -> None:
    """Builds in place, since scripts name their interpreter by its path; the marker comes last."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("home", "tmp"):
        (folder / name).mkdir(parents=True)
    here = folder
    if tree is not None and uses_tree(environment):
        here = folder / "tree"
        shutil.copytree(tree, here, symlinks=True)
    variables = _variables(folder, search_path)
    packages = _install(folder, environment, interpreter, variables, here=here)
    for number, command in enumerate(environment.setup):
        log = folder / f"setup-{number}.log"
        run_step(command, what="set-up command", here=here, variables=variables, log=log)
    built = {
        "has_tree": here != folder and bool(environment.setup),
        "packages": packages,
        "digest": environment_digest(folder),
    }
    (folder / "built.new").write_text(json.dumps(built), encoding="utf-8")
    (folder / "built.new").rename(folder / _MARKER)


def _install(
    folder: Path,
    environment: Environment,
    interpreter: Interpreter,
    variables: Mapping[str, str],
    *,
    here: Path,
) -> str:
    """Makes the virtual environment, fills it, and says what is in it."""
    log = folder / "install.log"
    venv = folder / "venv"
    make = (str(interpreter.path), "-I", "-m", "venv", str(venv))
    run_step(make, what="virtual environment", here=folder, variables=variables, log=log)
    pip = (str(venv / "bin" / "python"), "-I", "-m", "pip", "--disable-pip-version-check")
    if installs_something(environment):
        text = folder / "requirements.txt"
        text.write_text(environment.requirements or "", encoding="utf-8")
        fill = (*pip, "--no-input", "install", "--requirement", str(text))
        run_step(fill, what="installation", here=here, variables=variables, log=log)
    ended = subprocess.run(  # noqa: S603 - the interpreter made above
        [*pip, "freeze", "--all"],
        cwd=folder,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if ended.returncode != 0:
        message = f"the installed packages cannot be listed:\n{last_lines(ended.stderr)}"
        raise InfrastructureError(message, hint="the requirements may have replaced `pip`")
    return ended.stdout.decode("utf-8", "replace")


def _variables(folder: Path, search_path: str) -> dict[str, str]:
    """The world of a build: the plan's search path, and the way to the host's package source."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name.upper().startswith(_PACKAGE_SOURCE) and name not in _NOT_PASSED
    }
    if "PIP_CONFIG_FILE" not in passed:
        passed |= _pip_settings()
    return {
        "PIP_CACHE_DIR": str(folder.parent / "pip-cache"),
        **passed,
        "PATH": f"{folder / 'venv' / 'bin'}:{search_path}",
        "VIRTUAL_ENV": str(folder / "venv"),
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "LANG": "C.UTF-8",
    }


def _pip_settings() -> dict[str, str]:
    """Where the person's settings of pip are, since the build has a home of its own."""
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    for path in (settings / "pip" / "pip.conf", Path.home() / ".pip" / "pip.conf"):
        if path.is_file():
            return {"PIP_CONFIG_FILE": str(path)}
    return {}
