"""Large batches are whole or nothing, and what MongoDB can not hold is refused in words."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pymongo
import pytest

from localqueue import PersistentQueue
from localqueue.errors import PayloadError, QueueStoreFullError
from localqueue.stores.mongodb import MongoDBQueueStore, fast
from localqueue.stores.mongodb.document import LARGEST
from localqueue.stores.port import HISTORY_LIMIT, Changes, LeaseRequest, NewMessage, RecordWrite
from tests.servers import MongoDB


@pytest.fixture
def store(mongodb: MongoDB) -> Iterator[MongoDBQueueStore]:
    with MongoDBQueueStore(mongodb.url, namespace=uuid4().hex, timeout=120) as store:  # 15 MB take their time
        yield store


@pytest.mark.slow
def test_a_batch_of_twenty_thousand_is_one_commit_and_is_purged_in_pieces(store: MongoDBQueueStore) -> None:
    ids, _ = store.put_batch("jobs", [str(n) for n in range(20_000)], None)
    assert store.qsize("jobs") == len(ids) == 20_000
    first = store.lease(LeaseRequest("jobs", 3))
    assert [message.payload for message in first] == ["0", "1", "2"]
    assert store.purge("jobs") == 20_000
    assert store.scan("jobs") == []


@pytest.mark.slow
def test_a_batch_beyond_what_the_server_can_commit_at_once_stores_nothing(store: MongoDBQueueStore) -> None:
    with pytest.raises(QueueStoreFullError, match="split it"):  # the server of the tests has a cache of 256 MB
        store.put_batch("jobs", ["x"] * 120_000, None)
    assert store.qsize("jobs") == 0


def test_a_batch_with_one_message_too_large_stores_nothing(store: MongoDBQueueStore) -> None:
    with pytest.raises(PayloadError, match="16 MB"):
        store.put_batch("jobs", ["small", "x" * 17_000_000, "small"], None)
    assert store.scan("jobs") == []


def test_a_message_too_large_is_refused_by_every_way_in(store: MongoDBQueueStore) -> None:
    large = b"x" * 17_000_000
    with pytest.raises(PayloadError, match="16 MB"):
        store.put_one("jobs", large, None)
    with pytest.raises(PayloadError, match="16 MB"):
        store.commit(Changes(enqueue=[NewMessage(store.mint()[0], "jobs", large)]))
    with pytest.raises(PayloadError, match="16 MB"):
        store.commit(Changes(enqueue=[NewMessage(store.mint()[0], "jobs", large, ordering_key="k")]))
    with pytest.raises(PayloadError, match="16 MB"):
        store.commit(Changes(records=[RecordWrite("result", "a", large)]))
    assert store.scan("jobs") == []
    assert store.check().ok


@pytest.mark.slow
def test_the_largest_message_has_room_for_the_errors_of_all_its_attempts(store: MongoDBQueueStore) -> None:
    for text, attempts in (("x" * (LARGEST - 2), 1), ("日" * (LARGEST // 3 - 1), HISTORY_LIMIT + 1)):
        queue = PersistentQueue[str]("jobs", store=store)
        queue.put(text)
        for _ in range(attempts):
            assert queue.release(queue.get_message(leased_by="w" * 100), error={"message": "\0" * 1_000_000})
        message = queue.get_message()
        assert message.value == text
        assert queue.dead_letter(message, error="no")
        with pytest.raises(PayloadError, match="15 MB"):
            queue.put(text + "xxx")
        with pytest.raises(PayloadError, match="15 MB"):
            queue.put_many(["small", text + "xxx"])
        with pytest.raises(PayloadError, match="15 MB"):
            queue.put(text, headers={"a": "b"})
        assert queue.stats().total == queue.stats().dead
        assert queue.purge() == 1


class Hurried:
    """A clock by which every pause takes ten seconds, and in truth none."""

    def __init__(self) -> None:
        self._now = 100.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += 10.0


def test_a_message_that_finds_the_cache_crowded_is_stored_when_there_is_room() -> None:
    server = MongoDB("enableTestCommands=1")
    try:
        server.start()
        with MongoDBQueueStore(server.url) as store, pymongo.MongoClient(server.url) as client:
            store.put_one("jobs", "first", None)

            def crowd(how: object) -> None:
                refused = {"failCommands": ["insert"], "errorCode": 388}  # as TransactionTooLargeForCache
                client.admin.command("configureFailPoint", "failCommand", mode=how, data=refused)

            crowd({"times": 3})
            store.put_one("jobs", "second", None)
            assert [message.payload for message in store.scan("jobs")] == ["first", "second"]
            crowd("alwaysOn")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(fast, "time", Hurried())
                with pytest.raises(QueueStoreFullError, match="cache; nothing was changed"):
                    store.put_one("jobs", "third", None)
            crowd("off")
            assert store.qsize("jobs") == 2
    finally:
        server.stop()


@pytest.mark.parametrize("name", ["$where", "a.b", "$gt", "{$ne: 1}", "\x00", "_id", "x" * 10_000, "🦄"])
def test_a_name_is_never_a_path_or_an_operator(store: MongoDBQueueStore, name: str) -> None:
    store.put_one("jobs", "mine", None)
    store.put_one(name, "theirs", None)
    store.pause(name, worker=name)
    assert store.lease(LeaseRequest(name, leased_by=name)) == []
    assert store.paused(name, worker=name)
    assert not store.paused(name, worker="w")
    message = store.lease(LeaseRequest(name, leased_by="w"))[0]
    assert (message.queue, message.payload) == (name, "theirs")
    store.resume(name, worker=name)
    assert store.subscribe(name, name)
    assert not store.subscribe(name, name)
    store.heartbeat(name, name)
    assert list(store.stats(name).last_seen_by_worker_id) == [name]
    store.commit(Changes(records=[RecordWrite(name, name, b"1", 0)]))
    assert [record.key for record in store.records(name)] == [name]
    assert sorted(store.queues()) == sorted(["jobs", name])
    assert store.check().ok
