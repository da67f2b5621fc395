"""Every attempt, idempotency and result store of this package keeps its contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localqueue.contracts import (
    AdapterHarness,
    AttemptStoreContract,
    ExclusiveIdempotencyStoreContract,
    ListedResultStoreContract,
    SharedIdempotencyStoreContract,
)
from localqueue.idempotency import (
    LMDBIdempotencyStore,
    MemoryIdempotencyStore,
    QueueIdempotencyStore,
    SQLiteIdempotencyStore,
)
from localqueue.results import LMDBResultStore, MemoryResultStore, QueueResultStore, SQLiteResultStore
from localqueue.retry import LMDBAttemptStore, MemoryAttemptStore, QueueAttemptStore, SQLiteAttemptStore
from localqueue.stores.lmdb import LMDBQueueStore
from localqueue.stores.port import QueueStore
from localqueue.stores.sqlite import MemoryQueueStore, SQLiteQueueStore
from tests.stores import OPENERS, new_place


@pytest.fixture(params=list(OPENERS))
def queue_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueueStore]:
    with new_place(request.param, tmp_path).open() as store:
        yield store


def ledger_in_sqlite_queue(path: str) -> QueueIdempotencyStore:
    return _OwnsItsQueueStore(SQLiteQueueStore(path))


def ledger_in_lmdb_queue(path: str) -> QueueIdempotencyStore:
    return _OwnsItsQueueStore(LMDBQueueStore(path))


class _OwnsItsQueueStore(QueueIdempotencyStore):
    def __init__(self, store: SQLiteQueueStore | LMDBQueueStore) -> None:
        super().__init__(store)
        self._owned = store

    def close(self) -> None:
        self._owned.close()


class TestMemoryAttempts(AttemptStoreContract):
    @pytest.fixture
    def harness(self) -> AdapterHarness:
        store = MemoryAttemptStore()
        return AdapterHarness(open=lambda: store)


class TestSQLiteAttempts(AttemptStoreContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> AdapterHarness:
        return AdapterHarness(open=lambda: SQLiteAttemptStore(tmp_path / "attempts.sqlite3"))


class TestLMDBAttempts(AttemptStoreContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> AdapterHarness:
        return AdapterHarness(open=lambda: LMDBAttemptStore(tmp_path / "attempts.lmdb"))


@pytest.mark.by_turns
class TestAttemptsInAQueueStore(AttemptStoreContract):
    @pytest.fixture
    def harness(self, queue_store: QueueStore) -> AdapterHarness:
        return AdapterHarness(open=lambda: QueueAttemptStore(queue_store))


class TestMemoryLedger(ExclusiveIdempotencyStoreContract):
    @pytest.fixture
    def harness(self) -> AdapterHarness:
        store = MemoryIdempotencyStore()
        return AdapterHarness(open=lambda: store)


class TestSQLiteLedger(SharedIdempotencyStoreContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> AdapterHarness:
        path = str(tmp_path / "ledger.sqlite3")
        return AdapterHarness(
            open=lambda: SQLiteIdempotencyStore(path),
            opener="localqueue.idempotency:SQLiteIdempotencyStore",
            location=path,
        )


class TestLMDBLedger(SharedIdempotencyStoreContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> AdapterHarness:
        path = str(tmp_path / "ledger.lmdb")
        return AdapterHarness(
            open=lambda: LMDBIdempotencyStore(path),
            opener="localqueue.idempotency:LMDBIdempotencyStore",
            location=path,
        )


class TestLedgerInAMemoryQueueStore(ExclusiveIdempotencyStoreContract):
    @pytest.fixture
    def harness(self) -> Iterator[AdapterHarness]:
        with MemoryQueueStore() as store:
            yield AdapterHarness(open=lambda: QueueIdempotencyStore(store))


class TestLedgerInASQLiteQueueStore(SharedIdempotencyStoreContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> AdapterHarness:
        path = str(tmp_path / "queues.sqlite3")
        return AdapterHarness(
            open=lambda: ledger_in_sqlite_queue(path), opener=f"{__name__}:ledger_in_sqlite_queue", location=path
        )


class TestLedgerInAnLMDBQueueStore(SharedIdempotencyStoreContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> AdapterHarness:
        path = str(tmp_path / "queues.lmdb")
        return AdapterHarness(
            open=lambda: ledger_in_lmdb_queue(path), opener=f"{__name__}:ledger_in_lmdb_queue", location=path
        )


class TestMemoryResults(ListedResultStoreContract):
    @pytest.fixture
    def harness(self) -> AdapterHarness:
        store = MemoryResultStore()
        return AdapterHarness(open=lambda: store)


class TestSQLiteResults(ListedResultStoreContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> AdapterHarness:
        return AdapterHarness(open=lambda: SQLiteResultStore(tmp_path / "results.sqlite3"))


class TestLMDBResults(ListedResultStoreContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> AdapterHarness:
        return AdapterHarness(open=lambda: LMDBResultStore(tmp_path / "results.lmdb"))


@pytest.mark.by_turns
class TestResultsInAQueueStore(ListedResultStoreContract):
    @pytest.fixture
    def harness(self, queue_store: QueueStore) -> AdapterHarness:
        return AdapterHarness(open=lambda: QueueResultStore(queue_store))
