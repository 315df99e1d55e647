from pathlib import Path

from reproduce.executors.model import Executor, Lost, Order, Report
from reproduce.testing.executors import (
    COMPLAINS,
    STAYS,
    ExecutorContract,
    ScriptedExecutor,
    SlotLost,
    ended,
    order,
)


def as_the_contract_says(asked: Order) -> Report | None:
    if asked.condition == STAYS:
        return None
    return ended(asked, code=3 if asked.condition == COMPLAINS else 0)


class TestScriptedExecutor(ExecutorContract):
    def executor(self) -> Executor:
        return ScriptedExecutor(as_the_contract_says)

    def wait_until_begun(self, executor: Executor, *numbers: int) -> None:
        assert isinstance(executor, ScriptedExecutor)
        assert executor.events(0) == []
        assert {begun.number for begun in executor.begun}.issuperset(numbers)


def test_a_script_that_loses_its_slot_tells_begun_from_waiting(tmp_path: Path) -> None:
    def script(asked: Order) -> Report:
        if asked.number == 1:
            raise SlotLost("killed")
        return ended(asked)

    executor = ScriptedExecutor(script)
    executor.start([], slots=1, spool=tmp_path)
    executor.submit(0, [order(0), order(1), order(2)])

    events = [*executor.events(0), *executor.events(0)]

    assert events == [ended(order(0)), Lost(0, (order(1),), (order(2),), "killed")]
    assert list(executor.free()) == [0]
