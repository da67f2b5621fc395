"""Every commit policy keeps its contract on every store, and with every kind of ledger.

What a policy keeps outside of the store, and in which form, is decided above the store: those ways run on SQLite.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue, current_job
from localqueue.contracts import CommitContract, CommitHarness, FakeClock
from localqueue.idempotency import MemoryIdempotencyStore, QueueIdempotencyStore, SQLiteIdempotencyStore
from localqueue.policies import (
    LocalAtomicCommit,
    ReturnStoredResult,
    SagaCommit,
    TransactionalOutboxCommit,
    TwoPhaseCommit,
)
from localqueue.results import MemoryResultStore, QueueResultStore
from localqueue.workers import OutboxRelay
from tests.stores import SHARED, new_place

pytestmark = pytest.mark.slow


def ways(everywhere: str, *on_sqlite: str) -> Any:
    """One way of keeping things on every store, the others on SQLite."""
    pairs = [*((kind, everywhere) for kind in SHARED), *(("sqlite", way) for way in on_sqlite)]
    return pytest.mark.parametrize(("opened", "way"), pairs, indirect=["opened"])


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[FakeClock], Any]:
    folders = (tmp_path / str(n) for n in itertools.count())

    def opened(clock: FakeClock) -> Any:
        folder = next(folders)
        folder.mkdir()
        return new_place(request.param, folder).open(clock=clock)

    return opened


@ways("in the store", "inline", "apart")
class TestLocalAtomic(CommitContract):
    @pytest.fixture
    def harness(self, way: str, opened: Callable[[FakeClock], Any]) -> CommitHarness:
        def delivery(store: Any) -> dict[str, Any]:
            results = {"inline": None, "in the store": QueueResultStore(store), "apart": MemoryResultStore()}
            return {
                "idempotency_store": QueueIdempotencyStore(store),
                "result_policy": ReturnStoredResult(result_store=results[way]),
            }

        return CommitHarness(open=opened, make_policy=LocalAtomicCommit, make_delivery=delivery)


@pytest.mark.parametrize("opened", ["sqlite"], indirect=True)
class TestExternalLedger(CommitContract):
    @pytest.fixture(params=["memory", "sqlite"])
    def harness(self, request: pytest.FixtureRequest, opened: Callable[[FakeClock], Any], tmp_path: Path) -> Any:
        ledgers: list[Any] = []

        def delivery(store: Any) -> dict[str, Any]:
            path = tmp_path / f"ledger-{len(ledgers)}"
            ledgers.append(MemoryIdempotencyStore() if request.param == "memory" else SQLiteIdempotencyStore(path))
            return {"idempotency_store": ledgers[-1]}

        yield CommitHarness(open=opened, make_policy=LocalAtomicCommit, make_delivery=delivery)
        for ledger in ledgers:
            ledger.close()


@ways("own store", "apart")
class TestOutbox(CommitContract):
    @pytest.fixture
    def harness(self, way: str, opened: Callable[[FakeClock], Any]) -> CommitHarness:
        sent: list[Any] = []
        outbox = MemoryResultStore() if way == "apart" else None

        def drain(queue: PersistentQueue[Any]) -> None:
            OutboxRelay(queue, sent.append).run_until_empty(signals=False)

        return CommitHarness(
            open=opened,
            make_policy=lambda: TransactionalOutboxCommit(outbox_store=outbox),
            applied=lambda: sent,
            effects=1,
            drain=drain,
        )


class Bank:
    def __init__(self) -> None:
        self.prepared: dict[str, Any] = {}
        self.committed: list[Any] = []

    def prepare(self, txid: str, envelope: dict[str, Any]) -> None:
        self.prepared[txid] = envelope["dedupe_key"]

    def commit(self, txid: str) -> None:
        if txid in self.prepared:
            self.committed.append(self.prepared.pop(txid))

    def rollback(self, txid: str) -> None:
        self.prepared.pop(txid, None)


@ways("own ledger", "external ledger")
class TestTwoPhase(CommitContract):
    @pytest.fixture
    def harness(self, way: str, opened: Callable[[FakeClock], Any]) -> CommitHarness:
        one, two = Bank(), Bank()

        def delivery(store: Any) -> dict[str, Any]:
            return {"idempotency_store": None if way == "own ledger" else MemoryIdempotencyStore()}

        return CommitHarness(
            open=opened,
            make_policy=lambda: TwoPhaseCommit(participants=(one, two)),
            make_delivery=delivery,
            applied=lambda: one.committed + two.committed,
            effects=2,
            unfinished=lambda: [*one.prepared, *two.prepared],
        )


@pytest.mark.parametrize("opened", SHARED, indirect=True)
class TestSaga(CommitContract):
    @pytest.fixture
    def harness(self, opened: Callable[[FakeClock], Any]) -> CommitHarness:
        booked: dict[Any, None] = {}

        def book(what: str) -> str:
            booked[current_job().message.id, what] = None
            return current_job().message.id

        def undo(what: str) -> Callable[[Any, Any], None]:
            def cancel(value: Any, result: Any) -> None:
                for key in list(booked):
                    if key[1] == what and result in (None, key[0]):
                        del booked[key]

            return cancel

        def step(value: Any) -> None:
            for what in ("flight", "hotel"):
                current_job().step(what, book, what)

        return CommitHarness(
            open=opened,
            make_policy=lambda: SagaCommit(compensations={"flight": undo("flight"), "hotel": undo("hotel")}),
            applied=lambda: list(booked),
            effects=2,
            step=step,
        )
