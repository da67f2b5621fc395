"""A store that is opened to look makes nothing and changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from localqueue.errors import QueueStoreMissingError, QueueStoreReadOnlyError
from localqueue.stores import open_store
from localqueue.stores.mongodb import MongoDBQueueStore
from localqueue.stores.port import Changes, Lease, LeaseRequest, NewMessage, QueueStore
from tests.servers import MongoDB

pytestmark = pytest.mark.server


@pytest.fixture
def fresh_url(mongodb: MongoDB) -> str:
    """A database of its own."""
    return mongodb.url.replace("/?", f"/{uuid4().hex}?")


def _everything(store: MongoDBQueueStore) -> dict[str, list[Any]]:
    database = store.server.database
    return {name: sorted(map(repr, database[name].find())) for name in sorted(database.list_collection_names())}


def test_where_there_is_nothing_it_says_so_and_makes_nothing(mongodb: MongoDB, fresh_url: str) -> None:
    with pytest.raises(QueueStoreMissingError, match="there is no store at 'mongodb://"):
        open_store(fresh_url, read_only=True)
    with MongoDBQueueStore(mongodb.url, namespace=uuid4().hex) as other:
        names = other.server.client.list_database_names()
    assert fresh_url.rpartition("/")[2].partition("?")[0] not in names


def test_a_namespace_that_is_not_there_is_not_made(fresh_url: str) -> None:
    with MongoDBQueueStore(fresh_url) as store:
        before = _everything(store)
        with pytest.raises(QueueStoreMissingError, match="there is no namespace 'other' in the store at"):
            open_store(fresh_url, namespace="other", read_only=True)
        assert _everything(store) == before


def test_it_shows_what_is_there_and_changes_nothing(fresh_url: str, tmp_path: Path) -> None:
    with MongoDBQueueStore(fresh_url) as store, open_store(fresh_url, read_only=True) as looking:
        store.put_one("jobs", "x", None)
        store.commit(Changes(enqueue=[NewMessage(store.mint()[0], "jobs", "y", run_id="r")]))
        before = _everything(store)
        assert [message.payload for message in looking.scan("jobs")] == ["x", "y"]
        assert looking.stats("jobs").ready == looking.qsize("jobs") == 2
        assert looking.run("r") == store.run("r")
        assert looking.prune("jobs", state="dead", older_than=0.0, dry_run=True) == 0
        assert looking.check().ok
        looking.backup(str(tmp_path / "copy.db"))
        for name in ("jobs", "nothing"):
            assert looking.queues() == ["jobs"]
            looking.stats(name), looking.qsize(name), looking.paused(name), looking.subscriptions(name)
        assert _everything(store) == before


WRITES: dict[str, Callable[[QueueStore], object]] = {
    "put_one": lambda store: store.put_one("jobs", "x", None),
    "put_batch": lambda store: store.put_batch("jobs", ["x"], None),
    "commit": lambda store: store.commit(Changes(enqueue=[NewMessage(store.mint()[0], "jobs", "x")])),
    "lease": lambda store: store.lease(LeaseRequest("jobs")),
    "renew": lambda store: store.renew([Lease("jobs", store.mint()[0], 1)], timeout=1.0),
    "ack_one": lambda store: store.ack_one("jobs", store.mint()[0], 1),
    "subscribe": lambda store: store.subscribe("jobs", "a"),
    "unsubscribe": lambda store: store.unsubscribe("jobs", "a"),
    "requeue": lambda store: store.requeue("jobs"),
    "prune": lambda store: store.prune("jobs", state="dead", older_than=0.0),
    "purge": lambda store: store.purge("jobs"),
    "cancel_run": lambda store: store.cancel_run("r"),
    "pause": lambda store: store.pause("jobs"),
    "resume": lambda store: store.resume("jobs"),
    "heartbeat": lambda store: store.heartbeat("jobs", "w"),
    "enable_journal": lambda store: store.enable_journal(),
    "disable_journal": lambda store: store.disable_journal(),
    "prune_events": lambda store: store.prune_events(older_than=0.0),
}


@pytest.mark.parametrize("verb", WRITES)
def test_every_write_is_refused(mongodb: MongoDB, verb: str) -> None:
    namespace = uuid4().hex
    with (
        MongoDBQueueStore(mongodb.url, namespace=namespace),
        MongoDBQueueStore(mongodb.url, namespace=namespace, read_only=True) as looking,
    ):
        with pytest.raises(QueueStoreReadOnlyError, match="opened to look"):
            WRITES[verb](looking)
        assert looking.queues() == []


def test_who_looks_can_wait_for_what_comes(mongodb: MongoDB) -> None:
    namespace = uuid4().hex
    with (
        MongoDBQueueStore(mongodb.url, namespace=namespace) as store,
        MongoDBQueueStore(mongodb.url, namespace=namespace, read_only=True) as looking,
        looking.listen(["jobs"]) as waiter,
    ):
        woken: list[bool] = []
        thread = threading.Thread(target=lambda: woken.append(waiter.wait(30.0)))
        thread.start()
        store.put_one("jobs", "x", None)
        thread.join(30.0)
    assert woken == [True]


def test_nothing_that_is_read_makes_a_queue(mongodb: MongoDB) -> None:
    with MongoDBQueueStore(mongodb.url, namespace=uuid4().hex) as store:
        (unknown,) = store.mint()
        assert (store.qsize("jobs"), store.load("jobs"), store.stats("jobs").total) == (0, 0, 0)
        assert store.get("jobs", unknown) is None
        assert (store.scan("jobs"), store.splits("jobs", 2), store.upstream("jobs", unknown)) == ([], [], [])
        assert store.lease(LeaseRequest("jobs")) == []
        assert not store.ack_one("jobs", unknown, 1)
        assert store.requeue("jobs") == store.requeue("jobs", [unknown]) == 0
        assert store.events(queue="jobs") == []
        assert store.queues() == []
