"""A PostgreSQL store that was opened to look: it makes nothing and changes nothing."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from localqueue.contracts.steps import PATIENCE, counts, new, put, take
from localqueue.errors import (
    QueueStoreMissingError,
    QueueStoreReadOnlyError,
    QueueStoreVersionError,
)
from localqueue.stores.port import Changes, Lease, LeaseRequest, QueueStore
from localqueue.stores.postgres import PostgresQueueStore, schema
from localqueue.stores.sqlite import SQLiteQueueStore
from localqueue.stores.url import open_store
from tests.servers import Postgres

pytestmark = pytest.mark.server


@pytest.fixture
def empty(postgres: Postgres) -> Iterator[str]:
    """The address of a database that nobody has used."""
    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield f"{postgres.url.rsplit('/', 1)[0]}/{name}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def writer(postgres: Postgres) -> Iterator[PostgresQueueStore]:
    with PostgresQueueStore(postgres.url, namespace=secrets.token_hex(6)) as store:
        yield store


@pytest.fixture(params=[False, True], ids=["direct", "pooled"])
def looker(request: pytest.FixtureRequest, postgres: Postgres, writer: PostgresQueueStore) -> Iterator[QueueStore]:
    """One that looks at what the writer has."""
    put(writer)
    with open_store(postgres.url, namespace=writer.namespace, read_only=True, pooled=request.param) as store:  # type: ignore[attr-defined]
        yield store


def test_where_there_is_no_store_it_is_said_and_none_is_made(empty: str) -> None:
    with pytest.raises(QueueStoreMissingError, match="there is no store at"):
        PostgresQueueStore(empty, read_only=True)
    with psycopg.connect(empty) as connection:
        found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'localqueue'").fetchone()
    assert found is None


def test_where_there_is_no_namespace_it_is_said_and_none_is_made(empty: str) -> None:
    PostgresQueueStore(empty).close()
    for _ in range(2):
        with pytest.raises(QueueStoreMissingError, match="there is no namespace 'other'"):
            PostgresQueueStore(empty, namespace="other", read_only=True)


def test_an_older_schema_is_left_as_it_is(empty: str) -> None:
    PostgresQueueStore(empty).close()
    schema.revert(empty, to=schema.latest() - 1)
    with pytest.raises(QueueStoreVersionError, match="without read_only"):
        PostgresQueueStore(empty, read_only=True)
    with psycopg.connect(empty, cursor_factory=psycopg.RawCursor) as connection:
        assert schema.version(connection, schema.DEFAULT_SCHEMA) == schema.latest() - 1


def test_everything_can_be_seen(looker: QueueStore, writer: PostgresQueueStore, tmp_path: Path) -> None:
    writer.enable_journal()
    put(writer, payload="y", dedupe_key="d", run_id="r", ordering_key="o")
    assert [message.payload for message in looker.scan("jobs")] == ["x", "y"]
    assert counts(looker) == counts(writer) == {"ready": 2}
    assert looker.queues() == ["jobs"]
    assert looker.run("r") == writer.run("r")
    assert looker.prune("jobs", state="dead", older_than=0, dry_run=True) == 0
    assert looker.check().ok
    assert [event.type for event in looker.events()] == ["enqueued"]
    looker.backup(str(tmp_path / "copy.db"))
    with SQLiteQueueStore(tmp_path / "copy.db", namespace=writer.namespace) as copy:
        assert copy.qsize("jobs") == 2


def test_reading_an_unknown_queue_makes_none(looker: QueueStore, writer: PostgresQueueStore) -> None:
    for store in (looker, writer):
        assert store.stats("unknown").total == 0
        assert store.qsize("unknown") == store.load("unknown") == 0
        assert store.scan("unknown") == store.splits("unknown", 2) == []
        assert not store.paused("unknown")
        assert store.subscriptions("unknown").subscribers == ()
    assert writer.lease(LeaseRequest("unknown")) == []
    assert writer.requeue("unknown") == writer.prune("unknown", state="dead", older_than=0) == 0
    assert writer.queues() == ["jobs"]


def test_who_waits_is_woken_by_others(looker: QueueStore, writer: PostgresQueueStore) -> None:
    with looker.listen(["later"]) as waiter, looker.listen_capacity({"jobs": 1}) as room:
        assert not waiter.wait(0)
        assert not room.wait(0)
        put(writer, "later")
        assert waiter.wait(PATIENCE)
        take(writer)
        assert room.wait(PATIENCE)


WRITES: dict[str, Callable[[Any], Any]] = {
    "put_one": lambda store: store.put_one("jobs", "x", None),
    "put_one in a new queue": lambda store: store.put_one("new", "x", None),
    "put_batch": lambda store: store.put_batch("jobs", ["x"], None),
    "commit": lambda store: store.commit(Changes(enqueue=[new(store, dedupe_key="d")])),
    "commit of nothing": lambda store: store.commit(Changes()),
    "lease": lambda store: store.lease(LeaseRequest("jobs")),
    "lease from an unknown queue": lambda store: store.lease(LeaseRequest("unknown")),
    "ack_one": lambda store: store.ack_one("jobs", store.mint()[0], 1),
    "renew": lambda store: store.renew([Lease("jobs", store.mint()[0], 1)], timeout=1),
    "requeue": lambda store: store.requeue("jobs"),
    "prune": lambda store: store.prune("jobs", state="dead", older_than=0),
    "prune an unknown queue": lambda store: store.prune("unknown", state="dead", older_than=0),
    "purge": lambda store: store.purge("jobs"),
    "cancel_run": lambda store: store.cancel_run("r"),
    "pause": lambda store: store.pause("jobs"),
    "resume": lambda store: store.resume("jobs", worker="w"),
    "heartbeat": lambda store: store.heartbeat("jobs", "w"),
    "subscribe": lambda store: store.subscribe("jobs", "s"),
    "unsubscribe": lambda store: store.unsubscribe("jobs", "s"),
    "enable_journal": lambda store: store.enable_journal(),
    "disable_journal": lambda store: store.disable_journal(),
    "prune_events": lambda store: store.prune_events(older_than=0),
    "commit_within": lambda store: store.commit_within(None, Changes()),
}


@pytest.mark.parametrize("name", WRITES)
def test_it_changes_nothing(name: str, looker: QueueStore, writer: PostgresQueueStore) -> None:
    before = counts(writer), writer.queues(), writer.paused("jobs"), writer.journal_enabled()
    with pytest.raises(QueueStoreReadOnlyError, match="opened to look"):
        WRITES[name](looker)
    assert (counts(writer), writer.queues(), writer.paused("jobs"), writer.journal_enabled()) == before
