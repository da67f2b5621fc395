"""Every store of this package keeps the contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localqueue.contracts import (
    AscendingIdsContract,
    SharedStoreContract,
    SteadyLineContract,
    StoreContract,
    StoreHarness,
)
from localqueue.stores.port import QueueStore
from localqueue.stores.sqlite import MemoryQueueStore, SQLiteQueueStore


def _open_memory(durability: str = "process", **options: Any) -> QueueStore:
    return MemoryQueueStore(**options)


class TestSQLite(SharedStoreContract, AscendingIdsContract, SteadyLineContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> StoreHarness:
        path = str(tmp_path / "queues.sqlite3")
        return StoreHarness(
            open=lambda **options: SQLiteQueueStore(path, **options),
            open_copy=SQLiteQueueStore,
            opener="localqueue.stores.sqlite:SQLiteQueueStore",
            location=path,
        )


class TestMemory(StoreContract, AscendingIdsContract, SteadyLineContract):
    @pytest.fixture
    def harness(self) -> StoreHarness:
        return StoreHarness(open=_open_memory, open_copy=SQLiteQueueStore)


@pytest.mark.slow
class TestLMDB(SharedStoreContract, AscendingIdsContract, SteadyLineContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> StoreHarness:
        from localqueue.stores.lmdb import LMDBQueueStore

        path = str(tmp_path / "queues.lmdb")
        return StoreHarness(
            open=lambda **options: LMDBQueueStore(path, **options),
            open_copy=LMDBQueueStore,
            opener="localqueue.stores.lmdb:LMDBQueueStore",
            location=path,
        )
