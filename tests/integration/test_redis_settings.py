"""What the Redis store asks of its server before it uses it, and what it says when the server can not give it."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from localqueue.contracts.steps import PATIENCE
from localqueue.errors import (
    QueueStoreError,
    QueueStoreReadOnlyError,
    QueueStoreUnavailableError,
    QueueStoreVersionError,
)
from localqueue.stores.redis import RedisQueueStore
from localqueue.stores.redis.connection import Connections
from localqueue.stores.redis.schema import check_server, root
from tests.servers import Redis, free_port

pytestmark = pytest.mark.server

StartServer = Callable[..., Redis]


@pytest.fixture
def start() -> Iterator[StartServer]:
    """Starts servers with options of their own."""
    started: list[Redis] = []

    def start(*options: str) -> Redis:
        server = Redis(*options)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.stop()


@pytest.mark.parametrize(
    "options",
    [("--appendonly", "no"), ("--appendonly", "no", "--save", "60 1")],
    ids=["nothing", "snapshots only"],
)
def test_a_server_that_would_lose_what_it_confirmed_is_refused(start: StartServer, options: tuple[str, ...]) -> None:
    server = start(*options)
    with pytest.raises(QueueStoreError, match=r"appendonly yes.*volatile=True"):
        RedisQueueStore(server.url)
    with RedisQueueStore(server.url, volatile=True) as store:
        store.put_one("jobs", "x", None)


def test_a_server_that_evicts_any_key_is_refused(start: StartServer) -> None:
    server = start("--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    with pytest.raises(QueueStoreError, match=r"allkeys-lru.*noeviction"):
        RedisQueueStore(server.url)
    RedisQueueStore(server.url, volatile=True).close()


def test_a_server_that_evicts_only_what_expires_is_taken(start: StartServer) -> None:
    server = start("--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru")
    RedisQueueStore(server.url).close()


def test_power_durability_wants_every_write_synced(start: StartServer) -> None:
    server = start("--appendonly", "yes", "--appendfsync", "everysec")
    with pytest.raises(QueueStoreError, match=r"appendfsync always.*everysec"):
        RedisQueueStore(server.url, durability="power")
    RedisQueueStore(server.url).close()


def test_a_server_that_hides_its_settings_is_taken_unless_they_matter(start: StartServer) -> None:
    server = start("--appendonly", "yes", "--appendfsync", "always", "--rename-command", "CONFIG", "")
    RedisQueueStore(server.url).close()
    with pytest.raises(QueueStoreError, match="does not show its settings"):
        RedisQueueStore(server.url, durability="power")


def test_a_password_is_used_and_never_shown(start: StartServer) -> None:
    import redis

    server = start("--appendonly", "yes")
    with redis.Redis.from_url(server.url) as client:
        client.config_set("requirepass", "s3cret")
    url = server.url.replace("redis://", "redis://:s3cret@")
    with RedisQueueStore(url) as store:
        store.put_one("jobs", "x", None)
        assert "s3cret" not in f"{store!r} {store.url}"
        assert store.url == server.url
    with pytest.raises(QueueStoreError, match="refuses this user") as refused:
        RedisQueueStore(url.replace("s3cret", "wr0ng"))
    assert "wr0ng" not in str(refused.value)


def test_a_server_that_is_not_there_is_named(start: StartServer) -> None:
    with pytest.raises(QueueStoreUnavailableError, match=r"redis://127\.0\.0\.1") as error:
        RedisQueueStore(f"redis://:pw@127.0.0.1:{free_port()}/0")
    assert error.value.path is not None
    assert "pw" not in error.value.path


def test_a_replica_can_be_read_and_not_written(start: StartServer, redis_server: Redis) -> None:
    primary = start("--appendonly", "yes")
    with RedisQueueStore(primary.url) as store:
        message_id, _ = store.put_one("jobs", "x", None)
        replica = start("--appendonly", "yes", "--replicaof", f"127.0.0.1 {primary.port}")
        _until_synced(replica)
        with RedisQueueStore(replica.url) as copy:
            found = copy.get("jobs", message_id)
            assert found is not None
            assert found.payload == "x"
            with pytest.raises(QueueStoreReadOnlyError, match="replica"):
                copy.put_one("jobs", "y", None)
        with pytest.raises(QueueStoreReadOnlyError):
            RedisQueueStore(replica.url, namespace="new")


def _until_synced(replica: Redis) -> None:
    import time

    import redis

    deadline = time.monotonic() + 3 * PATIENCE
    with redis.Redis(port=replica.port) as client:
        while client.info("replication")["master_link_status"] != "up":
            assert time.monotonic() < deadline, "the replica was not in sync in time"
            time.sleep(0.01)  # between two looks


def test_data_of_a_newer_release_is_refused(redis_server: Redis) -> None:
    import redis

    namespace = "from-the-future"
    RedisQueueStore(redis_server.url, namespace=namespace).close()
    with redis.Redis.from_url(redis_server.url) as client:
        opened = RedisQueueStore(redis_server.url, namespace=namespace)
        client.hset(root(namespace), "version", "3")
        with pytest.raises(QueueStoreVersionError, match="3"):
            RedisQueueStore(redis_server.url, namespace=namespace)
        for change in (lambda: opened.put_one("jobs", "x", None), lambda: opened.stats("jobs")):
            with pytest.raises(QueueStoreVersionError):
                change()
        opened.close()
        client.delete(root(namespace))


def test_a_namespace_that_was_removed_is_missed(redis_server: Redis) -> None:
    import redis

    with RedisQueueStore(redis_server.url, namespace="removed") as store:
        message_id, _ = store.put_one("jobs", "x", None)
        with redis.Redis.from_url(redis_server.url) as client:
            client.delete(*client.scan_iter(match=root("removed") + b"*"))
        for change in (lambda: store.put_one("jobs", "x", None), lambda: store.ack_one("jobs", message_id, 1)):
            with pytest.raises(QueueStoreError, match="removed"):
                change()


def test_a_namespace_that_was_made_anew_is_not_taken_for_the_one_that_was_opened(redis_server: Redis) -> None:
    import redis

    with RedisQueueStore(redis_server.url, namespace="anew") as store:
        store.put_one("jobs", "x", None)
        with redis.Redis.from_url(redis_server.url) as client:
            client.delete(*client.scan_iter(match=root("anew") + b"*"))
        with RedisQueueStore(redis_server.url, namespace="anew") as another:
            for call in (lambda: store.put_one("jobs", "x", None), lambda: store.stats("jobs")):
                with pytest.raises(QueueStoreError, match="open the store again"):
                    call()
            another.put_one("jobs", "y", None)
            assert another.qsize("jobs") == 1


def test_a_unix_socket_is_an_address(start: StartServer) -> None:
    server = Redis("--appendonly", "yes")
    path = server.folder / "socket"
    server.options = (*server.options, "--unixsocket", str(path))
    server.start()
    try:
        with RedisQueueStore(f"unix://{path}?db=1", namespace="local") as store, store.listen(["jobs"]) as waiter:
            store.put_one("jobs", "x", None)
            assert waiter.wait(PATIENCE)
            assert store.url == f"unix://{path}?db=1"
    finally:
        server.stop()


def test_databases_are_apart(redis_server: Redis) -> None:
    with (
        RedisQueueStore(redis_server.url, namespace="dbs") as zero,
        RedisQueueStore(redis_server.url.replace("/0", "/1"), namespace="dbs") as one,
    ):
        zero.put_one("jobs", "x", None)
        assert (zero.qsize("jobs"), one.qsize("jobs")) == (1, 0)
        assert one.queues() == []


def test_a_server_without_functions_is_refused() -> None:
    class OldServer:
        shown = "redis://old"

        def ask(self, *command: bytes, again: bool) -> bytes:
            return b"# Server\r\nredis_version:6.2.14\r\n"

    with pytest.raises(QueueStoreError, match=r"6\.2\.14; 7\.0 or newer is needed"):
        check_server(cast(Connections, OldServer()), durability="process", volatile=True)


@pytest.mark.parametrize("url", ["http://localhost/", "redis://localhost:port/0"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="localhost"):
        RedisQueueStore(url)


def test_an_empty_namespace_is_refused(redis_server: Redis) -> None:
    with pytest.raises(ValueError, match="namespace"):
        RedisQueueStore(redis_server.url, namespace="")


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_redis(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "redis":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_redis)
    with pytest.raises(RuntimeError, match=r'pip install "localqueue\[redis\]"'):
        RedisQueueStore("redis://localhost/0")
