"""`locale`: language, sorting and number format."""

import difflib
import shutil
import subprocess
import sys
from functools import lru_cache
from typing import Annotated

from pydantic import StringConstraints, TypeAdapter

from reproduce.knobs.model import Availability, Knob, WorldDraft, loaded

_ALWAYS = ("C", "C.UTF-8", "POSIX")

_SCRIPT = "import locale; locale.setlocale(locale.LC_ALL, '')"


class Locale(Knob):
    """The locale by its name: `LC_ALL` and `LANG`.

    The C library reads a locale that it does not have as `C` and most programs say nothing, so
    the probe asks a child to load it.
    """

    name = "locale"
    summary = "the language, sorting and number format of the C library"
    rule = "the name of a locale"
    example = '"de_DE.UTF-8"'
    mechanism = "LC_ALL and LANG in the environment"
    schema = TypeAdapter(
        Annotated[str, StringConstraints(pattern=r"\A[A-Za-z]+(_[A-Za-z]+)?(\.[\w-]+)?(@\w+)?\z")]
    )
    neutral = '"C.UTF-8"'

    def probe(self, value: str | None = None) -> Availability:
        """Whether this host has the locale; without a value, which ones it has."""
        if value is None:
            has = ", ".join(sorted({*_installed(), *_ALWAYS}))
            return Availability(available=True, mechanism=self.mechanism, why=f"has {has}")
        name = loaded(value)
        if name in _ALWAYS or (_listed(name) and _loads(name)):
            return Availability(available=True, mechanism=self.mechanism)
        near = difflib.get_close_matches(name, {*_installed(), *_ALWAYS}, n=3)
        named = f"; near it: {', '.join(near)}" if near else ""
        why = f"this host has no locale `{name}`, and would use `C` in its place{named}"
        return Availability(available=False, mechanism=self.mechanism, why=why)

    def apply(self, value: str, draft: WorldDraft) -> None:
        """Sets both variables."""
        draft.env["LC_ALL"] = draft.env["LANG"] = loaded(value)


def _listed(name: str) -> bool:
    return _normal(name) in {_normal(one) for one in _installed()}


def _normal(name: str) -> str:
    stem, dot, rest = name.partition(".")
    codeset, at, modifier = rest.partition("@")
    return stem + dot + codeset.replace("-", "").lower() + at + modifier


@lru_cache(maxsize=1)
def _installed() -> tuple[str, ...]:
    program = shutil.which("locale")
    if program is None:
        return ()
    ended = subprocess.run(  # noqa: S603 - no argument comes from a plan
        [program, "-a"], capture_output=True, check=False, timeout=60
    )
    return tuple(ended.stdout.decode("utf-8", "replace").split())


@lru_cache(maxsize=64)
def _loads(name: str) -> bool:
    ended = subprocess.run(  # noqa: S603 - our own interpreter, our own script
        [sys.executable, "-I", "-S", "-c", _SCRIPT],
        env={"LC_ALL": name, "LANG": name},
        capture_output=True,
        check=False,
        timeout=60,
    )
    return ended.returncode == 0
