"""Recipes with workers: each test is the recipe, with its failure window acted out."""

from __future__ import annotations

import os
import signal
import sqlite3
import warnings
from collections.abc import Callable, Iterator
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
from localqueue.contracts.harness import FakeClock
from localqueue.workers import OutboxRelay


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[SQLiteQueueStore]:
    with SQLiteQueueStore(tmp_path / "queue.db", clock=clock) as opened:
        yield opened


class Effects:
    """What handlers did outside, in a file, which outlives them."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "effects"

    def add(self, effect: object) -> None:
        with self.path.open("a") as file:
            file.write(f"{effect}\n")

    def all(self) -> list[str]:
        return self.path.read_text().splitlines()


@pytest.fixture
def effects(tmp_path: Path) -> Effects:
    return Effects(tmp_path)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def until_it_dies(run: Callable[[], object]) -> None:
    """Run in a process of its own, which is killed on the way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the test runner has threads; none of them is needed there
        pid = os.fork()
    if pid == 0:
        try:
            run()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_a_worker_counts_the_tries_of_workers_that_died(store: SQLiteQueueStore, clock: FakeClock) -> None:
    """Failure window: the message of a dead worker comes again when its lease ends, and that was a try."""
    queue: PersistentQueue[Any] = PersistentQueue("downloads", store=store, lease_timeout=30)
    queue.put("data.csv")

    def fail(url: str) -> None:
        raise ConnectionError

    until_it_dies(Worker(queue, lambda url: die()).run_until_empty)
    assert Worker(queue, fail).run_until_empty().total == 0
    clock.advance(31)
    assert Worker(queue, fail, max_tries=2, wait=wait_none()).run_until_empty().dead_lettered == 1


def test_effectively_once_work_outside_the_store_happens_again_after_a_crash(
    store: SQLiteQueueStore, clock: FakeClock, effects: Effects
) -> None:
    policy = EffectivelyOnceDelivery(result_policy=ReturnStoredResult())
    queue: PersistentQueue[Any] = PersistentQueue("payments", store=store, delivery_policy=policy)
    followed: PersistentQueue[Any] = PersistentQueue("receipts", store=store)
    alive = False

    def charge(payment: dict[str, int]) -> dict[str, int]:
        effects.add("charged")
        current_job().put("receipt", to=followed)
        if not alive:
            die()
        return {"receipt": 1}

    queue.put({"amount": 7}, dedupe_key="payment-1")
    until_it_dies(Worker(queue, charge).run_until_empty)
    clock.advance(31)
    alive = True
    assert Worker(queue, charge).run_until_empty().acked == 1
    queue.put({"amount": 7}, dedupe_key="payment-1")
    assert Worker(queue, charge).run_until_empty().skipped == 1

    assert effects.all() == ["charged", "charged"]  # the window
    assert followed.stats().total == 1  # the guarantee


def test_a_relay_that_dies_after_sending_sends_that_envelope_again(
    store: SQLiteQueueStore, clock: FakeClock, effects: Effects
) -> None:
    policy = EffectivelyOnceDelivery(commit_policy=TransactionalOutboxCommit())
    queue: PersistentQueue[Any] = PersistentQueue("orders", store=store, delivery_policy=policy)
    for number in range(3):
        queue.put(number, dedupe_key=f"order-{number}")
    Worker(queue, lambda number: number).run_until_empty()

    def send(envelope: dict[str, Any]) -> None:
        effects.add(envelope["result"])

    def send_and_die(envelope: dict[str, Any]) -> None:
        send(envelope)
        if len(effects.all()) == 2:
            die()

    until_it_dies(OutboxRelay(queue, send_and_die).run_until_empty)
    clock.advance(31)
    OutboxRelay(queue, send).run_until_empty()
    assert effects.all() == ["0", "1", "1", "2"]


def test_a_saga_compensates_a_step_that_was_cut_off_without_its_result(
    store: SQLiteQueueStore, clock: FakeClock, effects: Effects
) -> None:
    undone: list[tuple[str, Any]] = []
    compensations = {
        "reserve": lambda order, result: undone.append(("reserve", result)),
        "charge": lambda order, result: undone.append(("charge", result)),
    }
    policy = EffectivelyOnceDelivery(commit_policy=SagaCommit(compensations=compensations))
    queue: PersistentQueue[Any] = PersistentQueue("orders", store=store, delivery_policy=policy)

    def reserve() -> str:
        effects.add("reserve")
        return "shelf 3"

    def cut_off(order: int) -> None:
        current_job().step("reserve", reserve)
        current_job().step("charge", die)

    def fail(order: int) -> None:
        current_job().step("reserve", reserve)
        raise RuntimeError

    queue.put(1, dedupe_key="order-1")
    until_it_dies(Worker(queue, cut_off).run_until_empty)
    clock.advance(31)
    Worker(queue, fail, max_tries=1).run_until_empty()
    assert effects.all() == ["reserve"]
    assert undone == [("charge", None), ("reserve", "shelf 3")]
    assert queue.stats().dead == 1


def test_a_rolled_back_transaction_leaves_neither_row_nor_message(tmp_path: Path) -> None:
    with PersistentQueue[Any]("mails", store_path=tmp_path / "app.db") as queue:
        assert queue.store.qsize("mails") == 0  # makes the file
        connection = sqlite3.connect(tmp_path / "app.db")
        connection.execute("CREATE TABLE users (name TEXT)")
        with pytest.raises(RuntimeError), connection:
            connection.execute("INSERT INTO users VALUES ('ada')")
            queue.put("welcome", connection=connection)
            raise RuntimeError
        assert connection.execute("SELECT count(*) FROM users").fetchone() == (0,)
        connection.close()
        assert queue.stats().total == 0
