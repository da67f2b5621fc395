"""A Redis store carried over a fork: the child makes connections of its own and says nothing on its parent's."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest
import redis

from localqueue.contracts.steps import PATIENCE, ack, lease, put, take
from localqueue.stores.redis import RedisQueueStore
from tests.servers import Redis

pytestmark = [pytest.mark.multiprocess, pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")]


@pytest.fixture
def store(redis_server: Redis) -> Iterator[RedisQueueStore]:
    with RedisQueueStore(redis_server.url, namespace=f"fork-{os.getpid()}-{os.urandom(4).hex()}") as store:
        yield store


def in_child(work: Callable[[], object]) -> None:
    """Run `work` in a forked child and wait for it."""
    child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))
        try:
            work()
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_parent_and_child_work_on_the_same_store(store: RedisQueueStore) -> None:
    put(store, payload="parent")

    def work() -> None:
        assert take(store).payload == "parent"
        put(store, payload="child")

    in_child(work)
    message = take(store)
    assert message.payload == "child"
    assert ack(store, message)
    assert store.check().ok


def test_ids_of_parent_and_child_differ(store: RedisQueueStore) -> None:
    def work() -> None:
        for _ in range(50):
            put(store)

    for _ in range(2):
        in_child(work)
    work()
    assert store.qsize("jobs") == 150


def test_a_child_waits_and_is_woken_although_its_parent_listened(store: RedisQueueStore) -> None:
    with store.listen(["jobs"]) as waiter:
        assert not waiter.wait(0)

        def work() -> None:
            with store.listen(["answers"]) as own:
                put(store)
                assert own.wait(PATIENCE)

        child = os.fork()
        if child == 0:
            signal.alarm(int(PATIENCE))
            try:
                work()
                os._exit(0)
            except BaseException as error:
                os.write(2, f"{type(error).__name__}: {error}\n".encode())
                os._exit(1)
        assert waiter.wait(PATIENCE)
        assert lease(store, "answers") == []
        put(store, "answers")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with store.listen(["again"]) as waiter:
        put(store, "again")
        assert waiter.wait(PATIENCE)


def test_a_child_leaves_the_connections_of_its_parent_open(store: RedisQueueStore, redis_server: Redis) -> None:
    put(store)
    with redis.Redis.from_url(redis_server.url) as client:
        before = {one["id"] for one in client.client_list()}
        in_child(lambda: store.put_one("jobs", "x", None))
        assert before <= {one["id"] for one in client.client_list()}
    put(store)
    assert store.qsize("jobs") == 3
