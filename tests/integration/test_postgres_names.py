"""Whatever schema comes first in a search_path, of the role, the database, the address or a user's session: nothing in
it is taken for what the server has under the same name."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from localqueue import PersistentQueue
from localqueue.contracts.steps import PATIENCE, assert_sound, drain, put, put_many
from localqueue.errors import QueueStoreError
from localqueue.policies import PerKeyFifoOrdering
from localqueue.stores.port import Lease, LeaseRequest
from localqueue.stores.postgres import PostgresQueueStore, schema
from tests.servers import Postgres

pytestmark = pytest.mark.slow

# Each tells of its call in a way that no rollback undoes, and fails.
_FUNCTIONS = [
    "pg_notify(text, text) RETURNS void", "sha256(bytea) RETURNS bytea", "clock_timestamp() RETURNS timestamptz",
    "statement_timestamp() RETURNS timestamptz", "set_config(text, text, bool) RETURNS text",
    "current_setting(text) RETURNS text", "current_setting(text, bool) RETURNS text",
    "pg_advisory_xact_lock(int, int) RETURNS void", "pg_advisory_xact_lock_shared(int, int) RETURNS void",
    "pg_try_advisory_xact_lock(int, int) RETURNS bool", "cardinality(anyarray) RETURNS int",
    "octet_length(bytea) RETURNS int", "substring(bytea, int, int) RETURNS bytea", "encode(bytea, text) RETURNS text",
    "pg_is_in_recovery() RETURNS bool", "current_database() RETURNS name", "json_strip_nulls(json) RETURNS json",
    "pg_postmaster_start_time() RETURNS timestamptz", "pg_current_xact_id() RETURNS xid8",
    "pg_listening_channels() RETURNS SETOF text", "unnest(anyarray) RETURNS SETOF anyelement",
    "int_equals(int, int) RETURNS bool", "float8_at_most(float8, float8) RETURNS bool",
    "bytea_equals(bytea, bytea) RETURNS bool", "name_equals(name, name) RETURNS bool",
    "is_float8(anyelement) RETURNS bool",
]  # fmt: skip
_OPERATORS = [
    ("=", "int_equals", "int"), ("<=", "float8_at_most", "float8"), ("=", "bytea_equals", "bytea"),
    ("=", "name_equals", "name"),
]  # fmt: skip


class Planted:
    """A database, and a role that finds a schema of somebody else before that of the server."""

    def __init__(self, server: str) -> None:
        self.name = f"t{secrets.token_hex(6)}"
        self._server = server
        self.url = f"{server.rsplit('/', 1)[0]}/{self.name}"
        self._theirs = self.url.replace("//test@", f"//{self.name}@")
        self._execute(f"CREATE DATABASE {self.name}", f"CREATE ROLE {self.name} LOGIN", at=server)
        body = "BEGIN PERFORM pg_catalog.nextval('evil.calls'); RAISE EXCEPTION 'hijacked'; END"
        self._execute(
            "CREATE SCHEMA evil", "CREATE SEQUENCE evil.calls", "CREATE TABLE evil.pg_database (oid oid)",
            *(f"CREATE FUNCTION evil.{one} LANGUAGE plpgsql AS $$ {body} $$" for one in _FUNCTIONS),
            *(f"CREATE OPERATOR evil.{sign} (FUNCTION = evil.{function}, LEFTARG = {kind}, RIGHTARG = {kind})"
              for sign, function, kind in _OPERATORS),
            "CREATE DOMAIN evil.float8 AS pg_catalog.float8 CHECK (evil.is_float8(VALUE))",
            f"GRANT CREATE ON DATABASE {self.name} TO {self.name}", f"GRANT USAGE ON SCHEMA evil TO {self.name}",
            f"GRANT ALL ON ALL SEQUENCES IN SCHEMA evil TO {self.name}",
        )  # fmt: skip

    def _execute(self, *statements: str, at: str | None = None) -> list[Any]:
        with psycopg.connect(at or self.url, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def of_role(self) -> str:
        self._execute(f"ALTER ROLE {self.name} SET search_path = evil, pg_catalog, public")
        return self._theirs

    def of_database(self) -> str:
        self._execute(f"ALTER DATABASE {self.name} SET search_path = evil, pg_catalog, public")
        return self._theirs

    def of_address(self) -> str:
        return f"{self._theirs}?options=-csearch_path%3Devil,pg_catalog"

    def calls(self) -> int:
        ((count,),) = self._execute("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM evil.calls")
        return int(count)

    def remove(self) -> None:
        self._execute(f"DROP DATABASE {self.name} WITH (FORCE)", f"DROP ROLE {self.name}", at=self._server)


@pytest.fixture
def planted(postgres: Postgres) -> Iterator[Planted]:
    planted = Planted(postgres.url)
    yield planted
    planted.remove()


@pytest.mark.parametrize("where", [Planted.of_role, Planted.of_database, Planted.of_address])
def test_nothing_that_was_planted_in_a_search_path_is_called(
    planted: Planted, where: Callable[[Planted], str], tmp_path: Path
) -> None:
    url = where(planted)
    before = planted.calls()
    with psycopg.connect(url) as victim, pytest.raises(psycopg.errors.RaiseException, match="hijacked"):
        victim.execute("SELECT pg_notify('a', 'b')")
    assert planted.calls() == before + 1, "which shows that it would be"
    with PostgresQueueStore(url, timeout=PATIENCE) as store:  # makes the schema, too
        _use(store, tmp_path)
        _put_within(store, url)
        schema.revert(url, to=0)
    assert planted.calls() == before + 1


def _use(store: PostgresQueueStore, folder: Path) -> None:
    """Put, claim, ack, timers, journal, listening, and what an operator does."""
    with store.listen(["jobs"]) as waiter:
        store.put_one("jobs", "plain", None)
        assert waiter.wait(PATIENCE)
    put(store, payload="with options", priority=2, ttl=60)
    put(store, payload="later", delay=0.001)
    put_many(store, ["a", "b", "c"])
    store.enable_journal()
    first = put(store, payload="keyed", dedupe_key="d" * 300, ordering_key="k", run_id="r")
    put(store, payload="after", after=(first,), ordering_key="k")
    (one, *others) = store.lease(LeaseRequest("jobs", 2, 30.0, "w"))
    assert None not in store.renew([Lease("jobs", one.id, one.attempts)], timeout=60.0)
    assert store.ack_one("jobs", one.id, one.attempts)
    assert all(store.ack_one("jobs", other.id, other.attempts) for other in others)
    drain(store)
    store.heartbeat("jobs", "w")
    assert store.events() and store.run("r") is not None and store.stats("jobs").total == 0
    assert_sound(store)
    store.backup(folder / f"{store.namespace}.sqlite3")


def _put_within(store: PostgresQueueStore, url: str) -> None:
    """By the user's session, which keeps the search_path it has."""
    queue = PersistentQueue[Any]("jobs", store=store, ordering_policy=PerKeyFifoOrdering(), maxsize=50)
    first = queue.put("outside", ordering_key="k")
    with psycopg.connect(url) as connection:
        queue.put("plain", connection=connection)
        queue.put("x", ordering_key="k", dedupe_key="d", run_id="r", after=[first], connection=connection)
        connection.commit()
        assert connection.execute("SHOW search_path").fetchone()[0].startswith("evil")  # type: ignore[index]
    assert len(drain(store)) == 3


def test_behind_a_pooler_such_a_search_path_is_refused(planted: Planted) -> None:
    before = planted.calls()
    with pytest.raises(QueueStoreError, match="in schema 'evil' before pg_catalog"):
        PostgresQueueStore(planted.of_role(), pooled=True)
    assert planted.calls() == before
