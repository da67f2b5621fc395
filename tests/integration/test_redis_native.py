"""What an answer of a Redis server that is no result means to coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from localqueue import AsyncQueue
from localqueue.contracts.steps import PATIENCE
from localqueue.errors import QueueStoreFullError
from localqueue.stores.redis import RedisQueueStore
from localqueue.stores.redis.connection import Connections
from tests.servers import Redis

pytestmark = pytest.mark.server


@pytest.fixture
def client(redis_server: Redis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server.url) as client:
        yield client


@pytest.fixture
def store(redis_server: Redis) -> Iterator[RedisQueueStore]:
    with RedisQueueStore(redis_server.url, namespace="native") as store:
        yield store
        store.purge("jobs")


def run(program: Any) -> None:
    async def within() -> None:
        async with asyncio.timeout(PATIENCE):
            await program()

    asyncio.run(within(), debug=True)


def test_functions_that_were_flushed_are_loaded_again(store: RedisQueueStore, client: redis.Redis) -> None:
    async def program() -> None:
        async with AsyncQueue[int]("jobs", store=store) as queue:
            await queue.put(0)
            client.function_flush("SYNC")
            await asyncio.gather(*(queue.put(n) for n in range(1, 20)))
            assert len(await queue.get_messages(50)) == 20

    run(program)


def test_a_server_without_memory_is_named_as_it_is_for_threads(store: RedisQueueStore, client: redis.Redis) -> None:
    async def program() -> None:
        async with AsyncQueue[int]("jobs", store=store) as queue:
            await queue.put(0)
            client.config_set("maxmemory", "1")
            try:
                with pytest.raises(QueueStoreFullError, match="maxmemory"):
                    await queue.put(1)
            finally:
                client.config_set("maxmemory", "0")
            assert await queue.ack(await queue.get_message())

    run(program)


def test_an_encrypted_connection_is_left_to_threads() -> None:
    assert not Connections("rediss://localhost:6379/0", timeout=1).suits_loops
    assert Connections("redis://localhost:6379/0", timeout=1).suits_loops
