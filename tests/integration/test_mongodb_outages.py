"""The server goes away and comes back: calls wait for it or say so, nothing is lost or doubled, waiters still wake."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from localqueue.errors import QueueStoreUnavailableError
from localqueue.stores.mongodb import MongoDBQueueStore
from localqueue.stores.port import Changes, LeaseRequest, NewMessage, Settle
from tests.servers import MongoDB

pytestmark = [pytest.mark.server, pytest.mark.slow]

PATIENCE = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[MongoDB]:
    """One of our own, because these tests end it."""
    own = MongoDB()
    own.start()
    yield own
    own.stop()


@pytest.fixture
def store(server: MongoDB) -> Iterator[MongoDBQueueStore]:
    if server.process is None:
        server.start()
    with MongoDBQueueStore(server.url, namespace=uuid4().hex) as store:
        store.put_one("jobs", "first", None)
        yield store


@pytest.mark.crash
def test_the_first_call_after_a_crash_works_on_the_open_store(server: MongoDB, store: MongoDBQueueStore) -> None:
    held = store.lease(LeaseRequest("jobs", timeout=300))[0]
    confirmed = [store.put_one("jobs", str(n), None)[0] for n in range(20)]
    server.kill()
    server.start()
    confirmed.append(store.put_one("jobs", "after", None)[0])
    assert store.ack_one("jobs", held.id, held.attempts)
    assert [message.id for message in store.scan("jobs")] == sorted(confirmed)
    assert store.check().ok


def test_a_server_that_stays_away_is_unavailable_and_then_works_again(server: MongoDB) -> None:
    with MongoDBQueueStore(server.url, namespace=uuid4().hex) as store, pytest.MonkeyPatch.context() as hasty:
        store.put_one("jobs", "x", None)
        hasty.setattr(store.server, "timeout", 0.5)
        server.shut_down()
        try:
            calls: list[Any] = [
                lambda: store.put_one("jobs", "y", None),
                lambda: store.put_batch("jobs", ["y", "z"], None),
                lambda: store.lease(LeaseRequest("jobs")),
                lambda: store.stats("jobs"),
                lambda: store.purge("jobs"),
                lambda: store.commit(Changes(enqueue=[NewMessage(store.mint()[0], "jobs", "y", ordering_key="k")])),
            ]
            for call in calls:
                with pytest.raises(QueueStoreUnavailableError, match="does not answer"):
                    call()
        finally:
            server.start()
    with MongoDBQueueStore(server.url, namespace=store.namespace) as again:
        assert again.qsize("jobs") == 1


@pytest.mark.crash
def test_a_crash_while_many_write_loses_and_doubles_nothing(server: MongoDB, store: MongoDBQueueStore) -> None:
    """What was confirmed is there once; what was not is there once or not at all, and batches are whole."""
    confirmed: list[str] = []
    doubtful: list[str] = []
    some, stop = threading.Event(), threading.Event()

    def put() -> None:
        while not stop.is_set():
            ids = store.mint(3)
            new = [NewMessage(one, "work", one) for one in ids]
            try:
                store.commit(Changes(enqueue=new))
                confirmed.extend(ids)
            except QueueStoreUnavailableError:
                doubtful.extend(ids)
            if len(confirmed) > 30:
                some.set()

    threads = [threading.Thread(target=put) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert some.wait(PATIENCE)
    server.kill()
    server.start()
    enough = len(confirmed) + 30
    while len(confirmed) < enough and any(thread.is_alive() for thread in threads):
        threading.Event().wait(0.01)
    stop.set()
    for thread in threads:
        thread.join(PATIENCE)
    found = [message.id for message in store.scan("work")]
    assert len(found) == len(set(found))
    assert set(confirmed) <= set(found) <= set(confirmed) | set(doubtful)
    whole = [doubtful[n : n + 3] for n in range(0, len(doubtful), 3)]
    assert all(len(set(batch) & set(found)) in (0, 3) for batch in whole)
    assert store.check().ok


def test_calls_wait_for_a_primary_that_steps_down(store: MongoDBQueueStore) -> None:
    """The only member steps down, and is elected again when its time is over."""
    store.server.client.admin.command("replSetStepDown", 2, force=True)
    message_id, _ = store.put_one("jobs", "second", None)
    new = NewMessage(store.mint()[0], "jobs", "third", ordering_key="k")
    assert store.commit(Changes(enqueue=[new])).enqueued[0].outcome == "stored"
    store.server.client.admin.command("replSetStepDown", 2, force=True)
    taken = store.lease(LeaseRequest("jobs", 3, timeout=300))
    assert [message.payload for message in taken] == ["first", "second", "third"]
    settles = [Settle("jobs", message.id, "ack", message.attempts) for message in taken]
    assert store.commit(Changes(settle=settles)).settled == [True] * 3
    assert message_id == taken[1].id


def _woken_by_a_put(waiting: MongoDBQueueStore, server: MongoDB) -> bool:
    """Through a client of its own, so that only the server can tell."""
    woken: list[bool] = []
    with waiting.listen(["wake"]) as waiter:
        thread = threading.Thread(target=lambda: woken.append(waiter.wait(PATIENCE)))
        thread.start()
        with MongoDBQueueStore(server.url, namespace=waiting.namespace, timeout=14.0) as other:
            other.put_one("wake", "x", None)
        thread.join(PATIENCE)
    assert waiting.lease(LeaseRequest("wake", consume=True))
    return woken == [True]


def test_a_change_stream_that_was_killed_is_opened_again(server: MongoDB, store: MongoDBQueueStore) -> None:
    assert _woken_by_a_put(store, server)
    admin = store.server.client.admin
    streams = [
        (one["ns"].partition(".")[2], one["cursor"]["cursorId"])
        for one in admin.aggregate([{"$currentOp": {"idleCursors": True, "allUsers": True}}])
        if "$changeStream" in str(one.get("cursor", {}).get("originatingCommand", ""))
    ]
    assert streams
    for collection, cursor in streams:
        store.server.database.command("killCursors", collection, cursors=[cursor])
    assert _woken_by_a_put(store, server)


@pytest.mark.crash
def test_who_waits_over_a_restart_is_woken_after_it(server: MongoDB, store: MongoDBQueueStore) -> None:
    woken: list[bool] = []
    with store.listen(["wake"]) as waiter:
        thread = threading.Thread(target=lambda: woken.append(waiter.wait(3 * PATIENCE)))
        thread.start()
        server.kill()
        server.start()
        with MongoDBQueueStore(server.url, namespace=store.namespace, timeout=14.0) as other:
            other.put_one("wake", "x", None)
        thread.join(3 * PATIENCE)
    assert woken == [True]
    assert _woken_by_a_put(store, server) or store.lease(LeaseRequest("wake"))
