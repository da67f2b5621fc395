"""Transactions that are in each other's way all come through, and none of them decides by what another one changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from localqueue.errors import QueueFull
from localqueue.stores.engine.unit import Unit
from localqueue.stores.mongodb import MongoDBQueueStore
from localqueue.stores.mongodb.rows import rows_of
from localqueue.stores.port import Changes, LeaseRequest, Limit, NewMessage, Settle, Subscriptions
from tests.processes import context
from tests.servers import MongoDB

pytestmark = [pytest.mark.server, pytest.mark.multiprocess, pytest.mark.slow]

_PROCESSES = 8
_EACH = 12


def _run(work: Callable[..., list[str]], url: str, namespace: str, go: Any, answers: Any) -> None:
    with MongoDBQueueStore(url, namespace=namespace, timeout=60) as store:
        store.queues()
        go.wait(60)
        answers.put(work(store))


def _crew(work: Callable[..., list[str]], url: str, namespace: str) -> list[list[str]]:
    go, answers = context.Barrier(_PROCESSES), context.Queue()
    processes = [
        context.Process(target=_run, args=(work, url, namespace, go, answers), daemon=True) for _ in range(_PROCESSES)
    ]
    for process in processes:
        process.start()
    found = [answers.get(timeout=90) for _ in processes]
    for process in processes:
        process.join(20)
        assert process.exitcode == 0
    return found


def _work_on_one_key(store: MongoDBQueueStore) -> list[str]:
    """Put on one ordering key, and handle whatever is at its head."""
    done = []
    for _ in range(_EACH):
        new = NewMessage(store.mint()[0], "jobs", "x", ordering_key="k")
        store.commit(Changes(enqueue=[new]))
        for message in store.lease(LeaseRequest("jobs", timeout=300)):
            assert store.ack_one("jobs", message.id, message.attempts)
            done.append(message.id)
    return done


def test_eight_processes_on_one_ordering_key_handle_each_message_once(mongodb: MongoDB) -> None:
    namespace = uuid4().hex
    done = [one for part in _crew(_work_on_one_key, mongodb.url, namespace) for one in part]
    with MongoDBQueueStore(mongodb.url, namespace=namespace) as store:
        assert store.check().problems == ()
        while found := store.lease(LeaseRequest("jobs")):
            assert len(found) == 1
            assert store.lease(LeaseRequest("jobs")) == []  # the next one waits for this one
            assert store.ack_one("jobs", found[0].id, found[0].attempts)
            done.append(found[0].id)
        assert store.scan("jobs") == []
    assert len(done) == len(set(done)) == _PROCESSES * _EACH


def _fill_and_empty(store: MongoDBQueueStore) -> list[str]:
    taken = []
    for _ in range(_EACH):
        new = NewMessage(store.mint()[0], "jobs", "x")
        try:
            store.commit(Changes(enqueue=[new], limits={"jobs": Limit(3)}))
        except QueueFull:
            assert store.load("jobs") <= 3
            taken += [message.id for message in store.lease(LeaseRequest("jobs", consume=True))]
    return taken


def test_eight_processes_on_one_bounded_queue_never_exceed_it(mongodb: MongoDB) -> None:
    namespace = uuid4().hex
    taken = [one for part in _crew(_fill_and_empty, mongodb.url, namespace) for one in part]
    with MongoDBQueueStore(mongodb.url, namespace=namespace) as store:
        assert len(taken) == len(set(taken))
        assert store.load("jobs") <= 3
        assert store.check().problems == ()


def _settle_one_run(store: MongoDBQueueStore) -> list[str]:
    done = []
    while found := store.lease(LeaseRequest("jobs", 3, timeout=300)):
        settles = [Settle("jobs", message.id, "ack", message.attempts) for message in found]
        assert store.commit(Changes(settle=settles)).settled == [True] * len(found)
        done += [message.id for message in found]
    return done


def test_eight_processes_settle_one_run_and_free_what_waits_for_it(mongodb: MongoDB) -> None:
    namespace = uuid4().hex
    with MongoDBQueueStore(mongodb.url, namespace=namespace) as store:
        ids = store.mint(60)
        store.commit(Changes(enqueue=[NewMessage(one, "jobs", "x", run_id="r") for one in ids]))
        last = store.mint()[0]
        store.commit(Changes(enqueue=[NewMessage(last, "last", "x", run_id="r", after=tuple(ids))]))
        done = [one for part in _crew(_settle_one_run, mongodb.url, namespace) for one in part]
        assert sorted(done) == ids
        run = store.run("r")
        assert run is not None
        assert (run.total, run.done, run.ready) == (61, 60, 1)
        assert [message.id for message in store.lease(LeaseRequest("last"))] == [last]
        assert store.check().problems == ()


def test_a_queue_that_is_made_while_a_transaction_runs_is_not_missed_by_it(mongodb: MongoDB) -> None:
    with MongoDBQueueStore(mongodb.url, namespace=uuid4().hex) as store:
        made: list[int] = []

        def subscribe(unit: Unit) -> bool:
            rows = rows_of(unit)
            if not made:  # by somebody else, when this one can not see it any more
                store.server.messages.find_one({"_id": 0}, session=rows.session)
                made.append(store.queue_number("topic"))
            return rows.subscribe(made[0], "a", True)

        assert store._write(subscribe)
        assert store.subscriptions("topic") == Subscriptions(1, ("a",))
