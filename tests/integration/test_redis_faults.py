"""The Redis store when its server is restarted, busy, full, emptied of functions, or cuts connections."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import redis

from localqueue.contracts.steps import PATIENCE, Background, ack, lease, new, put_many, take
from localqueue.errors import QueueStoreFullError, QueueStoreLockedError, QueueStoreUnavailableError
from localqueue.stores.port import Changes, LeaseRequest, Settle
from localqueue.stores.redis import RedisQueueStore
from tests.servers import Redis

pytestmark = pytest.mark.server


@pytest.fixture
def server() -> Iterator[Redis]:
    """A server of the test's own, to be mistreated."""
    server = Redis("--appendonly", "yes", "--appendfsync", "always")
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


def test_functions_that_were_flushed_are_loaded_again(store: RedisQueueStore, client: redis.Redis) -> None:
    store.put_one("jobs", "a", None)
    for call in (
        lambda: store.put_one("jobs", "b", None),
        lambda: store.stats("jobs"),
        lambda: store.commit(Changes(enqueue=[new(store, dedupe_key="d")])),
    ):
        client.function_flush("SYNC")
        call()
    assert store.qsize("jobs") == 3


@pytest.mark.crash
def test_a_store_works_on_after_its_server_was_restarted(store: RedisQueueStore, server: Redis) -> None:
    ids = put_many(store, "abc")
    message = take(store)
    server.kill()
    with pytest.raises(QueueStoreUnavailableError, match="redis://127"):
        store.put_one("jobs", "lost", None)
    with pytest.raises(QueueStoreUnavailableError):
        store.stats("jobs")
    server.start()
    store.put_one("jobs", "d", None)
    assert ack(store, message)
    assert [found.id for found in store.scan("jobs")][:2] == ids[1:]
    assert store.qsize("jobs") == 3
    assert store.check().ok


@pytest.mark.crash
def test_a_put_right_after_a_restart_does_not_meet_a_dead_connection(store: RedisQueueStore, server: Redis) -> None:
    for _ in range(3):
        store.put_one("jobs", "x", None)
        server.shut_down()
        server.start()
    store.put_one("jobs", "x", None)
    assert store.qsize("jobs") == 4


@pytest.mark.crash
def test_a_half_written_end_of_the_log_costs_only_what_was_not_confirmed(server: Redis) -> None:
    with RedisQueueStore(server.url, durability="power") as store:
        ids = put_many(store, "abc")
        store.commit(Changes(enqueue=[new(store, "other", dedupe_key="d", run_id="r")]))
        server.kill()
        (log,) = (server.folder / "appendonlydir").glob("*.incr.aof")
        data = log.read_bytes()
        log.write_bytes(data[:-7])  # the last function's effects, cut in the middle
        server.start()
        assert [message.id for message in store.scan("jobs")] == ids
        assert store.scan("other") == []
        assert store.run("r") is None
        assert store.check().problems == ()


def test_connections_that_are_killed_cost_nobody_anything_but_the_call(
    store: RedisQueueStore, client: redis.Redis
) -> None:
    put_many(store, "ab")
    for _ in range(3):
        client.client_kill_filter(_type="normal", skipme=True)
        store.put_one("jobs", "x", None)
    assert store.qsize("jobs") == 5


def test_a_listener_whose_connection_is_killed_hears_again(
    store: RedisQueueStore, client: redis.Redis, server: Redis
) -> None:
    with RedisQueueStore(server.url) as other, store.listen(["jobs"]) as waiter:
        for _ in range(3):
            assert lease(store) == []
            client.client_kill_filter(_type="pubsub")
            other.put_one("jobs", "x", None)
            assert waiter.wait(PATIENCE)
            assert ack(store, take(store))


@pytest.mark.slow
@pytest.mark.crash
def test_a_consumer_that_waits_over_a_restart_is_woken_by_a_put_after_it(server: Redis) -> None:
    with RedisQueueStore(server.url) as consumer, RedisQueueStore(server.url) as producer:
        woken = threading.Event()

        def wait() -> None:
            with consumer.listen(["jobs"]) as waiter:
                while not woken.is_set():
                    try:
                        if waiter.wait(PATIENCE):
                            woken.set()
                    except QueueStoreUnavailableError:
                        continue  # the server is down

        threads = Background()
        threads.start(wait)
        server.kill()
        server.start()
        producer.put_one("jobs", "x", None)
        assert woken.wait(PATIENCE)
        threads.join()


def test_a_full_server_stores_nothing_of_a_commit_and_can_be_drained(
    store: RedisQueueStore, client: redis.Redis
) -> None:
    ids = put_many(store, "abcdef")
    held = lease(store, limit=2)
    client.config_set("maxmemory", "1mb")
    assert client.info("memory")["used_memory"] > 1 << 20
    before = store.scan("jobs")
    puts: tuple[Callable[[], object], ...] = (
        lambda: store.put_one("jobs", "x", None),
        lambda: store.put_batch("jobs", ["x"] * 3, None),
        lambda: store.commit(Changes(enqueue=[new(store, dedupe_key="d")])),
    )
    for attempt in puts:
        with pytest.raises(QueueStoreFullError, match="maxmemory"):
            attempt()
    assert store.scan("jobs") == before
    assert ack(store, held[0])
    settle = Settle("jobs", held[1].id, "ack", held[1].attempts)
    (third,) = store.commit(Changes(settle=[settle], lease=LeaseRequest("jobs"))).leased
    assert third.id == ids[2]
    assert store.purge("jobs") == 4
    client.config_set("maxmemory", "0")
    store.put_one("jobs", "x", None)
    assert store.check().ok


def test_a_busy_server_is_waited_for_and_then_named(server: Redis, client: redis.Redis) -> None:
    client.config_set("busy-reply-threshold", "10")
    with RedisQueueStore(server.url) as impatient, RedisQueueStore(server.url) as patient:
        impatient._server._timeout = 0.5
        patient.pause("jobs")
        threads = Background()
        threads.start(_spin, server)
        _until_busy(client)
        with pytest.raises(QueueStoreLockedError, match="FUNCTION KILL"):
            impatient.put_one("jobs", "x", None)
        threads.start(patient.put_one, "jobs", "x", None)
        client.script_kill()
        threads.join()
        assert patient.qsize("jobs") == 1


def _spin(server: Redis) -> None:
    with redis.Redis.from_url(server.url) as client, pytest.raises(redis.ResponseError):
        client.eval("while true do end", 0)


def _until_busy(client: redis.Redis) -> None:
    while True:
        try:
            client.ping()
        except redis.ResponseError as error:
            assert "BUSY" in str(error)
            return


def test_many_processes_may_load_the_library_at_once(store: RedisQueueStore, client: redis.Redis) -> None:
    threads = Background()
    client.function_flush("SYNC")
    for n in range(8):
        threads.start(store.put_one, f"q{n}", "x", None)
    threads.join()
    assert len(client.function_list()) == 1
    assert len(store.queues()) == 8
