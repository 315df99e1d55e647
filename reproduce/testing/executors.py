"""What every executor must keep to, and one without processes for tests of what stands above it."""
# A contract suite asserts, and its names say what the docstrings would.
# ruff: noqa: S101, D102

import select
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from reproduce import clock
from reproduce.executors.model import (
    Captured,
    Event,
    Executor,
    Lost,
    Order,
    Place,
    Report,
    Returned,
    World,
)

NOTHING = Captured(b"", b"", 0)
DEADLINE_S = 30.0

ENDS, COMPLAINS, STAYS = range(3)
"""The conditions of the contract: exit 0 at once, exit 3 at once, no end of its own."""


def order(number: int, condition: int = 0, *, delay_us: int = 0, attempt: int = 1) -> Order:
    """An order of a block of its own."""
    return Order(number, number, condition, attempt, number + 1000, delay_us)


def ended(asked: Order, ending: str = "exited", code: int | None = 0, slot: int = 0) -> Report:
    """A report without output; `_replace` gives it what a case needs."""
    return Report(
        number=asked.number,
        attempt=asked.attempt,
        condition=asked.condition,
        block=asked.block,
        seed=asked.seed,
        slot=slot,
        ending=ending,
        code=code,
        started_us=1_000_000 * asked.number,
        duration_us=1000,
        cpu_us=900,
        max_rss_kb=None,
        leftovers=0,
        stdout=NOTHING,
        stderr=NOTHING,
        files=(),
        evidence=(),
        detail="",
    )


def answered(event: Event) -> Iterator[tuple[int, int]]:
    """The attempts that an event answers."""
    if isinstance(event, Report):
        yield event.number, event.attempt
    elif isinstance(event, Lost):
        for lost in (*event.started, *event.returned):
            yield lost.number, lost.attempt
    else:
        for returned in event.orders:
            yield returned.number, returned.attempt


def gathered(executor: Executor, orders: int, *, deadline_s: float = DEADLINE_S) -> list[Event]:
    """Events until as many orders are answered, in the order of their arrival."""
    events: list[Event] = []
    left = orders
    deadline_us = clock.monotonic_us() + round(deadline_s * 1e6)
    while left > 0:
        assert clock.monotonic_us() < deadline_us, f"{left} orders without an answer: {events}"
        for event in executor.events(0.1):
            events.append(event)
            left -= len(list(answered(event)))
    return events


def reports(executor: Executor, orders: int, *, deadline_s: float = DEADLINE_S) -> list[Report]:
    """As many reports; anything else that happens is an error."""
    events = gathered(executor, orders, deadline_s=deadline_s)
    assert all(isinstance(event, Report) for event in events), events
    return [event for event in events if isinstance(event, Report)]


def wait_until(condition: Callable[[], bool], *, deadline_s: float = DEADLINE_S) -> None:
    """Returns once a condition holds, which is looked at every few milliseconds."""
    deadline_us = clock.monotonic_us() + round(deadline_s * 1e6)
    nothing = select.poll()
    while not condition():
        assert clock.monotonic_us() < deadline_us, "the condition does not come true"
        nothing.poll(5)


class SlotLost(Exception):  # noqa: N818 - what a script raises, not what went wrong
    """Raised by a script: the slot ends while it carries out this order."""


Script = Callable[[Order], Report | None]
"""What becomes of an order; `None` stays until it is cancelled, `SlotLost` takes its slot along."""


class ScriptedExecutor:
    """An `Executor` in which a function decides; each call of `events` ends one order a slot.

    `submitted` and `begun` hold the orders in the order of those calls. A lost slot is there
    again at once.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.submitted: list[tuple[int, Order]] = []
        self.begun: list[Order] = []
        self.worlds: tuple[World, ...] = ()
        self.is_closed = False
        self._queues: list[deque[Order]] = []
        self._staying: dict[int, Order] = {}
        self._events: list[Event] = []

    def start(self, worlds: Sequence[World], *, slots: int, spool: Path) -> Place:
        """Makes the slots ready; nothing is written to `spool`."""
        spool.mkdir(parents=True, exist_ok=True)
        self.worlds = tuple(worlds)
        self._queues = [deque() for _ in range(slots)]
        return Place((("containment", "none"), ("fresh_tree", "none"), ("host", "script")), "boot")

    def free(self) -> Sequence[int]:
        """Slots with nothing to do."""
        return [
            slot
            for slot, queue in enumerate(self._queues)
            if not queue and slot not in self._staying
        ]

    def submit(self, slot: int, orders: Sequence[Order]) -> None:
        """Gives a slot orders to carry out one after the other."""
        self._queues[slot].extend(orders)
        self.submitted += [(slot, order) for order in orders]

    def events(self, timeout_s: float) -> Sequence[Event]:
        """What happened since the last call; never waits."""
        del timeout_s
        for slot, queue in enumerate(self._queues):
            if queue and slot not in self._staying:
                self._carry_out(slot, queue.popleft())
        happened, self._events = self._events, []
        return happened

    def recall(self) -> None:
        """Gives back what has not begun."""
        for slot, queue in enumerate(self._queues):
            if queue:
                self._events.append(Returned(slot, tuple(queue)))
                queue.clear()

    def abort(self) -> None:
        """Cancels what stays, and recalls the rest."""
        for slot, staying in self._staying.items():
            self._events.append(ended(staying, "cancelled", None, slot))
        self._staying.clear()
        self.recall()

    def close(self) -> None:
        """Ends every slot."""
        self._queues, self._staying, self.is_closed = [], {}, True

    def _carry_out(self, slot: int, asked: Order) -> None:
        self.begun.append(asked)
        try:
            report = self.script(asked)
        except SlotLost as why:
            rest = tuple(self._queues[slot])
            self._queues[slot].clear()
            self._events.append(Lost(slot, (asked,), rest, str(why)))
            return
        if report is None:
            self._staying[slot] = asked
        else:
            self._events.append(report._replace(slot=slot))


class ExecutorContract:
    """What the engine relies on; a subclass says how to get an executor and its worlds."""

    def executor(self) -> Executor:
        """A new executor that was not started."""
        raise NotImplementedError

    def worlds(self) -> Sequence[World]:
        """The worlds of the conditions `ENDS`, `COMPLAINS` and `STAYS`, in this order."""
        shells = ("exit 0", "exit 3", "exec sleep 600")
        env = {"PATH": "/usr/bin:/bin"}
        return [World(("sh", "-c", text), env, 60_000_000) for text in shells]

    def started(self, folder: Path, slots: int) -> Executor:
        executor = self.executor()
        executor.start(self.worlds(), slots=slots, spool=folder / "spool" / "session")
        return executor

    def test_every_order_is_answered_once_and_by_its_own_slot(self, tmp_path: Path) -> None:
        executor = self.started(tmp_path, 2)
        given = {0: [order(n) for n in range(9)], 1: [order(n, COMPLAINS) for n in range(9, 13)]}

        for slot, orders in given.items():
            executor.submit(slot, orders)
        seen = reports(executor, 13)
        more = executor.events(0.05)
        executor.close()

        assert more == []
        assert sorted(report.number for report in seen) == list(range(13))
        assert {report.number for report in seen if report.slot == 1} == set(range(9, 13))
        assert {(report.ending, report.code) for report in seen if report.slot == 1} == {
            ("exited", 3)
        }

    def test_a_report_names_the_order_it_answers(self, tmp_path: Path) -> None:
        executor = self.started(tmp_path, 1)
        asked = Order(number=7, block=3, condition=COMPLAINS, attempt=2, seed=2**53 - 1)

        executor.submit(0, [asked])
        (report,) = reports(executor, 1)
        executor.close()

        assert (report.number, report.block, report.condition) == (7, 3, COMPLAINS)
        assert (report.attempt, report.seed, report.slot) == (2, 2**53 - 1, 0)

    def test_a_slot_carries_out_its_orders_one_after_the_other(self, tmp_path: Path) -> None:
        executor = self.started(tmp_path, 1)
        numbers = [5, 3, 9, 1, 7]

        executor.submit(0, [order(number) for number in numbers])
        seen = reports(executor, 5)
        executor.close()

        assert [report.number for report in seen] == numbers

    def test_a_slot_is_free_before_and_after_its_work_and_not_meanwhile(
        self, tmp_path: Path
    ) -> None:
        executor = self.started(tmp_path, 2)

        before = list(executor.free())
        executor.submit(1, [order(0, STAYS)])
        executor.events(0.05)
        meanwhile = list(executor.free())
        executor.abort()
        gathered(executor, 1)
        after = list(executor.free())
        executor.close()

        assert (before, meanwhile, after) == ([0, 1], [0], [0, 1])

    def test_nothing_happens_where_nothing_was_asked_for(self, tmp_path: Path) -> None:
        executor = self.started(tmp_path, 2)

        happened = executor.events(0.01)
        executor.close()

        assert happened == []

    def test_what_was_recalled_comes_back_while_the_running_trial_goes_on(
        self, tmp_path: Path
    ) -> None:
        executor = self.started(tmp_path, 1)
        waiting = [order(number) for number in range(2, 6)]
        executor.submit(0, [order(0), order(1, STAYS), *waiting])
        first = reports(executor, 1)
        self.wait_until_begun(executor, 1)

        executor.recall()
        (returned,) = gathered(executor, len(waiting))
        quiet = executor.events(0.05)
        executor.abort()
        (cancelled,) = reports(executor, 1)
        executor.close()

        assert [report.number for report in first] == [0]
        assert returned == Returned(0, tuple(waiting))
        assert quiet == []
        assert (cancelled.number, cancelled.ending, cancelled.code) == (1, "cancelled", None)

    def test_an_abort_cancels_what_runs_and_gives_back_the_rest(self, tmp_path: Path) -> None:
        executor = self.started(tmp_path, 2)
        executor.submit(0, [order(0, STAYS), order(1)])
        executor.submit(1, [order(2, STAYS), order(3), order(4)])
        self.wait_until_begun(executor, 0, 2)

        executor.abort()
        events = gathered(executor, 5)
        executor.close()

        cancelled = {event.number: event.ending for event in events if isinstance(event, Report)}
        returned = {
            event.slot: [order.number for order in event.orders]
            for event in events
            if isinstance(event, Returned)
        }
        assert cancelled == {0: "cancelled", 2: "cancelled"}
        assert returned == {0: [1], 1: [3, 4]}

    def test_a_slot_goes_on_after_an_abort(self, tmp_path: Path) -> None:
        executor = self.started(tmp_path, 1)
        executor.submit(0, [order(0, STAYS)])
        self.wait_until_begun(executor, 0)
        executor.abort()
        gathered(executor, 1)

        executor.submit(0, [order(1), order(2, COMPLAINS)])
        seen = reports(executor, 2)
        executor.close()

        assert [(report.ending, report.code) for report in seen] == [("exited", 0), ("exited", 3)]

    def test_a_recall_with_nothing_to_give_back_is_silent(self, tmp_path: Path) -> None:
        executor = self.started(tmp_path, 2)

        executor.recall()
        happened = executor.events(0.05)
        executor.close()

        assert happened == []

    def test_an_executor_closes_while_trials_run(self, tmp_path: Path) -> None:
        executor = self.started(tmp_path, 2)
        executor.submit(0, [order(0, STAYS), order(1, STAYS)])
        self.wait_until_begun(executor, 0)

        executor.close()

    def wait_until_begun(self, executor: Executor, *numbers: int) -> None:
        """Returns once the trials with these numbers have begun."""
        raise NotImplementedError
