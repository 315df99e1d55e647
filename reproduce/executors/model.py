"""What the engine and an executor say to each other."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

HEAD_BYTES = 32 * 1024
TAIL_BYTES = 32 * 1024
"""Kept of each stream: enough for a long traceback at either end, bounded for a flood."""

FILE_BYTES = 16 * 1024 * 1024
"""A file that a matcher reads is kept whole up to here."""


class World(NamedTuple):
    """The world of one condition's trials, complete: nothing else reaches the child.

    Arguments and variables may hold the placeholders `{out}`, `{seed}`, `{trial}`, `{tmp}` and
    names from an order's `values`; literal braces are doubled. `{python}` is filled in before.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    timeout_us: int
    umask: int = 0o022
    tree: str | None = None
    """Folder whose content each trial gets fresh; `None` for an empty working folder."""
    keep_files: tuple[str, ...] = ()
    """Paths within `{out}` whose content is reported whole."""
    evidence: tuple[str, ...] = ()
    """Names of files that knobs leave in `{knobs}`, to be reported."""


class Order(NamedTuple):
    """One attempt to carry out."""

    number: int
    block: int
    condition: int
    attempt: int
    seed: int
    delay_us: int = 0
    """Wait before the start, for jitter."""
    values: Mapping[str, str] = {}
    """Further placeholders of this trial."""


class Captured(NamedTuple):
    """One stream: its first and last bytes, and how many there were."""

    head: bytes
    tail: bytes
    size: int


class KeptFile(NamedTuple):
    """A file left in the output folder; `content` is `None` beyond the limit or if not asked for."""

    path: str
    size: int
    content: bytes | None


class Report(NamedTuple):
    """How one attempt ended: the raw facts."""

    number: int
    attempt: int
    condition: int
    block: int
    seed: int
    slot: int
    ending: str
    """A member of `ledger.records.Ending`."""
    code: int | None
    started_us: int
    duration_us: int
    cpu_us: int
    max_rss_kb: int | None
    leftovers: int
    stdout: Captured
    stderr: Captured
    files: tuple[KeptFile, ...]
    evidence: tuple[tuple[str, str], ...]
    detail: str


class Lost(NamedTuple):
    """A slot ended without being asked to.

    `started` holds the attempts that began and have no report; `returned` those that provably
    never began and may be given out again.
    """

    slot: int
    started: tuple[Order, ...]
    returned: tuple[Order, ...]
    detail: str


class Returned(NamedTuple):
    """Orders that a slot gave back unstarted, after `recall` or `abort`."""

    slot: int
    orders: tuple[Order, ...]


class Place(NamedTuple):
    """Where trials run and what encloses them."""

    facts: tuple[tuple[str, str], ...]
    """Such as `host`, `kernel`, `cpus`, `containment`, `fresh_tree`; sorted by name."""
    boot: str


Event = Report | Lost | Returned


class Executor(Protocol):
    """Carries out orders, slot by slot, and reports each exactly once.

    Every order given to `submit` is answered by one `Report`, or stands in one `Lost` or
    `Returned`. An executor never starts an order twice and never decides what runs.
    """

    def start(self, worlds: Sequence[World], *, slots: int, spool: Path) -> Place:
        """Makes the slots ready; each keeps a spool of starts and ends in the folder `spool`."""
        ...

    def free(self) -> Sequence[int]:
        """Slots that have nothing left to do or will have within moments."""
        ...

    def submit(self, slot: int, orders: Sequence[Order]) -> None:
        """Gives a slot orders to carry out one after the other."""
        ...

    def events(self, timeout_s: float) -> Sequence[Event]:
        """What happened since the last call, waiting up to `timeout_s` for something."""
        ...

    def recall(self) -> None:
        """Asks every slot to give back what it has not started; running trials go on."""
        ...

    def abort(self) -> None:
        """Kills what runs, which is reported as cancelled, and recalls the rest."""
        ...

    def close(self) -> None:
        """Ends every slot; nothing that a trial started is left."""
        ...
