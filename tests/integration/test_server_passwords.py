"""Servers that ask for a password: any can be written into an address, and none is told when it is wrong."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from importlib import import_module
from typing import Any
from urllib.parse import quote

import pytest

from localqueue import PersistentQueue, open_store
from localqueue.errors import QueueStoreError
from localqueue.spark.options import parse as parse_options
from localqueue.stores.postgres import PostgresQueueStore
from localqueue.stores.postgres.schema import revert
from tests.servers import MongoDB, Postgres, Redis
from tests.unit.addresses import PIECES, all_said, in_words, leaked

pytestmark = pytest.mark.server

PASSWORD = "/?#[]@".join(PIECES) + " %25%:;&=+'\"\\`$é\u2100"
WRONG = "@/".join(PIECES) + " wrong"


@pytest.fixture(scope="module")
def postgres_with_passwords() -> Iterator[Postgres]:
    from psycopg import connect, sql

    server = Postgres()
    rules = server.folder / "data" / "pg_hba.conf"
    rules.write_text(f"host all bob 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
    server.start()
    with connect(server.url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE bob LOGIN PASSWORD {}").format(sql.Literal(PASSWORD)))
        connection.execute("GRANT CREATE ON DATABASE postgres TO bob")
    yield server
    server.stop()


@pytest.fixture
def of_bob(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server where bob has the password, with room for it."""
    kind = request.param
    if kind == "postgres":
        yield f"postgresql://bob:{{}}@127.0.0.1:{request.getfixturevalue('postgres_with_passwords').port}/postgres"
    elif kind == "redis":
        import redis

        server: Redis = request.getfixturevalue("redis_server")
        with redis.Redis.from_url(server.url) as client:
            client.execute_command("ACL", "SETUSER", "bob", "on", f">{PASSWORD}", "~*", "&*", "+@all")
            yield server.url.replace("://", "://bob:{}@")
            client.acl_deluser("bob")
    else:
        import pymongo

        mongodb: MongoDB = request.getfixturevalue("mongodb")
        with pymongo.MongoClient(mongodb.url) as client:
            client.admin.command("createUser", "bob", pwd=PASSWORD, roles=["root"])
            yield mongodb.url.replace("://", "://bob:{}@").replace("/?", "/passwords?") + "&authSource=admin"
            client.admin.command("dropUser", "bob")


on_every_server = pytest.mark.parametrize("of_bob", ["postgres", "redis", "mongodb"], indirect=True)


@on_every_server
def test_a_store_opens_with_any_password_that_is_escaped(of_bob: str) -> None:
    url = of_bob.format(quote(PASSWORD, safe=""))
    with open_store(url, namespace=secrets.token_hex(6)) as store:
        queue = PersistentQueue[Any]("jobs", store=store)
        queue.put("work")
        assert queue.get_nowait() == "work"
        assert not leaked(f"{store!r} {store.url} {queue!r}")
        assert "bob@127.0.0.1" in store.url


@on_every_server
def test_a_wrong_password_is_told_no_more_than_the_right_one(of_bob: str) -> None:
    with pytest.raises(QueueStoreError) as refused:
        open_store(of_bob.format(quote(WRONG, safe="")), timeout=3)
    said = all_said(refused.value)
    assert not leaked(said) and "bob" in str(refused.value)


@on_every_server
@pytest.mark.parametrize("password", [PASSWORD, WRONG], ids=["right", "wrong"])
def test_a_password_that_is_not_escaped_is_refused_before_anybody_is_asked(of_bob: str, password: str) -> None:
    with pytest.raises(ValueError, match=r"the password holds an unescaped '[/@]'") as refused:
        open_store(of_bob.format(password))
    assert not leaked(all_said(refused.value))


def test_postgres_takes_words_and_parameters_too(postgres_with_passwords: Postgres) -> None:
    port, escaped = postgres_with_passwords.port, quote(PASSWORD, safe="")
    for address in (
        f"host=127.0.0.1 port={port} user=bob dbname=postgres password={in_words(PASSWORD)}",
        f"postgresql:///postgres?host=127.0.0.1&port={port}&user=bob&password={escaped}",
    ):
        with PostgresQueueStore(address, namespace=secrets.token_hex(6)) as store:
            assert not leaked(f"{store!r} {store.url}") and "host=127.0.0.1" in store.url
        with pytest.raises(QueueStoreError, match="password authentication failed") as refused:
            PostgresQueueStore(address.replace(PIECES[2], PIECES[1]))
        assert not leaked(all_said(refused.value))


@pytest.mark.parametrize("engine", ["adbc", "cursors"])
def test_spark_reads_tables_with_any_password(postgres_with_passwords: Postgres, engine: str) -> None:
    source = import_module(f"localqueue.spark.source.{engine}")
    url = f"postgresql://bob:{{}}@127.0.0.1:{postgres_with_passwords.port}/postgres"
    with source.postgres(parse_options({"url": url.format(quote(PASSWORD, safe=""))})) as connection:
        assert connection.rows("SELECT 1") == [(1,)]
    with (
        pytest.raises(QueueStoreError) as refused,
        source.postgres(parse_options({"url": url.format(quote(WRONG, ""))})),
    ):
        pass
    assert not leaked(all_said(refused.value))


def test_taking_a_schema_back_tells_no_password(postgres_with_passwords: Postgres) -> None:
    url = f"postgresql://bob:{{}}@127.0.0.1:{postgres_with_passwords.port}/postgres"
    PostgresQueueStore(url.format(quote(PASSWORD, safe="")), schema="taken_back").close()
    revert(url.format(quote(PASSWORD, safe="")), schema="taken_back")
    with pytest.raises(QueueStoreError) as refused:
        revert(url.format(quote(WRONG, safe="")), schema="taken_back")
    assert not leaked(all_said(refused.value))
