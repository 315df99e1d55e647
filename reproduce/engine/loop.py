"""The loop: give out blocks in schedule order, record what comes back, stop for a stated reason."""

from collections import deque
from collections.abc import Callable, Iterator
from enum import IntEnum
from errno import EAGAIN, EMFILE, ENFILE, ENOMEM
from typing import NamedTuple

from ledger.records import Ending, Intent, StopReason
from matrices import Schedule, schedule
from reproduce import clock
from reproduce.engine.recorder import Recorder
from reproduce.engine.recovery import Recovered
from reproduce.engine.worlds import Worlds
from reproduce.errors import InfrastructureError
from reproduce.executors.model import Event, Executor, Lost, Order, Place, Report, Returned

WINDOW_US = 60_000
"""Work given to a slot at once: enough to hide a commit, little to lose to an early stop."""

INTENT_US = 2_000_000
"""Work covered by one intent: one sync in two seconds does not show in the throughput."""

FIRST_BLOCKS = 8
"""Blocks for each slot in the first intent, before any duration is known."""

TRANSIENT = frozenset({EAGAIN, ENOMEM, EMFILE, ENFILE})
"""Errors of a start that say that the machine was full, not that the command is wrong."""

MAX_ATTEMPTS = 3
"""Starts of one trial that may be refused for want of resources before that is its record."""

POLL_S = 0.05
SNAPSHOT_US = 250_000


class Interrupt(IntEnum):
    """How urgently a person wants the run to end."""

    NONE = 0
    FINISH = 1
    """Finish what runs, start nothing more."""
    KILL = 2
    """Kill what runs; it is recorded as cancelled."""


class Snapshot(NamedTuple):
    """What may be shown while a run goes on; outcomes stay sealed."""

    blocks: int
    recorded: int
    planned: int
    unresolved: int
    in_flight: int
    slowest_us: int
    """For how long the slot that has been silent longest has been at its trial."""
    elapsed_us: int
    left_us: int | None


class Ended(NamedTuple):
    """Why the loop ended; `None` says that a person interrupted it and it can be resumed."""

    reason: StopReason | None
    detail: str = ""


class Controls(NamedTuple):
    """What steers a run from outside."""

    interrupted: Callable[[], Interrupt]
    watch: Callable[[Snapshot], None]
    is_final: Callable[[int], str | None]
    """Asked after each whole block of the unbroken prefix; a text stops the run."""


class Loop:
    """One session of an investigation, from the first unrecorded trial to its end."""

    def __init__(
        self,
        worlds: Worlds,
        executor: Executor,
        recorder: Recorder,
        recovered: Recovered,
        *,
        place: Place,
        session: str,
        slots: int,
        controls: Controls,
    ) -> None:
        """Takes a started executor and the state that earlier sessions left."""
        self._worlds = worlds
        self._plan = worlds.plan
        self._schedule: Schedule = schedule(worlds.plan)
        self._executor = executor
        self._recorder = recorder
        self._controls = controls
        self._session = session
        self._place = place
        self._slots = slots
        self._redo: deque[tuple[Order, ...]] = deque(self._redone(recovered))
        self._next_block = recovered.next_block
        self._intended = recovered.next_block
        self._open: dict[int, tuple[int, Order]] = {}
        self._last_event: dict[int, int] = {}
        self._mean_us = 0.0
        self._started = clock.monotonic_us()
        self._spent_us = recovered.spent_us
        self._shown_at = 0
        self._ended: Ended | None = None
        self._killed = False
        self._prefix = Prefix(self._schedule, recovered)

    def run(self) -> Ended:
        """Runs until the budget is spent or something stops it; everything recorded is durable."""
        if self._redo:
            self._intend_again()
        while True:
            self._check_stops()
            if self._ended is None:
                self._give_out()
            if not self._open:
                self._check_slots()
                break
            for event in self._executor.events(POLL_S):
                self._take(event)
            self._recorder.flush_if_due()
            self._show()
        self._recorder.flush()
        self._show(force=True)
        return self._ended or Ended(StopReason.BUDGET)

    def _check_stops(self) -> None:
        wanted = self._controls.interrupted()
        if wanted >= Interrupt.FINISH and self._ended is None:
            self._stop(Ended(None, "interrupted"))
        if wanted >= Interrupt.KILL and not self._killed:
            self._killed = True
            self._executor.abort()
        wall = self._plan.budget.wall_us
        if wall is not None and self._ended is None and self._elapsed_us() >= wall:
            self._killed = True
            self._ended = Ended(StopReason.WALL_TIME, f"{wall // 1_000_000} s were declared")
            self._executor.abort()

    def _check_slots(self) -> None:
        """Refuses to call a budget spent when it was the slots that ran out.

        Raises:
            InfrastructureError: every slot is down for good; what is recorded is durable.
        """
        left = bool(self._redo) or self._next_block < self._schedule.blocks
        if self._ended is None and left:
            self._recorder.flush()
            message = "every slot ended again and again, and none is left"
            hint = "see the `.log` files beside the spools, then `run` again"
            raise InfrastructureError(message, hint=hint)

    def _stop(self, ended: Ended) -> None:
        self._ended = ended
        self._executor.recall()

    def _give_out(self) -> None:
        for slot in self._executor.free():
            batch: list[Order] = []
            # A slot that is already at work gets its next window only once a duration is known.
            while len(batch) < self._window():
                orders = self._next_orders()
                if orders is None:
                    break
                batch += orders
            if not batch:
                return
            self._executor.submit(slot, batch)
            self._last_event.setdefault(slot, clock.monotonic_us())
            for order in batch:
                self._open[order.number] = (slot, order)

    def _next_orders(self) -> tuple[Order, ...] | None:
        if self._redo:
            return self._redo.popleft()
        if self._next_block >= self._schedule.blocks:
            return None
        block = self._next_block
        if block >= self._intended:
            self._intend(block)
        self._next_block += 1
        return tuple(self._worlds.order(trial, attempt=0) for trial in self._schedule.block(block))

    def _intend(self, block: int) -> None:
        if self._mean_us:
            ahead = INTENT_US * self._slots / (self._mean_us * self._schedule.conditions)
            blocks = max(1, int(ahead))
        else:
            blocks = FIRST_BLOCKS * self._slots
        end = min(self._schedule.blocks, block + blocks)
        intent = intent_of(self._place, self._session, block, end, slots=self._slots)
        self._recorder.intend(intent)
        self._intended = end

    def _intend_again(self) -> None:
        """Covers trials that an earlier session intended: this session's spools must be read too."""
        first, end = self._redo[0][0].block, self._redo[-1][0].block + 1
        intent = intent_of(self._place, self._session, first, end, slots=self._slots)
        self._recorder.intend(intent)

    def _window(self) -> int:
        """Trials that a slot is given at once: one until a duration is known, fewer at the end."""
        if not self._mean_us:
            return 1
        left = (self._schedule.blocks - self._next_block) * self._schedule.conditions
        return max(1, min(int(WINDOW_US / self._mean_us), left // (4 * self._slots)))

    def _redone(self, recovered: Recovered) -> Iterator[tuple[Order, ...]]:
        block: list[Order] = []
        for trial, attempt in recovered.redo:
            if block and block[0].block != trial.block:
                yield tuple(block)
                block = []
            block.append(self._worlds.order(trial, attempt=attempt))
        if block:
            yield tuple(block)

    def _take(self, event: Event) -> None:
        match event:
            case Report():
                self._take_report(event)
            case Lost():
                for order in event.started:
                    if self._open.pop(order.number, None):
                        self._recorder.lost(
                            order,
                            slot=event.slot,
                            ending=Ending.WORKER_LOST,
                            detail=event.detail,
                        )
                        self._settle(order.number)
                self._take_back(event.returned)
            case Returned():
                self._take_back(event.orders)

    def _take_report(self, report: Report) -> None:
        self._last_event[report.slot] = clock.monotonic_us()
        held = self._open.pop(report.number, None)
        if held is None:
            self._recorder.late(report)
            return
        if self._may_try_again(report):
            self._recorder.never_started(report)
            order = held[1]._replace(attempt=report.attempt + 1)
            self._redo.append((order,))
            return
        self._recorder.observe(report)
        # Durations of trials that hung or were killed would shrink the windows of the others.
        spent = max(report.duration_us, 100)
        self._mean_us = 0.9 * self._mean_us + 0.1 * spent if self._mean_us else float(spent)
        self._settle(report.number)

    def _may_try_again(self, report: Report) -> bool:
        return (
            report.ending == Ending.NOT_STARTED
            and report.code in TRANSIENT
            and report.attempt + 1 < MAX_ATTEMPTS
        )

    def _take_back(self, orders: tuple[Order, ...]) -> None:
        for order in orders:
            self._open.pop(order.number, None)
        if self._ended is None and orders:
            self._redo.append(orders)

    def _settle(self, number: int) -> None:
        """Counts a recorded trial; asks the policy after each whole block in schedule order."""
        for block in self._prefix.settle(number):
            if self._ended is None:
                why = self._controls.is_final(block + 1)
                if why is not None:
                    self._ended = Ended(StopReason.POLICY, why)
                    self._killed = True
                    self._executor.abort()

    def _elapsed_us(self) -> int:
        return self._spent_us + clock.monotonic_us() - self._started

    def _show(self, *, force: bool = False) -> None:
        now = clock.monotonic_us()
        if not force and now - self._shown_at < SNAPSHOT_US:
            return
        self._shown_at = now
        self._controls.watch(self._snapshot(now))

    def _snapshot(self, now: int) -> Snapshot:
        recorded, unresolved = self._recorder.counts
        planned = len(self._schedule)
        busy = {slot for slot, _ in self._open.values()}
        slowest = max((now - self._last_event.get(slot, now) for slot in busy), default=0)
        left = None
        if self._mean_us:
            left = int((planned - recorded) * self._mean_us / self._slots)
        return Snapshot(
            blocks=self._prefix.blocks,
            recorded=recorded,
            planned=planned,
            unresolved=unresolved,
            in_flight=len(self._open),
            slowest_us=slowest,
            elapsed_us=self._elapsed_us(),
            left_us=left,
        )


class Prefix:
    """The unbroken prefix of whole blocks, kept with no more than the blocks in flight."""

    def __init__(self, plan_schedule: Schedule, recovered: Recovered) -> None:
        """Takes the state that earlier sessions left."""
        self._size = plan_schedule.conditions
        self.blocks = recovered.whole_blocks
        self._held: dict[int, int] = dict(recovered.partial)

    def settle(self, number: int) -> Iterator[int]:
        """Counts one recorded trial and yields the blocks that the prefix gains by it."""
        block = number // self._size
        self._held[block] = self._held.get(block, 0) + 1
        while self._held.get(self.blocks) == self._size:
            del self._held[self.blocks]
            self.blocks += 1
            yield self.blocks - 1


def intent_of(place: Place, session: str, first: int, end: int, *, slots: int) -> Intent:
    """The intent for the blocks from `first` up to, not including, `end`."""
    facts = (*place.facts, ("slots", str(slots)))
    return Intent.model_validate(
        {
            "session": session,
            "boot": place.boot,
            "first_block": first,
            "end_block": end,
            "place": tuple({"name": name, "value": value} for name, value in sorted(facts)),
        }
    )
