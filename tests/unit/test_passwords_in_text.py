"""No password in any text, wherever an address is given and whatever is wrong with it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localqueue import LMDBQueueStore, PersistentQueue, SQLiteQueueStore, configure, open_store
from localqueue.errors import QueueError
from localqueue.spark.options import parse as parse_options
from localqueue.stores import default
from localqueue.stores.mongodb import MongoDBQueueStore
from localqueue.stores.mongodb import connection as mongodb_connection
from localqueue.stores.mongodb import schema as mongodb_schema
from localqueue.stores.postgres import PostgresQueueStore, libpq
from localqueue.stores.redis import RedisQueueStore
from localqueue.stores.redis import privileges as redis_privileges
from localqueue.stores.redis import schema as redis_schema
from tests.unit.addresses import PIECES, Read, addresses, all_said, leaked, right_addresses, urls_of_postgres

BRIEF = {"timeout": 0.02}  # for a server that is not there

some = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
few = settings(some, max_examples=5)


@pytest.fixture(autouse=True)
def a_home_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("LOCALQUEUE_TRACEBACK", "LOCALQUEUE_BACKEND", "LOCALQUEUE_URL", "LOCALQUEUE_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    yield
    configure()


def said_by(work: Callable[[], Any]) -> str:
    """What an error and warnings say, all of it; only errors of ours and ValueError are expected."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        said = ""
        try:
            work()
        except (QueueError, ValueError) as error:
            said = all_said(error)
    return "\n".join([said, *(str(one.message) for one in warned)]).strip()


def store_class(url: str) -> Any:
    if url.startswith(("redis", "unix")):
        return RedisQueueStore
    return MongoDBQueueStore if url.startswith("mongodb") else PostgresQueueStore


# stores


@given(addresses)
@some
def test_opening_a_store_says_no_password(url: str) -> None:
    assert not leaked(said_by(lambda: open_store(url, **({} if url.startswith("memory") else BRIEF))))
    assert not leaked(said_by(lambda: store_class(url)(url, **BRIEF)))


@given(right_addresses)
@some
def test_an_open_store_shows_no_password(right: Read) -> None:
    with pytest.MonkeyPatch.context() as patch:  # as if a server had answered
        patch.setattr(PostgresQueueStore, "_open", lambda store: None)
        patch.setattr(redis_schema, "check_server", lambda *given, **options: None)
        patch.setattr(redis_schema, "find_namespace", lambda *given, **options: None)
        patch.setattr(redis_schema, "open_namespace", lambda *given, **options: 1)
        patch.setattr(redis_privileges, "check", lambda *given, **options: None)
        patch.setattr(mongodb_connection.Server, "namespace", lambda *given: (1, 1))
        store = store_class(right.url)(right.url)
        assert not leaked(f"{store!r} {store} {store.url}")
        assert not leaked(repr(PersistentQueue("jobs", store=store)))
        if isinstance(store, MongoDBQueueStore):
            store.close()


@pytest.mark.slow
@given(addresses)
@some
def test_the_store_of_a_process_says_no_password(url: str) -> None:
    def put() -> None:
        configure(url=url, **({} if url.startswith("memory") else BRIEF))
        with PersistentQueue[Any]("jobs") as queue:
            assert not leaked(f"{queue!r} {default.shared().settings!r}")  # type: ignore[union-attr]
            queue.put(1)

    assert not leaked(said_by(put))
    assert not leaked(said_by(lambda: configure(db_backend=url)))
    assert not leaked(said_by(lambda: PersistentQueue("jobs", store_path=url)))
    configure()


@given(addresses, st.sampled_from(["LOCALQUEUE_URL", "LOCALQUEUE_BACKEND"]))
@some
def test_the_environment_is_not_repeated(url: str, variable: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable, url)
        said = said_by(default.from_environment)
        assert not leaked(said) and (not said or variable in said)


def test_a_second_address_is_no_more_shown_than_the_first() -> None:
    listen = "postgresql://bob:{}@127.0.0.1:1/jobs"
    configure(url="postgresql://127.0.0.1:1/jobs", listen_url=listen.format(PIECES[0]))
    assert not leaked(repr(default.shared().settings))  # type: ignore[union-attr]
    wrong = listen.format("/".join(PIECES))
    said = said_by(lambda: PostgresQueueStore("postgresql://127.0.0.1:1/jobs", listen_url=wrong))
    assert "unescaped '/'" in said and not leaked(said)


@pytest.mark.parametrize("kind", [SQLiteQueueStore, LMDBQueueStore])
def test_an_address_does_not_become_the_name_of_a_file(kind: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'postgresql://bob@db/jobs' is an address and not the path of a file"):
        kind("postgresql://bob:s3cret@db/jobs")
    assert list(tmp_path.iterdir()) == []


# what a driver repeats


class Repeats:
    """A driver whose every error shows the password, with an error behind it that does so too."""

    def __init__(self, kind: type[Exception], word: str) -> None:
        self._kind, self._word = kind, word

    def __call__(self, *given: Any, **options: Any) -> Any:
        try:
            raise OSError(f"sent AUTH {self._word!r}")
        except OSError as error:
            raise self._kind(f"refused {self._word} for bob") from error


@pytest.mark.slow
@given(right_addresses)
@some
def test_a_password_that_the_driver_repeats_is_hidden(right: Read) -> None:
    import psycopg
    import pymongo.errors
    import redis

    with pytest.MonkeyPatch.context() as patch:
        connection = SimpleNamespace(connect=Repeats(psycopg.OperationalError, right.password))
        patch.setattr(libpq, "connection_class", lambda: connection)
        patch.setattr(redis.connection.AbstractConnection, "connect", Repeats(redis.ConnectionError, right.password))
        patch.setattr(mongodb_schema, "require_transactions", Repeats(pymongo.errors.AutoReconnect, right.password))
        said = said_by(lambda: store_class(right.url)(right.url, **BRIEF))
    assert "***" in said and not leaked(said)


# Spark


@given(addresses)
@some
def test_the_options_of_spark_show_no_password(url: str) -> None:
    def parsed(**given: str) -> None:
        assert not leaked(repr(parse_options(given)))

    assert not leaked(said_by(lambda: parsed(url=url)))
    said = said_by(lambda: parsed(path=url))
    assert "option 'path'" in said and not leaked(said)


@given(urls_of_postgres)
@few
@pytest.mark.parametrize("engine", ["adbc", "cursors"])
def test_a_table_that_spark_can_not_read_is_named_without_its_password(engine: str, right: Read) -> None:
    source = import_module(f"localqueue.spark.source.{engine}")

    def look() -> None:
        with source.postgres(parse_options({"url": right.url})):
            raise AssertionError("nobody listens there")

    said = said_by(look)
    assert "can not be reached" in said and not leaked(said)
