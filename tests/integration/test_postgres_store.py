"""What is special to `PostgresQueueStore`: its address, its server's settings, restarts, forks and plans."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from localqueue.contracts.steps import PATIENCE, Background, ack, counts, lease, new, put, put_many, take
from localqueue.errors import (
    IdTaken,
    QueueStoreError,
    QueueStoreLockedError,
    QueueStoreReadOnlyError,
    QueueStoreUnavailableError,
)
from localqueue.stores.port import Changes, LeaseRequest, Limit, NewMessage, Settle
from localqueue.stores.postgres import PostgresQueueStore
from localqueue.stores.postgres.connection import lock_timeouts
from localqueue.stores.postgres.rows import PostgresRows
from tests.servers import Postgres, free_port


@pytest.fixture
def namespace() -> str:
    return secrets.token_hex(6)


@pytest.fixture
def store(postgres: Postgres, namespace: str) -> Iterator[PostgresQueueStore]:
    with PostgresQueueStore(postgres.url, namespace=namespace) as store:
        yield store


@pytest.fixture
def own_server() -> Iterator[Postgres]:
    """A server that the test may kill."""
    server = Postgres()
    server.start()
    yield server
    server.stop()


# the address


def test_no_password_is_shown(postgres: Postgres, namespace: str) -> None:
    url = postgres.url.replace("test@", "test:s3cret@") + "?sslpassword=s3cret"
    with PostgresQueueStore(url, namespace=namespace) as store:
        assert "s3cret" not in store.url + repr(store)
        assert store.url.startswith("postgresql://test@127.0.0.1:")


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(QueueStoreUnavailableError) as caught:
        PostgresQueueStore(f"postgresql://test:s3cret@127.0.0.1:{free_port()}/postgres", timeout=1)
    assert "127.0.0.1" in str(caught.value)
    assert "s3cret" not in str(caught.value) + str(caught.value.path)


@pytest.mark.parametrize("url", ["postgresql://a b c", "nonsense"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises((ValueError, QueueStoreError)):
        PostgresQueueStore(url, timeout=1)


def test_an_empty_namespace_is_refused(postgres: Postgres) -> None:
    with pytest.raises(ValueError, match="namespace"):
        PostgresQueueStore(postgres.url, namespace="")


def test_the_driver_is_imported_when_a_store_is_opened_and_named_when_it_is_missing() -> None:
    program = (
        "import sys, localqueue, localqueue.stores.port\n"
        "assert 'psycopg' not in sys.modules\n"
        "sys.modules['psycopg'] = None\n"
        "from localqueue.stores.postgres import PostgresQueueStore\n"
        "try:\n    PostgresQueueStore('postgresql://nowhere')\n"
        "except RuntimeError as error:\n    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert 'pip install "localqueue[postgres]"' in said


# the server


def test_power_durability_is_refused_where_a_commit_is_not_synced(postgres: Postgres, namespace: str) -> None:
    hasty = f"{postgres.url}?options=-c%20synchronous_commit%3Doff"
    with pytest.raises(QueueStoreError, match="synchronous_commit = off"):
        PostgresQueueStore(hasty, namespace=namespace, durability="power")
    PostgresQueueStore(hasty, namespace=namespace).close()


def test_a_session_that_may_only_read_is_refused_as_such(store: PostgresQueueStore, postgres: Postgres) -> None:
    put(store)
    frozen = f"{postgres.url}?options=-c%20default_transaction_read_only%3Don"
    with PostgresQueueStore(frozen, namespace=store.namespace) as reader:
        assert reader.qsize("jobs") == 1
        with pytest.raises(QueueStoreReadOnlyError):
            put(reader)
        with pytest.raises(QueueStoreReadOnlyError):
            reader.put_one("jobs", "x", None)


def test_times_are_those_of_the_server(store: PostgresQueueStore, postgres: Postgres, monkeypatch: Any) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)
    _, at = store.put_one("jobs", "x", None)
    message = take(store, timeout=10)
    with psycopg.connect(postgres.url) as connection:
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    assert row is not None
    assert at <= message.leased_until - 10 <= store.now()  # type: ignore[operator]
    assert abs(row[0] - at) < PATIENCE


@pytest.mark.slow
def test_a_restart_of_the_server_costs_no_call(own_server: Postgres) -> None:
    with PostgresQueueStore(own_server.url) as store:
        put_many(store, "abc")
        first = take(store, timeout=300)
        own_server.kill()
        with pytest.raises(QueueStoreUnavailableError):
            store.put_one("jobs", "lost", None)
        own_server.start()
        assert ack(store, first)
        assert store.put_one("jobs", "d", None)
        own_server.shut_down()
        own_server.start()
        assert [message.payload for message in lease(store, limit=5)] == ["b", "c", "d"]
        assert store.check().ok


@pytest.mark.slow
def test_a_listener_hears_again_after_a_restart(own_server: Postgres) -> None:
    with (
        PostgresQueueStore(own_server.url) as store,
        PostgresQueueStore(own_server.url) as elsewhere,
        store.listen(["jobs"]) as waiter,
    ):
        assert not waiter.wait(0)
        own_server.kill()
        own_server.start()
        put(elsewhere)
        assert waiter.wait(PATIENCE)
        listener = store._ear._listener
        assert listener is not None
        assert listener._live.wait(PATIENCE)


def test_sessions_that_an_administrator_ended_are_replaced(store: PostgresQueueStore, postgres: Postgres) -> None:
    put(store)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE application_name = 'localqueue' AND pid <> pg_backend_pid()"
        )
    assert ack(store, take(store))
    assert counts(store) == {}


def test_a_lock_that_is_held_too_long_is_named(postgres: Postgres, namespace: str) -> None:
    with PostgresQueueStore(postgres.url, namespace=namespace) as store:
        message_id = put(store)
        message = take(store, timeout=300)
        store._timeout, store._lock_timeouts = 0.3, lock_timeouts(0.3)
        for session in store._pool._all:
            session.execute("SET lock_timeout = '0.3s'")
        with psycopg.connect(postgres.url) as connection:
            key = store.ids.key_of(message_id)
            connection.execute("SELECT 1 FROM localqueue.lq_messages WHERE key = %s FOR UPDATE", (key,))
            with pytest.raises(QueueStoreLockedError):
                store.ack_one("jobs", message_id, message.attempts)
            with pytest.raises(QueueStoreLockedError):
                store.commit(Changes(settle=[Settle("jobs", message_id, "release", message.attempts)]))
        assert ack(store, message)


# fork


@pytest.mark.multiprocess
def test_a_store_carried_over_a_fork_has_connections_of_its_own(store: PostgresQueueStore) -> None:
    with store.listen(["jobs"]) as waiter:
        assert not waiter.wait(0)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                store.put_one("jobs", "of the child", None)
                with store.listen(["jobs"]) as own:
                    assert own.wait(PATIENCE)
                store.close()
                os.write(writing, b"fine")
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        os.close(writing)
        with os.fdopen(reading, "rb") as told:
            assert told.read() == b"fine"
        assert waiter.wait(PATIENCE)
        assert take(store).payload == "of the child"
    assert store.check().ok


# many at once


@pytest.mark.slow
def test_commits_that_touch_the_same_queues_in_every_order_all_get_through(store: PostgresQueueStore) -> None:
    names = ["a", "b", "c", "d"]

    def work(n: int) -> None:
        for m in range(15):
            order = names[(n + m) % 4 :] + names[: (n + m) % 4]
            if n % 2:
                order.reverse()
            batch = [NewMessage(i, name, "x", ordering_key=name, run_id=f"r{n % 2}") for name, i in
                     zip(order, store.mint(4), strict=True)]  # fmt: skip
            store.commit(Changes(enqueue=batch, limits={name: Limit(1000) for name in order}))

    threads = Background()
    for n in range(6):
        threads.start(work, n)
    threads.join()
    assert [sum(counts(store, name).values()) for name in names] == [90] * 4
    assert store.check().problems == ()


def test_an_ack_and_a_dependency_that_is_added_meanwhile_never_leave_a_message_waiting_for_nothing(
    store: PostgresQueueStore,
) -> None:
    for _ in range(20):
        upstream = put(store)
        message = take(store)
        go = threading.Barrier(2)
        threads = Background()

        def settle(message: Any = message, go: Any = go) -> None:
            go.wait(PATIENCE)
            assert store.ack_one("jobs", message.id, message.attempts)

        def depend(upstream: str = upstream, go: Any = go) -> None:
            go.wait(PATIENCE)
            store.commit(Changes(enqueue=[new(store, "after", after=(upstream,))]))

        threads.start(settle)
        threads.start(depend)
        threads.join()
        assert counts(store, "after") == {"ready": 1}
        assert ack(store, take(store, "after"))
    assert store.check().ok


def test_a_value_that_no_column_can_hold_is_refused(store: PostgresQueueStore) -> None:
    for messages in (
        [new(store, priority=1 << 70, dedupe_key="d")],
        [new(store, priority=1 << 70) for _ in range(300)],
    ):
        with pytest.raises(ValueError, match="can not store"):
            store.commit(Changes(enqueue=messages))
    with pytest.raises(ValueError):
        store.commit(Changes(enqueue=[new(store, dedupe_key="d", codec="a\x00b")]))
    assert counts(store) == {}


def test_a_commit_that_fails_leaves_a_connection_that_works(store: PostgresQueueStore) -> None:
    """Whichever of its statements was to be prepared by then."""
    taken = put(store)
    for n in range(8):
        with pytest.raises(IdTaken):
            store.commit(Changes(enqueue=[NewMessage(taken, "jobs", "x", dedupe_key=f"refused {n}")]))
        put(store, dedupe_key=f"d{n}")
        put(store, f"queue {n}", dedupe_key="d", run_id=f"r{n}")
    assert counts(store) == {"ready": 9}


def test_a_holder_that_is_acked_while_it_is_shown_is_no_duplicate(
    store: PostgresQueueStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, dedupe_key="d")
    message = take(store)
    look = PostgresRows.stored

    def ack_first(rows: PostgresRows, keys: Any) -> Any:
        store.ack_one("jobs", message.id, message.attempts)
        return look(rows, keys)

    monkeypatch.setattr(PostgresRows, "stored", ack_first)
    (done,) = store.commit(Changes(enqueue=[new(store, dedupe_key="d")])).enqueued
    assert done.outcome == "stored"
    assert counts(store) == {"ready": 1}


def test_a_put_on_a_key_does_not_keep_claims_from_the_head_of_it(
    store: PostgresQueueStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, ordering_key="k", dedupe_key="d")
    fetch, leased = PostgresRows.fetch, []

    def claim_meanwhile(rows: PostgresRows, wanted: Any) -> Any:
        found = fetch(rows, wanted)
        leased.append(take(store))
        return found

    monkeypatch.setattr(PostgresRows, "fetch", claim_meanwhile)
    store.commit(Changes(enqueue=[new(store, ordering_key="k", dedupe_key="e")]))
    assert len(leased) == 1
    assert counts(store) == {"inflight": 1, "blocked": 1}


def test_a_claim_is_a_walk_down_one_index_whatever_the_statistics_say(
    store: PostgresQueueStore, postgres: Postgres
) -> None:
    """Statistics of an empty table would have it read from end to end once it is full."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("ANALYZE localqueue.lq_messages")
    store.put_batch("jobs", ["x"] * 3000, None)
    connection = store._pool.take()
    try:
        explain = "EXPLAIN (GENERIC_PLAN) " if connection.info.server_version >= 160000 else "EXPLAIN "
        values = {"$1": "NULL", "$2": "1", "$3": "1", "$4": "30", "$5": "NULL", "$6": "NULL", "$7": "'a'", "$8": "'b'"}
        text = store.sql.CLAIM_PLAIN
        if explain == "EXPLAIN ":
            for name, value in values.items():
                text = text.replace(name, value)
        plan = "\n".join(row[0] for row in connection.execute(explain + text).fetchall())
    finally:
        store._pool.give(connection)
    assert "lq_messages_line" in plan and "Seq Scan" not in plan
    assert len(store.lease(LeaseRequest("jobs", 10))) == 10
