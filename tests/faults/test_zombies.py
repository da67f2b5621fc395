"""A worker that was stopped dead beyond its lease comes back: its settle is refused, and the effects happened once."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue, Worker, current_job
from localqueue.contracts.steps import PATIENCE
from localqueue.errors import QueueStoreLockedError
from localqueue.idempotency import QueueIdempotencyStore
from localqueue.policies import EffectivelyOnceDelivery, ReturnStoredResult
from tests.processes import context
from tests.stores import SERVERS, SHARED, Place, new_place

pytestmark = [pytest.mark.multiprocess, pytest.mark.crash, pytest.mark.slow]


def effectively_once(store: Any) -> PersistentQueue[str]:
    delivery = EffectivelyOnceDelivery(result_policy=ReturnStoredResult())
    return PersistentQueue("jobs", store=store, lease_timeout=1.0, delivery_policy=delivery)


def at_least_once(store: Any) -> PersistentQueue[str]:
    return PersistentQueue("jobs", store=store, lease_timeout=1.0)


QUEUES = {"ledger": effectively_once, "plain": at_least_once}


def live(connection: Connection, place: Place, delivery: str) -> None:
    """A worker whose handler says that it began, and then waits to be told to go on."""
    with place.open() as store:
        effects: PersistentQueue[str] = PersistentQueue("effects", store=store)

        def handle(value: str) -> str:
            connection.send("begun")
            connection.recv()
            current_job().put("by the zombie", to=effects)
            return "by the zombie"

        def settled(outcome: Any) -> None:
            connection.send(outcome.state)

        worker = Worker(QUEUES[delivery](store), handle, max_tries=5, on_settled=settled)
        worker.run_until_empty(signals=False)
        connection.send("gone")


def stop(pid: int, store: Any) -> None:
    """Stop a process, at a moment when it does not hold the lock of a file: nobody else could write then."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        try:
            store.heartbeat("elsewhere", "witness")
            return
        except QueueStoreLockedError:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("delivery", QUEUES)
@pytest.mark.parametrize("kind", SHARED)
def test_a_worker_that_comes_back_after_its_lease_settles_nothing(kind: str, delivery: str, tmp_path: Path) -> None:
    place = new_place(kind, tmp_path)
    with place.open(**({} if kind in SERVERS else {"timeout": 2.0})) as store:  # how long `stop` waits for a lock
        queue = QUEUES[delivery](store)
        effects: PersistentQueue[str] = PersistentQueue("effects", store=store)
        queue.put("x", dedupe_key="once")
        ours, theirs = context.Pipe()
        zombie = context.Process(target=live, args=(theirs, place, delivery), daemon=True)
        zombie.start()
        theirs.close()
        assert ours.poll(PATIENCE) and ours.recv() == "begun"
        assert zombie.pid is not None
        stop(zombie.pid, store)
        try:
            message = queue.get_message(timeout=PATIENCE)  # as soon as the lease of the stopped one has run out
            assert message.tries == 2
            queue.release(message)
            runs: list[str] = []

            def handle(value: str) -> str:
                runs.append(value)
                current_job().put("by the heir", to=effects)
                return "by the heir"

            Worker(queue, handle, max_tries=5).run_until_empty(signals=False)
            assert runs == ["x"]
            assert queue.stats().total == 0
        finally:
            os.kill(zombie.pid, signal.SIGCONT)
        ours.send("go on")
        said: list[str] = []
        while said[-1:] != ["gone"]:
            assert ours.poll(PATIENCE), f"the worker does not end: {said}"
            said.append(ours.recv())
        assert said == ["lost", "gone"]
        zombie.join(PATIENCE)
        ours.close()
        assert zombie.exitcode == 0
        assert [message.value for message in effects.messages()] == ["by the heir"]
        if delivery == "ledger":
            record = QueueIdempotencyStore(store).load("jobs:once")
            assert record is not None
            assert (record.status, record.metadata["result"]) == ("succeeded", "by the heir")
        assert store.check().problems == ()
