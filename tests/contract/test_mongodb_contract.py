"""MongoDB keeps the contract of every store, and does what the reference model does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import settings

from localqueue.contracts import SharedStoreContract, StoreHarness
from localqueue.contracts.machine import store_machine
from localqueue.stores.mongodb import MongoDBQueueStore
from localqueue.stores.port import QueueStore
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.servers import MongoDB, shared


def open_at(location: str) -> QueueStore:
    """For another process: the address and the namespace."""
    url, _, namespace = location.partition("#")
    return MongoDBQueueStore(url, namespace=namespace)


@pytest.fixture(scope="module", autouse=True)
def _connected() -> Iterator[None]:
    """Stores of one process share their connections; one that stays open keeps them for the next test."""
    server: MongoDB = shared(MongoDB)
    with MongoDBQueueStore(server.url, namespace=uuid4().hex):
        yield


class TestMongoDB(SharedStoreContract):
    @pytest.fixture
    def harness(self, mongodb: MongoDB, request: pytest.FixtureRequest) -> StoreHarness:
        """Each test has namespaces of its own; one that asks for the name has a database of its own."""
        url, prefix = mongodb.url, f"{uuid4().hex}-"
        if any(name in request.node.name for name in ("knows_its_namespace", "says_where_it_is")):
            url, prefix = url.replace("/?", f"/{uuid4().hex}?"), ""

        def open_store(namespace: str = "default", **options: Any) -> QueueStore:
            return MongoDBQueueStore(url, namespace=prefix + namespace, **options)

        return StoreHarness(
            open=open_store,
            open_copy=partial(SQLiteQueueStore, namespace=f"{prefix}default"),
            opener="tests.contract.test_mongodb_contract:open_at",
            location=f"{url}#{prefix}default",
        )


def _new_place() -> Callable[..., QueueStore]:
    server: MongoDB = shared(MongoDB)
    return partial(MongoDBQueueStore, server.url, namespace=uuid4().hex)


def _machine() -> Any:
    machine: Any = store_machine(_new_place, reopenable=True)
    if "LOCALQUEUE_EXAMPLES" not in os.environ:  # fewer than of other stores: each step waits for the disk
        machine.settings = settings(machine.settings, max_examples=6)
    return machine


TestMachine = pytest.mark.timeout(300)(pytest.mark.server(pytest.mark.slow(_machine())))
