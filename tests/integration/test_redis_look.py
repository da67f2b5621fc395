"""A Redis store that was opened to look: it makes nothing, changes nothing, and says so."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from localqueue import open_store
from localqueue.contracts.steps import PATIENCE, ack, new, put, put_many, take
from localqueue.errors import QueueStoreMissingError, QueueStoreReadOnlyError
from localqueue.stores.port import Changes, Lease, LeaseRequest, RecordWrite, Settle
from localqueue.stores.redis import RedisQueueStore
from localqueue.stores.redis.schema import root
from tests.servers import Redis

_fresh = itertools.count()


@pytest.fixture
def namespace() -> str:
    return f"look-{os.getpid()}-{next(_fresh)}"


@pytest.fixture
def client(redis_server: Redis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server.url, protocol=2) as client:
        yield client


@pytest.fixture
def writer(redis_server: Redis, namespace: str) -> Iterator[RedisQueueStore]:
    with RedisQueueStore(redis_server.url, namespace=namespace) as store:
        yield store


@pytest.fixture
def looker(redis_server: Redis, namespace: str, writer: RedisQueueStore) -> Iterator[RedisQueueStore]:
    with RedisQueueStore(redis_server.url, namespace=namespace, read_only=True) as store:
        yield store


def _keys(client: redis.Redis, namespace: str) -> dict[bytes, Any]:
    keys = sorted(client.scan_iter(match=root(namespace) + b"*", count=10_000))
    return {key: client.dump(key) for key in keys}


def test_where_there_is_no_namespace_it_says_so_and_makes_none(
    redis_server: Redis, client: redis.Redis, namespace: str
) -> None:
    libraries = len(client.function_list())
    with pytest.raises(QueueStoreMissingError, match=f"no namespace '{namespace}' in the store at 'redis://"):
        open_store(redis_server.url, namespace=namespace, read_only=True)
    assert _keys(client, namespace) == {}
    assert len(client.function_list()) == libraries


def test_a_server_that_keeps_nothing_can_be_looked_at() -> None:
    server = Redis("--appendonly", "no")
    server.start()
    try:
        with RedisQueueStore(server.url, volatile=True) as store:
            store.put_one("jobs", "x", None)
        with RedisQueueStore(server.url, read_only=True) as looker:
            assert looker.qsize("jobs") == 1
    finally:
        server.stop()


def test_every_read_sees_what_others_write(writer: RedisQueueStore, looker: RedisQueueStore, tmp_path: Path) -> None:
    first = put(writer, dedupe_key="d", ordering_key="k", run_id="r")
    put(writer, "later", after=(first,))
    writer.commit(Changes(records=[RecordWrite("result", "a", b"1")]))
    writer.subscribe("topic", "s")
    writer.enable_journal()
    put(writer)
    message = looker.get("jobs", first)
    assert message is not None and message.dedupe_key == "d"
    assert looker.qsize("jobs") == looker.load("jobs") == 2
    assert looker.stats("jobs").ready == 2
    assert looker.scan("jobs")[0].id == first
    assert looker.splits("jobs", 1) == [looker.scan("jobs")[-1].id]
    assert looker.queues() == ["jobs", "later", "topic"]
    assert looker.runs() == ["r"] and looker.run("r") is not None
    assert [one.id for one in looker.run_messages("r")] == [first]
    assert looker.upstream("later", looker.scan("later")[0].id) == [first]
    assert [one.key for one in looker.records("result")] == ["a"]
    assert looker.record("result", "a") is not None
    assert looker.subscriptions("topic").subscribers == ("s",)
    assert looker.journal_enabled() and [event.type for event in looker.events()] == ["enqueued"]
    assert looker.journal_span() == (1, 1)
    assert not looker.paused("jobs")
    assert looker.prune("jobs", state="dead", older_than=0, dry_run=True) == 0
    assert looker.check().ok
    looker.backup(str(tmp_path / "copy.db"))


def test_reads_of_a_queue_that_nobody_has_used_make_none(
    looker: RedisQueueStore, writer: RedisQueueStore, client: redis.Redis, namespace: str
) -> None:
    before = _keys(client, namespace)
    for store in (looker, writer):
        assert store.stats("unknown").total == 0
        assert store.qsize("unknown") == store.load("unknown") == 0
        assert store.scan("unknown") == [] and store.splits("unknown", 3) == []
        assert store.get("unknown", store.mint()[0]) is None
        assert store.subscriptions("unknown").subscribers == ()
        assert store.run("unknown") is None
        assert not store.paused("unknown")
        assert store.queues() == []
    assert _keys(client, namespace) == before


WRITES: dict[str, Callable[[RedisQueueStore], object]] = {
    "put_one": lambda store: store.put_one("jobs", "x", None),
    "put_one in a new queue": lambda store: store.put_one("new", "x", None),
    "put_batch": lambda store: store.put_batch("jobs", ["x"], None),
    "commit of a plain message": lambda store: store.commit(Changes(enqueue=[new(store)])),
    "commit of a keyed message": lambda store: store.commit(Changes(enqueue=[new(store, dedupe_key="d")])),
    "commit of an ack": lambda store: store.commit(Changes(settle=[Settle("jobs", store.mint()[0], "ack", 1)])),
    "commit of a release": lambda store: store.commit(Changes(settle=[Settle("jobs", store.mint()[0], "release")])),
    "lease": lambda store: store.lease(LeaseRequest("jobs")),
    "renew": lambda store: store.renew([Lease("jobs", store.mint()[0], 1)], timeout=5),
    "ack_one": lambda store: store.ack_one("jobs", store.mint()[0], 1),
    "requeue": lambda store: store.requeue("jobs"),
    "prune": lambda store: store.prune("jobs", state="dead", older_than=0),
    "purge": lambda store: store.purge("jobs"),
    "cancel_run": lambda store: store.cancel_run("r"),
    "pause": lambda store: store.pause("new"),
    "resume": lambda store: store.resume("jobs"),
    "heartbeat": lambda store: store.heartbeat("new", "w"),
    "subscribe": lambda store: store.subscribe("topic", "s"),
    "unsubscribe": lambda store: store.unsubscribe("topic", "s"),
    "enable_journal": lambda store: store.enable_journal(),
    "disable_journal": lambda store: store.disable_journal(),
    "prune_events": lambda store: store.prune_events(older_than=0),
    "listen_capacity": lambda store: store.listen_capacity({"jobs": 1}),
}


@pytest.mark.parametrize("name", WRITES)
def test_every_write_is_refused_and_changes_nothing(
    looker: RedisQueueStore, writer: RedisQueueStore, client: redis.Redis, namespace: str, name: str
) -> None:
    put_many(writer, "ab")
    before = _keys(client, namespace)
    with pytest.raises(QueueStoreReadOnlyError, match="opened to look"):
        WRITES[name](looker)
    assert _keys(client, namespace) == before


def test_it_hears_of_messages_and_runs_without_leaving_a_mark(
    looker: RedisQueueStore, writer: RedisQueueStore, client: redis.Redis, namespace: str
) -> None:
    put(writer, run_id="r")
    with looker.listen(["other"]) as waiter, looker.listen_run("r") as run:
        before = _keys(client, namespace)
        assert not waiter.wait(0.01)
        assert not run.wait(0.01)
        assert _keys(client, namespace) == before
        writer.put_one("other", "x", None)
        assert waiter.wait(PATIENCE)
        assert ack(writer, take(writer))
        assert run.wait(PATIENCE)


def test_a_replica_can_be_looked_at(namespace: str) -> None:
    primary, replica = Redis("--appendonly", "yes"), Redis("--appendonly", "yes")
    try:
        primary.start()
        with RedisQueueStore(primary.url, namespace=namespace) as store:
            store.put_one("jobs", "x", None)
            replica.start()
            with redis.Redis.from_url(replica.url) as client, redis.Redis.from_url(primary.url) as admin:
                client.replicaof("127.0.0.1", primary.port)
                while not admin.wait(1, 1000):  # for the replica to have everything
                    store.put_one("other", "y", None)
            with RedisQueueStore(replica.url, namespace=namespace, read_only=True) as looker:
                assert looker.stats("jobs").ready == 1
                assert [message.payload for message in looker.scan("jobs")] == ["x"]
    finally:
        replica.stop()
        primary.stop()
