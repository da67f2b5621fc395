"""A server that says nothing, and hosts that the server hears nothing of."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from localqueue.contracts.steps import PATIENCE, Background, new, put, put_many, state_of, take
from localqueue.errors import QueueStoreUnavailableError
from localqueue.stores.port import Changes, LeaseRequest
from localqueue.stores.postgres import PostgresQueueStore, libpq
from localqueue.stores.postgres.connection import connect
from tests.faults.proxy import Proxy
from tests.servers import Postgres

pytestmark = pytest.mark.slow

SOON = 0.2


@pytest.fixture
def proxy(postgres: Postgres) -> Iterator[Proxy]:
    with Proxy(postgres.port) as proxy:
        yield proxy


@pytest.fixture
def witness(postgres: Postgres) -> Iterator[PostgresQueueStore]:
    with PostgresQueueStore(postgres.url, namespace=secrets.token_hex(6)) as store:
        yield store


@contextmanager
def impatient(store: PostgresQueueStore, asking: float = 1.0) -> Iterator[None]:
    """Its waits for an answer are over soon. Before and after, a busy server has time."""
    info, pooled = f"{store._info} connect_timeout=2", store._pooled
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libpq, "_BEYOND_LOCKS", SOON)
        patch.setattr(libpq, "_ASKING", asking)
        patch.setattr(store._pool, "_connect", lambda: connect(info, pooled=pooled, timeout=SOON))
        for connection in store._pool._all:
            patch.setattr(connection, "patience", 2 * SOON)
        yield


@pytest.fixture(params=[False, True], ids=["direct", "pooled"])
def store(request: pytest.FixtureRequest, proxy: Proxy, witness: PostgresQueueStore) -> Iterator[PostgresQueueStore]:
    """One behind the proxy, in the namespace of the witness."""
    url = f"postgresql://test@127.0.0.1:{proxy.port}/postgres"
    with PostgresQueueStore(url, namespace=witness.namespace, pooled=request.param) as store:
        yield store


CALLS: dict[str, Callable[[PostgresQueueStore], Any]] = {
    "put": lambda store: store.put_one("jobs", "b", None),
    "put of a large value": lambda store: store.put_one("jobs", "b" * 20_000_000, None),
    "put of many": lambda store: store.put_batch("jobs", ["b"] * 1000, None),
    "put with a key": lambda store: put(store, dedupe_key="d"),
    "lease": lambda store: store.lease(LeaseRequest("jobs")),
    "read": lambda store: store.stats("jobs"),
    "check": lambda store: store.check(),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_call_waits_for_ever(name: str, store: PostgresQueueStore, proxy: Proxy) -> None:
    put_many(store, "aa")
    take(store)
    proxy.silence()
    with impatient(store), pytest.raises(QueueStoreUnavailableError):
        CALLS[name](store)
    proxy.mend()
    assert state_of(store, put(store)) == "ready"


def test_a_statement_that_the_server_is_still_at_work_on_is_waited_for(witness: PostgresQueueStore) -> None:
    with impatient(witness, asking=PATIENCE):
        assert witness._one("SELECT 1 FROM pg_sleep(1.5)", ()) == (1,)


@pytest.mark.parametrize("pooled", [False, True])
def test_a_transaction_whose_host_says_nothing_more_lets_go_of_its_locks(
    pooled: bool, postgres: Postgres, witness: PostgresQueueStore
) -> None:
    put(witness)
    with PostgresQueueStore(postgres.url, namespace=witness.namespace, timeout=1, pooled=pooled) as store:
        connection = store._pool.take()
        store._begin(connection, (), {witness.queue_ids["jobs"]})
        waiting = Background()
        waiting.start(lambda: witness.commit(Changes(enqueue=[new(witness, dedupe_key="d")])))
        waiting.join()
        connection.close()


def test_an_ack_that_did_not_get_through_is_sent_again(
    store: PostgresQueueStore, proxy: Proxy, witness: PostgresQueueStore
) -> None:
    put(store)
    message = take(store)
    proxy.cut(1, "before")
    assert store.ack_one("jobs", message.id, message.attempts)
    assert witness.get("jobs", message.id) is None


def test_an_ack_that_may_have_been_that_of_another_worker_is_not_claimed(
    store: PostgresQueueStore, proxy: Proxy, witness: PostgresQueueStore
) -> None:
    put_many(store, "ab")
    first = take(store)
    assert store.ack_one("jobs", first.id, first.attempts)  # from now on that is one round trip
    message = take(store)
    proxy.cut(1, "after")
    with pytest.raises(QueueStoreUnavailableError):
        store.ack_one("jobs", message.id, message.attempts)
    assert witness.get("jobs", message.id) is None


def test_an_ack_of_a_lease_that_ended_meanwhile_is_refused_and_not_in_doubt(
    store: PostgresQueueStore, proxy: Proxy, witness: PostgresQueueStore
) -> None:
    put(store)
    (lost,) = witness.lease(LeaseRequest("jobs", timeout=0.0))
    again = take(witness)
    proxy.cut(1, "after")
    assert not store.ack_one("jobs", lost.id, lost.attempts)
    assert state_of(witness, again.id) == "inflight"
