"""Live progress on stderr, with outcomes sealed."""

import shutil
import sys

from reproduce import clock
from reproduce.cli.output import say
from reproduce.engine.loop import Snapshot
from reproduce.report.sheets import duration

QUIET_LINE_US = 30_000_000
"""Pause between lines where stderr is no terminal: a log is not flooded by a long run."""

SLOW_US = 2_000_000
"""A trial that runs longer than this is worth a word."""


class Progress:
    """One line that is drawn again on a terminal, a line now and then elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        """Takes whether nothing is to be shown."""
        self._quiet = quiet
        self._live = sys.stderr.isatty()
        self._shown_at: int | None = None
        self._drawn = False

    def watch(self, snapshot: Snapshot) -> None:
        """Shows where the run is."""
        if self._quiet:
            return
        text = line(snapshot)
        if self._live:
            # A line that wraps cannot be drawn again in its place.
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[2K{text[:width]}")
            sys.stderr.flush()
            self._drawn = True
            return
        now = clock.monotonic_us()
        if self._shown_at is None or now - self._shown_at >= QUIET_LINE_US:
            self._shown_at = now
            say(text)

    def announce(self, text: str) -> None:
        """Says something on a line of its own."""
        self.end()
        say(text)

    def end(self) -> None:
        """Leaves the live line, so that what follows begins on a fresh one."""
        if self._drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._drawn = False


def line(snapshot: Snapshot) -> str:
    """Where a run is, in one line that tells nothing of what was seen."""
    parts = [
        f"{snapshot.recorded} of {snapshot.planned} trials",
        f"{snapshot.unresolved} unresolved",
    ]
    if snapshot.left_us is not None and snapshot.recorded < snapshot.planned:
        parts.append(f"about {duration(snapshot.left_us)} left")
    if snapshot.slowest_us > SLOW_US:
        parts.append(f"one runs for {duration(snapshot.slowest_us)}")
    return " · ".join([*parts, "outcomes sealed"])
