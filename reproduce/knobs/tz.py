"""`tz`: the time zone."""

import difflib
import subprocess
import sys
import zoneinfo
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated

from pydantic import StringConstraints, TypeAdapter

from reproduce.errors import UsageError
from reproduce.knobs.model import Availability, Knob, WorldDraft, loaded

_MOMENTS = tuple(
    int(datetime(year, month, 15, 12, tzinfo=UTC).timestamp())
    for year in (1995, 2005, 2015, 2025)
    for month in (1, 4, 7, 10)
)
"""Noons of every season in four decades, so that a zone is not taken for UTC by its winter."""

_SCRIPT = "import sys, time; print(*(time.localtime(int(t)).tm_gmtoff for t in sys.argv[1:]))"


class Tz(Knob):
    """The zone by its IANA name: `TZ`.

    The C library reads a zone that it does not have as UTC and says nothing, so the name is
    checked when it is declared, and the probe asks a child what the clock shows there.
    """

    name = "tz"
    summary = "the time zone"
    rule = "the IANA name of a time zone"
    example = '"America/New_York"'
    mechanism = "TZ in the environment"
    schema = TypeAdapter(
        Annotated[str, StringConstraints(pattern=r"\A[A-Za-z0-9_+\-]+(/[A-Za-z0-9_+\-]+)*\z")]
    )
    neutral = '"UTC"'

    def check(self, value: str, *, place: str) -> None:
        """Refuses a zone that nobody knows, and names the nearest ones."""
        zone = loaded(value)
        if _zone(zone) is not None:
            return
        hint = "a zone that does not exist would be read as UTC"
        near = _nearest(zone)
        if near:
            hint = "did you mean " + " or ".join(f"`{name}`" for name in near) + "?"
        raise UsageError(f"there is no time zone `{zone}`", place=place, hint=hint)

    def probe(self, value: str | None = None) -> Availability:
        """Whether a child on this host sees the zone's offsets."""
        if value is None:
            return Availability(available=True, mechanism=self.mechanism)
        zone = loaded(value)
        expected = _expected(zone)
        if expected is not None and _seen_by_child(zone) == expected:
            return Availability(available=True, mechanism=self.mechanism)
        why = f"a child on this host does not see the zone `{zone}`; is `tzdata` installed?"
        return Availability(available=False, mechanism=self.mechanism, why=why)

    def apply(self, value: str, draft: WorldDraft) -> None:
        """Sets the variable."""
        draft.env["TZ"] = loaded(value)


def _zone(name: str) -> zoneinfo.ZoneInfo | None:
    if name == "localtime":
        # Whatever the host is set to; two machines would run two plans.
        return None
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _nearest(name: str) -> list[str]:
    known = zoneinfo.available_timezones()
    by_folded = {one.casefold(): one for one in sorted(known)}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=3, cutoff=0.75)
    return [by_folded[one] for one in near]


def _expected(name: str) -> tuple[int, ...] | None:
    zone = _zone(name)
    if zone is None:
        return None
    offsets = (datetime.fromtimestamp(moment, tz=zone).utcoffset() for moment in _MOMENTS)
    return tuple(int(offset.total_seconds()) for offset in offsets if offset is not None)


@lru_cache(maxsize=64)
def _seen_by_child(name: str) -> tuple[int, ...] | None:
    ended = subprocess.run(  # noqa: S603 - our own interpreter, our own script
        [sys.executable, "-I", "-S", "-c", _SCRIPT, *map(str, _MOMENTS)],
        env={"TZ": name},
        capture_output=True,
        check=False,
        timeout=60,
    )
    if ended.returncode != 0:
        return None
    return tuple(int(offset) for offset in ended.stdout.split())
