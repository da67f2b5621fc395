"""`PostgresQueueStore` keeps the contract."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from localqueue.contracts import SharedStoreContract, StoreHarness
from localqueue.contracts.machine import store_machine
from localqueue.stores.port import QueueStore
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.servers import Postgres, shared

pytestmark = [pytest.mark.server, pytest.mark.slow]


def open_at(location: str) -> QueueStore:
    """Open what another process describes as JSON."""
    return open_in(**json.loads(location))


def open_in(url: str, prefix: str, *, namespace: str = "default", **options: Any) -> QueueStore:
    """A namespace among those of one test."""
    from localqueue.stores.postgres import PostgresQueueStore

    return PostgresQueueStore(url, namespace=f"{prefix}{namespace}", **options)


_ASKS_FOR_ITS_NAMESPACE = ("test_a_store_knows_its_namespace", "test_a_store_says_where_it_is_and_what_time_it_is")


class TestPostgres(SharedStoreContract):
    @pytest.fixture
    def harness(self, postgres: Postgres, request: pytest.FixtureRequest) -> StoreHarness:
        unique = secrets.token_hex(6)
        place = {"url": postgres.url, "prefix": f"{unique}/"}
        if request.node.name in _ASKS_FOR_ITS_NAMESPACE:
            place = {"url": postgres.url, "prefix": "", "schema": f"lq_{unique}"}
        return StoreHarness(
            open=partial(open_in, **place),
            open_copy=partial(_open_copy, prefix=place["prefix"]),
            opener="tests.contract.test_postgres_contract:open_at",
            location=json.dumps(place),
        )


def _open_copy(path: str, *, prefix: str) -> QueueStore:
    return SQLiteQueueStore(path, namespace=f"{prefix}default")


def _new_place() -> Callable[..., QueueStore]:
    return partial(open_in, shared(Postgres).url, secrets.token_hex(6))


TestPostgresMachine = pytest.mark.timeout(300)(store_machine(_new_place, reopenable=True, examples=12))
