"""The schema of a `PostgresQueueStore`: made by whoever comes first, versioned, and revertible."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from localqueue.contracts.steps import PATIENCE
from localqueue.errors import QueueStoreVersionError
from localqueue.stores.port import Changes, NewMessage
from localqueue.stores.postgres import PostgresQueueStore, schema
from tests.processes import context
from tests.servers import Postgres


@pytest.fixture
def empty(postgres: Postgres) -> Iterator[str]:
    """The address of a database that nobody has used."""
    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield f"{postgres.url.rsplit('/', 1)[0]}/{name}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def tables(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'lq\\_%' ORDER BY 1")
        return [name for (name,) in rows]


def version(url: str) -> int:
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        return schema.version(connection, schema.DEFAULT_SCHEMA)


def _open_and_put(url: str, go: Any, answers: Any) -> None:
    go.wait(PATIENCE)
    with PostgresQueueStore(url) as store:
        answers.put((store.put_one("jobs", "x", None)[0], store.namespace_id))


@pytest.mark.multiprocess
@pytest.mark.slow
def test_eight_processes_open_an_empty_database_at_once(empty: str) -> None:
    go, answers = context.Barrier(8), context.Queue()
    processes = [context.Process(target=_open_and_put, args=(empty, go, answers), daemon=True) for _ in range(8)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=PATIENCE * 2) for _ in processes]
    for process in processes:
        process.join(PATIENCE)
        assert process.exitcode == 0
    assert len({message_id for message_id, _ in found}) == 8
    assert len({namespace for _, namespace in found}) == 1
    with PostgresQueueStore(empty) as store:
        assert store.qsize("jobs") == 8
        assert store.check().ok
    assert version(empty) == schema.latest()


def test_up_down_and_up_again(empty: str) -> None:
    with PostgresQueueStore(empty) as store:
        store.enable_journal()
        store.put_one("jobs", "x", None)
    made = tables(empty)
    assert made
    for step in reversed(range(schema.latest())):
        schema.revert(empty, to=step)
        assert version(empty) == step
    assert tables(empty) == []
    with psycopg.connect(empty) as connection:
        left = connection.execute("SELECT proname FROM pg_proc WHERE proname LIKE 'lq\\_%'").fetchall()
    assert left == []
    with PostgresQueueStore(empty) as store:
        assert store.queues() == []
        store.put_one("jobs", "x", None)
    assert tables(empty) == made


def test_a_journal_from_before_it_kept_options_goes_on_with_them(empty: str) -> None:
    def put(store: PostgresQueueStore) -> None:
        store.commit(Changes(enqueue=[NewMessage(store.mint()[0], "jobs", "x", priority=2)]))

    with PostgresQueueStore(empty) as store:
        store.enable_journal()
        put(store)
        schema.revert(empty, to=3)
        put(store)
        assert store.qsize("jobs") == 2
    with PostgresQueueStore(empty) as store:
        put(store)
        assert [(event.seq, event.options) for event in store.events()] == [(1, None), (2, None), (3, {"priority": 2})]


def test_a_crash_inside_a_migration_leaves_the_version_before(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(connection: Any, script: str) -> None:
        connection.execute(script)
        if "lq_claim" in script:
            raise KeyboardInterrupt

    monkeypatch.setattr(schema, "_run", crash)
    with pytest.raises(KeyboardInterrupt):
        PostgresQueueStore(empty)
    monkeypatch.undo()
    assert version(empty) == 1
    with PostgresQueueStore(empty) as store:
        store.put_one("jobs", "x", None)
        assert store.qsize("jobs") == 1


def test_a_newer_schema_is_refused_and_left_alone(empty: str) -> None:
    PostgresQueueStore(empty).close()
    newer = schema.latest() + 1
    with psycopg.connect(empty) as connection:
        connection.execute("INSERT INTO localqueue.lq_migrations (version, name) VALUES (%s, 'future')", (newer,))
    with pytest.raises(QueueStoreVersionError, match=f"version {newer}"):
        PostgresQueueStore(empty)
    with pytest.raises(QueueStoreVersionError, match="release that made it"):
        schema.revert(empty)
    assert version(empty) == newer


def test_a_target_that_does_not_exist_is_refused(empty: str) -> None:
    with pytest.raises(ValueError, match="between 0 and"):
        schema.revert(empty, to=99)


def test_two_schemas_of_one_database_do_not_meet(empty: str) -> None:
    with PostgresQueueStore(empty) as one, PostgresQueueStore(empty, schema="other_queues") as two:
        one.enable_journal()
        one.put_one("jobs", "mine", None)
        two.put_one("jobs", "theirs", None)
        assert [message.payload for message in two.scan("jobs")] == ["theirs"]
        assert len(one.events()) == 1 and two.events() == []
        assert one.channel != two.channel
    schema.revert(empty, schema="other_queues")
    with PostgresQueueStore(empty) as one:
        assert one.qsize("jobs") == 1


@pytest.mark.parametrize("schema", ["", "Queues", 'a"b', "a b", "x" * 41, "1a", "a;b", "pg-1"])
def test_a_name_that_would_need_quoting_is_no_schema(postgres: Postgres, schema: str) -> None:
    with pytest.raises(ValueError, match="schema must be"):
        PostgresQueueStore(postgres.url, schema=schema)
