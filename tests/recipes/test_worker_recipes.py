"""Recipes with workers: each test is the recipe, with its failure window acted out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tenacity import wait_none

from localqueue import (
    EffectivelyOnceDelivery,
    PersistentQueue,
    ReturnStoredResult,
    SagaCommit,
    SQLiteQueueStore,
    TransactionalOutboxCommit,
    Worker,
    current_job,
)
from localqueue.testing.harness import FakeClock
from localqueue.workers import OutboxRelay


class Died(BaseException):
    """Stands for the death of a worker: nothing after it runs."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[SQLiteQueueStore]:
    with SQLiteQueueStore(tmp_path / "queue.db", clock=clock) as opened:
        yield opened


def die_once(worker: Worker) -> None:
    with pytest.raises(Died):
        worker.run_until_empty()


def test_a_worker_counts_the_tries_of_workers_that_died(store: SQLiteQueueStore, clock: FakeClock) -> None:
    """Failure window: the message of a dead worker comes again when its lease ends, and that was a try."""
    queue: PersistentQueue[Any] = PersistentQueue("downloads", store=store, lease_timeout=30)
    queue.put("data.csv")

    def die(url: str) -> None:
        raise Died

    def fail(url: str) -> None:
        raise ConnectionError

    die_once(Worker(queue, die))
    assert Worker(queue, fail).run_until_empty().total == 0
    clock.advance(31)
    assert Worker(queue, fail, max_tries=2, wait=wait_none()).run_until_empty().dead_lettered == 1


def test_effectively_once_work_outside_the_store_happens_again_after_a_crash(
    store: SQLiteQueueStore, clock: FakeClock
) -> None:
    policy = EffectivelyOnceDelivery(result_policy=ReturnStoredResult())
    queue: PersistentQueue[Any] = PersistentQueue("payments", store=store, delivery_policy=policy)
    followed: PersistentQueue[Any] = PersistentQueue("receipts", store=store)
    outside: list[str] = []
    alive = False

    def charge(payment: dict[str, int]) -> dict[str, int]:
        outside.append("charged")
        current_job().put("receipt", to=followed)
        if not alive:
            raise Died
        return {"receipt": 1}

    queue.put({"amount": 7}, dedupe_key="payment-1")
    die_once(Worker(queue, charge))
    clock.advance(31)
    alive = True
    assert Worker(queue, charge).run_until_empty().acked == 1
    queue.put({"amount": 7}, dedupe_key="payment-1")
    assert Worker(queue, charge).run_until_empty().skipped == 1

    assert outside == ["charged", "charged"]  # the window
    assert followed.stats().total == 1  # the guarantee


def test_a_relay_that_dies_after_sending_sends_that_envelope_again(store: SQLiteQueueStore, clock: FakeClock) -> None:
    policy = EffectivelyOnceDelivery(commit_policy=TransactionalOutboxCommit())
    queue: PersistentQueue[Any] = PersistentQueue("orders", store=store, delivery_policy=policy)
    for number in range(3):
        queue.put(number, dedupe_key=f"order-{number}")
    Worker(queue, lambda number: number).run_until_empty()
    sent: list[int] = []

    def send_and_die(envelope: dict[str, Any]) -> None:
        sent.append(envelope["result"])
        if len(sent) == 2:
            raise Died

    with pytest.raises(Died):
        OutboxRelay(queue, send_and_die).run_until_empty()
    clock.advance(31)
    OutboxRelay(queue, lambda envelope: sent.append(envelope["result"])).run_until_empty()
    assert sent == [0, 1, 1, 2]


def test_a_saga_compensates_a_step_that_was_cut_off_without_its_result(
    store: SQLiteQueueStore, clock: FakeClock
) -> None:
    undone: list[tuple[str, Any]] = []
    compensations = {
        "reserve": lambda order, result: undone.append(("reserve", result)),
        "charge": lambda order, result: undone.append(("charge", result)),
    }
    policy = EffectivelyOnceDelivery(commit_policy=SagaCommit(compensations=compensations))
    queue: PersistentQueue[Any] = PersistentQueue("orders", store=store, delivery_policy=policy)
    ran: list[str] = []

    def die() -> None:
        raise Died

    def cut_off(order: int) -> None:
        current_job().step("reserve", lambda: ran.append("reserve") or "shelf 3")
        current_job().step("charge", die)

    def fail(order: int) -> None:
        current_job().step("reserve", lambda: ran.append("reserve") or "shelf 3")
        raise RuntimeError

    queue.put(1, dedupe_key="order-1")
    die_once(Worker(queue, cut_off))
    clock.advance(31)
    Worker(queue, fail, max_tries=1).run_until_empty()
    assert ran == ["reserve"]
    assert undone == [("charge", None), ("reserve", "shelf 3")]
    assert queue.stats().dead == 1


def test_a_rolled_back_transaction_leaves_neither_row_nor_message(tmp_path: Path) -> None:
    with PersistentQueue[Any]("mails", store_path=tmp_path / "app.db") as queue:
        assert queue.store.qsize("mails") == 0  # makes the file
        connection = sqlite3.connect(tmp_path / "app.db")
        connection.execute("CREATE TABLE users (name TEXT)")
        with pytest.raises(Died), connection:
            connection.execute("INSERT INTO users VALUES ('ada')")
            queue.put("welcome", connection=connection)
            raise Died
        assert connection.execute("SELECT count(*) FROM users").fetchone() == (0,)
        connection.close()
        assert queue.stats().total == 0
