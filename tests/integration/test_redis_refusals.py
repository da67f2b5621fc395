"""A commit that a function on the server refuses leaves every key of the namespace as it was."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from localqueue.contracts import FakeClock
from localqueue.contracts.steps import new, override, put, put_many, release, take
from localqueue.errors import (
    CircularDependency,
    DedupeKeyInUse,
    IdTaken,
    LeaseLost,
    NotWaiting,
    QueueError,
    QueueFull,
    RecordConflict,
    RunCancelled,
    SubscriptionsChanged,
    UnknownMessage,
)
from localqueue.stores import rules
from localqueue.stores.port import Changes, Edge, LeaseRequest, Limit, NewMessage, RecordWrite, Settle
from localqueue.stores.redis import RedisQueueStore
from localqueue.stores.redis.schema import root
from tests.servers import Redis

_fresh = itertools.count()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(redis_server: Redis, clock: FakeClock) -> Iterator[RedisQueueStore]:
    with RedisQueueStore(redis_server.url, namespace=f"refused-{os.getpid()}-{next(_fresh)}", clock=clock) as store:
        yield store


@pytest.fixture
def client(redis_server: Redis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server.url, protocol=2) as client:
        yield client


def held(client: redis.Redis, store: RedisQueueStore) -> dict[bytes, Any]:
    """Every key of the namespace with what it holds."""
    read: dict[bytes, Callable[[bytes], Any]] = {
        b"hash": client.hgetall,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"stream": client.xrange,
    }
    keys = sorted(client.scan_iter(match=root(store.namespace) + b"*"))
    return {key: read[client.type(key)](key) for key in keys}


def _everything(store: RedisQueueStore, clock: FakeClock) -> dict[str, Any]:
    """A store with something of everything in it, so that a refused commit has much to disturb."""
    store.enable_journal()
    ids: dict[str, Any] = {"first": put(store, payload="first", run_id="r", dedupe_key="d", ordering_key="k")}
    ids["behind"] = put(store, ordering_key="k", run_id="r")
    ids["waiting"] = put(store, "later", after=(ids["first"],), run_id="r")
    ids["stale"] = put(store, "stale", ttl=5, dedupe_key="s")
    ids["leased"] = take(store)
    put_many(store, "abc", "full")
    override(store, put(store, dedupe_key="x"), "dead-letter", error={"type": "E"})
    ids["dead"] = store.scan("jobs", state="dead")[0].id
    ids["holder"] = put(store, dedupe_key="x", delay=60)
    put(store, "retried")
    release(store, take(store, "retried"), error={"type": "E"})
    store.commit(Changes(records=[RecordWrite("result", "a", b"1"), RecordWrite("result", "b", b"2")]))
    store.subscribe("topic", "s")
    put(store, "expiring", priority=3)
    ids["expiring"] = take(store, "expiring", timeout=5)
    ids["gone"] = put(store, "gone")
    store.purge("gone")
    put(store, run_id="cancelled")
    store.cancel_run("cancelled")
    clock.advance(10)
    return ids


def _much(store: RedisQueueStore, ids: dict[str, Any]) -> dict[str, Any]:
    """Changes that succeed, to come before the one that does not."""
    leased = ids["leased"]
    enqueue = [
        new(store, "jobs", "one", run_id="r", dedupe_key="new", ordering_key="k", after=(ids["holder"],)),
        new(store, "stale", "two", dedupe_key="s"),
        new(store, "full", "three"),
        new(store, "expiring", "four"),
        new(store, "new-run", run_id="another", delay=5, ttl=50),
    ]
    return {
        "enqueue": enqueue,
        "edges": [Edge(ids["holder"], ids["waiting"])],
        "settle": [
            Settle("jobs", leased.id, "ack", leased.attempts),
            Settle("jobs", ids["holder"], "cancel", None, error={"type": "E"}),
            Settle("full", store.scan("full")[-1].id, "dead-letter"),
        ],
        "records": [RecordWrite("result", "a", None), RecordWrite("result", "c", b"3", 0)],
        "limits": {"full": Limit(3, "drop-oldest"), "expiring": Limit(1, "drop-oldest")},
        "topics": {"topic": 1},
        "lease": LeaseRequest("jobs", 10, leased_by="w"),
    }


Spoil = Callable[[RedisQueueStore, dict[str, Any], dict[str, Any]], None]


def _full(store: RedisQueueStore, ids: dict[str, Any], changes: dict[str, Any]) -> None:
    changes["enqueue"].append(new(store, "retried"))
    changes["limits"]["retried"] = Limit(1)


def _taken(store: RedisQueueStore, ids: dict[str, Any], changes: dict[str, Any]) -> None:
    changes["enqueue"].append(NewMessage(ids["first"], "elsewhere", "x", dedupe_key="z"))


def _unknown(store: RedisQueueStore, ids: dict[str, Any], changes: dict[str, Any]) -> None:
    changes["enqueue"].append(new(store, "late", run_id="r", after=(ids["behind"], ids["gone"])))


def _run(store: RedisQueueStore, ids: dict[str, Any], changes: dict[str, Any]) -> None:
    changes["enqueue"].append(new(store, "late", run_id="cancelled"))


def _topic(store: RedisQueueStore, ids: dict[str, Any], changes: dict[str, Any]) -> None:
    changes["topics"]["topic"] = 2


def _lost(store: RedisQueueStore, ids: dict[str, Any], changes: dict[str, Any]) -> None:
    changes["settle"].append(Settle("jobs", ids["leased"].id, "ack", ids["leased"].attempts))


def _record(store: RedisQueueStore, ids: dict[str, Any], changes: dict[str, Any]) -> None:
    changes["records"].append(RecordWrite("result", "b", b"3", 0))


def _not_waiting(store: RedisQueueStore, ids: dict[str, Any], changes: dict[str, Any]) -> None:
    changes["edges"].append(Edge(ids["holder"], ids["first"]))


def _circle(store: RedisQueueStore, ids: dict[str, Any], changes: dict[str, Any]) -> None:
    changes["edges"].append(Edge(ids["waiting"], ids["waiting"]))


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (_full, QueueFull),
        (_taken, IdTaken),
        (_unknown, UnknownMessage),
        (_run, RunCancelled),
        (_topic, SubscriptionsChanged),
        (_lost, LeaseLost),
        (_record, RecordConflict),
        (_not_waiting, NotWaiting),
        (_circle, CircularDependency),
    ],
)
def test_a_refused_commit_changes_nothing(
    store: RedisQueueStore, client: redis.Redis, clock: FakeClock, spoil: Spoil, error: type[QueueError]
) -> None:
    ids = _everything(store, clock)
    changes = _much(store, ids)
    for message in changes["enqueue"]:
        store.pause(message.queue)  # so that the name of a new queue is no change
        store.resume(message.queue)
    spoil(store, ids, changes)
    for message in changes["enqueue"]:
        store.heartbeat(message.queue, "w")
    before = held(client, store)
    with store.observe() as transitions, pytest.raises(error):
        store.commit(Changes(**changes))
    assert held(client, store) == before
    assert transitions == []
    assert store.check().problems == ()


def test_the_same_commit_without_the_flaw_is_applied(
    store: RedisQueueStore, client: redis.Redis, clock: FakeClock
) -> None:
    ids = _everything(store, clock)
    done = store.commit(Changes(**_much(store, ids)))
    assert [one.outcome for one in done.enqueued] == ["stored"] * 5
    assert done.settled == [True] * 3
    assert store.check().problems == ()


def test_a_refused_requeue_changes_nothing(store: RedisQueueStore, client: redis.Redis, clock: FakeClock) -> None:
    ids = _everything(store, clock)
    fine = put(store)
    override(store, fine, "dead-letter")
    before = held(client, store)
    with pytest.raises(DedupeKeyInUse):
        store.requeue("jobs", [fine, ids["dead"]])
    assert held(client, store) == before


def test_a_function_that_fails_halfway_is_taken_back(
    store: RedisQueueStore, client: redis.Redis, clock: FakeClock
) -> None:
    """No function of ours does; a key that somebody else turned into something else makes one fail."""
    ids = _everything(store, clock)
    changes = _much(store, ids)
    for message in changes["enqueue"]:
        store.heartbeat(message.queue, "w")
    spoiled = root(store.namespace) + b":recs"
    client.delete(spoiled)
    client.set(spoiled, "not ours")
    before = held_but(client, store, spoiled)
    with pytest.raises(QueueError, match="WRONGTYPE"):
        store.commit(Changes(**changes))
    assert held_but(client, store, spoiled) == before


def held_but(client: redis.Redis, store: RedisQueueStore, left_out: bytes) -> dict[bytes, Any]:
    value = client.get(left_out)
    client.delete(left_out)
    try:
        return held(client, store)
    finally:
        client.set(left_out, value or b"")


def test_the_error_of_exhausted_attempts_reads_like_that_of_every_store(
    store: RedisQueueStore, clock: FakeClock
) -> None:
    expired, released = put(store), put(store)
    take(store, timeout=5, max_attempts=1)
    release(store, take(store, timeout=500), max_attempts=1)
    clock.advance(5)
    store.lease(LeaseRequest("jobs"))
    found = [message.last_error for message in (store.get("jobs", expired), store.get("jobs", released)) if message]
    assert found == [
        rules.attempts_exhausted(1, "its lease expired"),
        rules.attempts_exhausted(1, "it was released"),
    ]
