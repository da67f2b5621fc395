"""What the Redis store says to those who wait, and to whom: little, and nothing that nobody waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from localqueue.contracts.steps import PATIENCE, ack, lease, put, put_many, release, take
from localqueue.stores.port import Changes, NewMessage
from localqueue.stores.redis import RedisQueueStore
from localqueue.stores.redis.schema import digest
from tests.servers import Redis

pytestmark = pytest.mark.server

Said = Callable[[], list[bytes]]
_GONE = -2  # what `PTTL` says of a key that has expired


@pytest.fixture
def server() -> Iterator[Redis]:
    """A server of the test's own, so that all that is said on it is said by the test."""
    server = Redis("--appendonly", "yes")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def client(server: Redis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def store(server: Redis) -> Iterator[RedisQueueStore]:
    with RedisQueueStore(server.url) as store:
        yield store


@pytest.fixture
def said(client: redis.Redis) -> Iterator[Said]:
    """What was said on any channel of ours since it was last asked for."""
    with client.pubsub() as heard:
        heard.psubscribe("lq:*")
        assert heard.get_message(timeout=PATIENCE) is not None

        def said() -> list[bytes]:
            client.publish("lq:end", "")
            found = []
            while True:
                message = heard.get_message(timeout=PATIENCE)
                assert message is not None
                if message["channel"] == b"lq:end":
                    return found
                found.append(message["data"])

        yield said


def test_one_connection_listens_for_all_stores_of_a_process(server: Redis, client: redis.Redis) -> None:
    stores = [RedisQueueStore(server.url, namespace=f"n{n % 3}") for n in range(6)]
    waiters = [store.listen(["a", "b"]) for store in stores]
    assert len(client.client_list(_type="pubsub")) == 1
    for waiter in waiters:
        waiter.close()
    for store in stores:
        store.close()


def test_a_store_that_never_waits_has_no_listener(store: RedisQueueStore, client: redis.Redis) -> None:
    store.put_one("jobs", "x", None)
    assert ack(store, take(store))
    assert client.client_list(_type="pubsub") == []


def test_a_put_is_told_only_when_the_line_was_empty(store: RedisQueueStore, said: Said) -> None:
    """One word on the first message is enough: whoever waits has seen none."""
    for _ in range(5):
        store.put_one("jobs", "x", None)
    assert said() == [digest("jobs")]


def test_a_commit_is_told_once_and_without_what_was_put(store: RedisQueueStore, said: Said) -> None:
    store.commit(Changes(enqueue=[NewMessage(i, "jobs", "secret") for i in store.mint(100)]))
    assert said() == [digest("jobs")]
    store.commit(Changes(enqueue=[NewMessage(i, f"q{i}", "secret") for i in store.mint(100)]))
    assert said() == [b"*"]


def test_leases_and_acks_are_told_to_nobody(store: RedisQueueStore, said: Said) -> None:
    put_many(store, "abc")
    put(store, run_id="r")
    said()
    first = take(store)
    assert ack(store, first)
    assert store.ack_one("jobs", *_handle(store))
    for message in lease(store, limit=2):
        assert ack(store, message)
    assert said() == []


def _handle(store: RedisQueueStore) -> tuple[str, int]:
    message = take(store)
    return message.id, message.attempts


def test_a_lease_is_told_while_somebody_waits_for_room(store: RedisQueueStore, said: Said) -> None:
    put_many(store, "ab")
    with store.listen_capacity({"jobs": 2}) as waiter:
        assert not waiter.wait(0)
        said()
        message = take(store)
        assert said() == [digest("jobs")]
        assert ack(store, message)
        assert said() == []


def test_changes_of_a_run_are_told_while_somebody_waits_for_them(store: RedisQueueStore, said: Said) -> None:
    put(store, run_id="r")
    with store.listen_run("r") as waiter:
        assert not waiter.wait(0)
        said()
        message = take(store)
        assert said() == [digest("r")]
        assert ack(store, message)
        assert said() == [digest("r")]


def test_who_waits_for_a_run_that_never_was_leaves_nothing_that_stays(
    store: RedisQueueStore, client: redis.Redis
) -> None:
    before = set(client.scan_iter())
    with store.listen_run("never") as waiter:
        assert not waiter.wait(0)
    left = [client.pttl(key) for key in set(client.scan_iter()) - before]
    assert all(0 <= ttl <= 5000 or ttl == _GONE for ttl in left), left
    assert store.run("never") is None


def test_who_waits_for_a_run_before_it_begins_is_told_of_it(store: RedisQueueStore, server: Redis) -> None:
    with RedisQueueStore(server.url) as other, store.listen_run("r") as waiter:
        assert not waiter.wait(0)
        put(other, run_id="r")
        assert waiter.wait(PATIENCE)


def test_a_release_and_a_delay_are_told(store: RedisQueueStore, said: Said) -> None:
    put(store)
    said()
    release(store, take(store))
    assert said() == [digest("jobs")]
    put(store, "later", delay=60)
    assert said() == [digest("later")]
