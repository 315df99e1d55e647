from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger import LedgerStore
from ledger.memory import MemoryStore
from ledger.sqlite import SqliteStore
from reproduce.testing.stores import Reopen, StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> LedgerStore:
        return MemoryStore()

    @pytest.fixture
    def reopen(self) -> Reopen:
        return lambda store: store


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def opened_files(self) -> Iterator[list[LedgerStore]]:
        stores: list[LedgerStore] = []
        yield stores
        for store in stores:
            store.close()

    @pytest.fixture
    def store(self, tmp_path: Path, opened_files: list[LedgerStore]) -> LedgerStore:
        opened_files.append(SqliteStore(tmp_path / "ledger.sqlite"))
        return opened_files[-1]

    @pytest.fixture
    def reopen(self, tmp_path: Path, opened_files: list[LedgerStore]) -> Reopen:
        def again(store: LedgerStore) -> LedgerStore:
            store.close()
            opened_files.append(SqliteStore(tmp_path / "ledger.sqlite"))
            return opened_files[-1]

        return again
