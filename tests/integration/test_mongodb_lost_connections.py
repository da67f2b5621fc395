"""A connection that is lost at a bad moment: no half of a commit, and nobody is held up by what was given up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from pymongo.errors import AutoReconnect
from pymongo.synchronous import mongo_client
from pymongo.synchronous.client_session import ClientSession

from localqueue.errors import LeaseLost
from localqueue.stores.engine import leases
from localqueue.stores.mongodb import MongoDBQueueStore, transaction
from localqueue.stores.port import Changes, LeaseRequest, NewMessage, Settle
from tests.servers import MongoDB

pytestmark = pytest.mark.server


@pytest.fixture
def store(mongodb: MongoDB) -> Iterator[MongoDBQueueStore]:
    with MongoDBQueueStore(mongodb.url, namespace=uuid4().hex) as store:
        yield store


def test_a_commit_whose_connection_has_to_be_looked_for_twice_is_whole(
    store: MongoDBQueueStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver begins a bulk write again, and then forgets what is not of the first kind."""
    store.put_one("jobs", "first", None)
    held = store.lease(LeaseRequest("jobs"))[0]
    retryable: Any = mongo_client._ClientConnectionRetryable
    real, failed = retryable._write, []

    def fail_once(self: Any) -> Any:
        if self._bulk is not None and not failed:
            failed.append(1)
            error = AutoReconnect("connection pool paused")
            for label in ("RetryableWriteError", "RetryableError", "SystemOverloadedError"):
                error._add_error_label(label)
            raise error
        return real(self)

    monkeypatch.setattr(retryable, "_write", fail_once)
    follow_up = NewMessage(store.mint()[0], "next", "second")
    done = store.commit(Changes(enqueue=[follow_up], settle=[Settle("jobs", held.id, "ack", held.attempts)]))
    assert failed
    assert done.settled == [True]
    assert store.get("jobs", held.id) is None
    assert [one.id for one in store.scan("next")] == [follow_up.id]


def test_a_transaction_whose_abort_was_lost_holds_up_nobody(
    store: MongoDBQueueStore, mongodb: MongoDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would stay open on the server for a minute, with the lock of the ordering key in it."""
    store.put_one("jobs", "first", None)

    def put(into: MongoDBQueueStore, *settles: Settle) -> None:
        message = NewMessage(into.mint()[0], "jobs", "x", ordering_key="k")
        into.commit(Changes(enqueue=[message], settle=settles))

    with MongoDBQueueStore(mongodb.url, namespace=store.namespace, timeout=20) as other:

        def lost(*_: object) -> None:
            raise AutoReconnect("connection closed")

        monkeypatch.setattr(transaction, "send_abort", lost)
        monkeypatch.setattr(ClientSession, "abort_transaction", lambda self: None)  # the driver's own goes the same way
        with pytest.raises(LeaseLost):
            put(store, Settle("jobs", store.mint()[0], "ack", 1))
        put(other)
        put(store)
    assert [one.payload for one in store.scan("jobs")] == ["first", "x", "x"]


@pytest.mark.parametrize("limit", [1, 3])
def test_a_message_is_consumed_in_the_moment_it_is_claimed(
    store: MongoDBQueueStore, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Nothing is left claimed by somebody who did not get it."""
    store.put_batch("jobs", ["a", "b", "c"], None)

    def cut(*_: object) -> None:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(leases, "ack_all", cut)
        with pytest.raises(ConnectionError):
            store.lease(LeaseRequest("jobs", limit, consume=True))
    assert [(one.state, one.attempts) for one in store.scan("jobs")] == [("ready", 0)] * 3
    taken = store.lease(LeaseRequest("jobs", limit, consume=True, leased_by="w"))
    assert [one.payload for one in taken] == ["a", "b", "c"][:limit]
    assert store.qsize("jobs") == store.stats("jobs").total == 3 - limit
