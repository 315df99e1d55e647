"""Every store against the in-memory double, step by step, with faults in between."""

import sqlite3
import tempfile
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ledger import (
    Appended,
    ClosedError,
    FencedError,
    Item,
    LedgerError,
    StoreUnavailableError,
    Tree,
    consistency_proof,
    verify_consistency,
)
from ledger.memory import MemoryStore
from ledger.sqlite import SqliteStore
from reproduce.testing.ledgers import (
    INVESTIGATION,
    NOW_US,
    OTHER,
    break_next_commit,
    check_chain,
    closing,
    note,
    observation,
    sample_plan,
)

ATTACKS = (
    "UPDATE ledger_entry SET body = x'7b7d'",
    "DELETE FROM ledger_entry",
    (
        "INSERT OR REPLACE INTO ledger_entry SELECT inv, seq, kind, key, x'7b7d', leaf"
        " FROM ledger_entry"
    ),
    "UPDATE ledger_head SET size = 0",
)
ITEMS = st.lists(
    st.builds(observation, st.integers(0, 6), code=st.sampled_from([0, 0, 0, 1]))
    | st.builds(note, st.sampled_from(["obs:0:0", "a", "b"]), st.sampled_from(["x", "y"])),
    max_size=6,
)
NAMES = st.sampled_from([INVESTIGATION, OTHER])
WHEN = st.sampled_from(["before", "after"])


class StoresAgree(RuleBasedStateMachine):
    """`model` is the double, `store` the file; `reached` says what the steps have shown."""

    def __init__(self, path: Path, reached: set[str]) -> None:
        super().__init__()
        self.path = path
        self.reached = reached
        self.model = MemoryStore()
        self.store = SqliteStore(path)
        self.clock_us = NOW_US
        self.old_roots: list[tuple[int, str]] = []

    @initialize()
    def open_both(self) -> None:
        for name in (INVESTIGATION, OTHER):
            for store in (self.model, self.store):
                store.open_investigation(name, sample_plan(), recorded_us=self.clock_us)

    @rule(name=NAMES, items=ITEMS, fence=st.sampled_from([None, 0, 0, -1]))
    def append(self, name: str, items: list[Item], fence: int | None) -> None:
        self.clock_us += 1
        if fence is not None:
            fence += self.model.head(name).fence
        said = self._both(name, items, fence)
        if isinstance(said, Appended):
            self.reached.update(
                word
                for word, is_so in (
                    ("written", said.written),
                    ("repeated", said.repeated),
                    ("conflict", said.conflicts),
                )
                if is_so
            )
        else:
            self.reached.add(said.__name__)

    def _both(
        self, name: str, items: list[Item], fence: int | None
    ) -> Appended | type[LedgerError]:
        said = [
            _said(store, name, items, self.clock_us, fence) for store in (self.model, self.store)
        ]
        assert said[0] == said[1]
        return said[0]

    @rule(name=NAMES, items=ITEMS, when=WHEN)
    def append_with_a_fault(
        self, name: str, items: list[Item], when: Literal["before", "after"]
    ) -> None:
        self.clock_us += 1
        break_next_commit(self.store, when, sqlite3.OperationalError("disk I/O error"))
        said = _said(self.store, name, items, self.clock_us, None)
        del self.store._commit  # the fault, where the batch did not come so far
        if said is StoreUnavailableError:
            self.reached.add(f"broken {when}")
        else:
            assert said is ClosedError
        expected = _said(self.model, name, items, self.clock_us, None)
        again = _said(self.store, name, items, self.clock_us, None)
        if isinstance(expected, Appended) and isinstance(again, Appended):
            assert (again.size, again.conflicts) == (expected.size, expected.conflicts)
        else:
            assert again == expected

    @rule(name=NAMES)
    def lease(self, name: str) -> None:
        assert self.model.lease(name) == self.store.lease(name)

    @precondition(lambda self: self.model.head(OTHER).size > 2)
    @rule()
    def close_the_other(self) -> None:
        self._both(OTHER, [closing()], None)
        assert self._both(OTHER, [note("late", "x")], None) is ClosedError
        self.reached.add(ClosedError.__name__)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = SqliteStore(self.path)

    @rule(name=NAMES)
    def rebuild(self, name: str) -> None:
        assert self.model.rebuild(name) == self.store.rebuild(name)

    @rule(attack=st.sampled_from(ATTACKS))
    def attack(self, attack: str) -> None:
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(attack)
        finally:
            connection.close()

    @rule()
    def remember_the_root(self) -> None:
        head = self.store.head(INVESTIGATION)
        self.old_roots.append((head.size, head.root))

    @invariant()
    def both_hold_the_same(self) -> None:
        assert self.store.investigations() == self.model.investigations()
        for row in self.model.investigations():
            assert self.store.head(row.id) == self.model.head(row.id)
            assert list(self.store.entries(row.id)) == list(self.model.entries(row.id))
        check_chain(self.store)

    def teardown(self) -> None:
        for row in self.model.investigations():
            self.store.audit(row.id)
        leaves = [entry.leaf for entry in self.store.entries(INVESTIGATION)]
        tree = Tree()
        tree.extend(leaves)
        for size, root in self.old_roots:
            assert verify_consistency(
                size,
                len(leaves),
                consistency_proof(leaves, size),
                first_root=bytes.fromhex(root),
                second_root=tree.root(),
            )
        self.store.close()


def _said(
    store: MemoryStore | SqliteStore,
    name: str,
    items: list[Item],
    clock_us: int,
    fence: int | None,
) -> Appended | type[LedgerError]:
    try:
        return store.append(name, items, recorded_us=clock_us, fence=fence)
    except LedgerError as error:
        return type(error)


def run(folder: Path, chosen: settings) -> set[str]:
    """Runs the machine with these settings; returns what its steps have shown."""
    reached: set[str] = set()

    def machine() -> StoresAgree:
        place = Path(tempfile.mkdtemp(dir=folder))
        return StoresAgree(place / "ledger.sqlite", reached)

    run_state_machine_as_test(machine, settings=chosen)
    return reached


@pytest.mark.slow
@pytest.mark.faults
def test_no_sequence_of_steps_tells_the_file_from_the_double(tmp_path: Path) -> None:
    # The same steps every time, or what they reach would differ from one day to another.
    chosen = settings(max_examples=20, stateful_step_count=15, derandomize=True, database=None)

    reached = run(tmp_path, chosen)

    assert reached >= {
        "written",
        "repeated",
        "conflict",
        FencedError.__name__,
        ClosedError.__name__,
        "broken before",
        "broken after",
    }


@pytest.mark.nightly
@pytest.mark.faults
def test_no_new_sequence_of_steps_tells_them_apart_either(tmp_path: Path) -> None:
    run(tmp_path, settings(max_examples=600, stateful_step_count=40))
