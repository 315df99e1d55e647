"""`limits`: resource limits."""

import os
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import Field, TypeAdapter

from matrices.record import MAX_INTEGER
from reproduce.errors import UsageError
from reproduce.knobs.model import Availability, Evidence, Knob, WorldDraft, loaded

_UNLIMITED = "unlimited"

_LEAST_FSIZE = 4096
"""Below it the evidence itself could not be written."""


class _Limit(NamedTuple):
    flags: tuple[str, ...]
    """How shells call it; the first that a shell knows is taken."""
    unit: int
    """Bytes or things for one of the shell's units."""


_LIMITS: Mapping[str, _Limit] = {
    "nofile": _Limit(("n",), 1),
    "as": _Limit(("v",), 1024),
    "nproc": _Limit(("u", "p"), 1),
    "fsize": _Limit(("f",), 512),
    "stack": _Limit(("s",), 1024),
}

_Name = Literal["nofile", "as", "nproc", "fsize", "stack"]
_Amount = Annotated[int, Field(ge=0, le=MAX_INTEGER)] | Literal["unlimited"]
_Table: TypeAlias = dict[_Name, _Amount]


class Limits(Knob):
    """Soft and hard limits of the command: counts for `nofile` and `nproc`, bytes for the others.

    A shell sets them, writes down what it reads back, and becomes the command. Where a limit is
    refused, the command does not run.
    """

    name = "limits"
    summary = "resource limits: nofile, nproc, and as, fsize, stack in bytes"
    rule = 'a table of limits, each an integer or "unlimited"'
    example = "{ nofile = 64 }"
    mechanism = "ulimit in a shell that becomes the command"
    schema = TypeAdapter(_Table)
    neutral = "{}"
    wraps = True
    evidence_file = "limits"

    def check(self, value: str, *, place: str) -> None:
        """Refuses amounts that shells cannot express, or under which no evidence can be left."""
        for name, amount in loaded(value).items():
            if amount == _UNLIMITED:
                continue
            if name in {"as", "fsize", "stack"} and amount % 1024:
                message = f"limit `{name}` is {amount} bytes, not a multiple of 1024"
                raise UsageError(message, place=f"{place}.{name}", hint="round it up")
            if name == "fsize" and amount < _LEAST_FSIZE:
                message = f"limit `fsize` is {amount} bytes; the least is {_LEAST_FSIZE}"
                hint = "the evidence that the limit took is a file, too"
                raise UsageError(message, place=f"{place}.{name}", hint=hint)

    def probe(self, value: str | None = None) -> Availability:
        """Whether there is a shell, and whether the kernel would heed the limits."""
        if not os.access("/bin/sh", os.X_OK):
            return Availability(available=False, mechanism=self.mechanism, why="no `/bin/sh`")
        if value is not None and "nproc" in loaded(value) and os.geteuid() == 0:
            why = "the kernel does not count the processes of root: run as another user"
            return Availability(available=False, mechanism=self.mechanism, why=why)
        return Availability(available=True, mechanism=self.mechanism)

    def apply(self, value: str, draft: WorldDraft) -> None:
        """Puts the shell in front of the command."""
        draft.argv[:0] = ["/bin/sh", "-c", _script(loaded(value)), "{knobs}"]
        draft.evidence.append(self.evidence_file)

    def evidence(self, value: str, reported: Mapping[str, str]) -> Evidence:
        """The soft and hard limits as the shell read them back, in its units."""
        found = reported.get(self.evidence_file)
        if found is None:
            return Evidence(applied=False, shown="the shell left no word")
        lines = found.splitlines()
        had = list(zip(lines[::3], lines[1::3], lines[2::3], strict=False))
        wanted = [(name, *[_units(name, amount)] * 2) for name, amount in loaded(value).items()]
        shown = ", ".join(f"{name} {soft}/{hard}" for name, soft, hard in had)
        return Evidence(applied=had == wanted, shown=shown[:500] or "none asked for")


def _units(name: str, amount: int | str) -> str:
    return str(amount) if isinstance(amount, str) else str(amount // _LIMITS[name].unit)


def _script(wanted: Mapping[str, int | str]) -> str:
    """The shell's text, without braces, which would be placeholders; it starts no process."""
    lines = ["failed=0"]
    for name, amount in wanted.items():
        lines.append(f"{_first(name, '', ' ' + _units(name, amount))} || failed=1")
    lines.append('exec 3>"$0/limits" || exit 125')
    for name in wanted:
        lines.append(f"echo {name} >&3")
        lines += [f"{_first(name, kind, ' >&3')} || failed=1" for kind in ("S", "H")]
    # What could not be set must not run without: the limit may be all that keeps it harmless.
    lines += ["exec 3>&-", '[ "$failed" = 0 ] || exit 125', 'exec "$@"']
    return "\n".join(lines)


def _first(name: str, kind: str, rest: str) -> str:
    tries = (f"ulimit -{kind}{flag}{rest} 2>/dev/null" for flag in _LIMITS[name].flags)
    return " || ".join(tries)
