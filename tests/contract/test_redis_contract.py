"""The Redis store keeps the contract, and does what the reference model does."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from localqueue.contracts import AscendingIdsContract, SharedStoreContract, StoreHarness
from localqueue.contracts.machine import store_machine
from localqueue.stores.port import QueueStore
from localqueue.stores.redis import RedisQueueStore
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.servers import Redis, shared

_fresh = itertools.count()


class PrefixedStore(RedisQueueStore):
    """A store whose namespace belongs to one test, and answers to the name the test knows."""

    def __init__(self, url: str, prefix: str, *, namespace: str = "default", **options: Any) -> None:
        super().__init__(url, namespace=f"{prefix}{namespace}", **options)
        self.asked_for = namespace

    @property
    def namespace(self) -> str:
        return self.asked_for


def open_elsewhere(location: str) -> QueueStore:
    """What another process opens: the url and the prefix of the test."""
    url, prefix = location.split(" ")
    return PrefixedStore(url, prefix)


def _prefix() -> str:
    return f"{os.getpid()}-{next(_fresh)}-"


class TestRedis(SharedStoreContract, AscendingIdsContract):
    @pytest.fixture
    def harness(self, redis_server: Redis) -> StoreHarness:
        prefix = _prefix()
        return StoreHarness(
            open=partial(PrefixedStore, redis_server.url, prefix),
            open_copy=SQLiteQueueStore,
            opener="tests.contract.test_redis_contract:open_elsewhere",
            location=f"{redis_server.url} {prefix}",
        )


def _new_place() -> Callable[..., QueueStore]:
    return partial(PrefixedStore, shared(Redis).url, _prefix())


TestRedisMachine = pytest.mark.server(pytest.mark.slow(store_machine(_new_place, reopenable=True, examples=12)))
