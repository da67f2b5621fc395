"""The connection that hears of changes breaks in every way there is: who waits gets the message all the same.

Afterwards the server's push works again. To tell a push from a look at the store, the looks are put off for longer
than a test waits.
"""

from __future__ import annotations

import queue as standard
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from localqueue import PersistentQueue
from localqueue.contracts.steps import PATIENCE
from localqueue.stores import listener
from tests.faults.proxy import Proxy
from tests.faults.ways import through
from tests.stores import SERVERS, Place, on_server, shared
from tests.unit.worker_steps import eventually

pytestmark = pytest.mark.slow

#: What only the listening connection says to its server.
WORDS = {"postgres": b"LISTEN ", "redis": b"SUBSCRIBE", "mongodb": b"$changeStream"}


def kill_postgres_listeners(url: str) -> int:
    import psycopg

    with psycopg.connect(url, autocommit=True) as admin:
        found = admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND query ILIKE '%LISTEN %'"
        ).fetchall()
        return len(found)


def kill_redis_listeners(url: str) -> int:
    import redis

    with redis.Redis.from_url(url) as admin:
        return int(admin.execute_command("CLIENT", "KILL", "TYPE", "pubsub"))  # type: ignore[no-untyped-call]


def kill_change_streams(url: str) -> int:
    import pymongo

    killed = 0
    with pymongo.MongoClient(url) as admin:
        stages: list[Any] = [{"$currentOp": {"allUsers": True, "idleCursors": True}}]
        for operation in admin.admin.aggregate(stages):
            cursor = operation.get("cursor") or {}
            if "$changeStream" not in str(cursor.get("originatingCommand")):
                continue
            if operation["type"] == "op":  # it waits for news at this moment
                admin.admin.command("killOp", op=operation["opid"])
                killed += 1
            else:
                database, _, collection = str(operation["ns"]).partition(".")
                admin[database].command("killCursors", collection, cursors=[cursor["cursorId"]])
                killed += 1
    return killed


KILLERS: dict[str, Callable[[str], int]] = {
    "postgres": kill_postgres_listeners,
    "redis": kill_redis_listeners,
    "mongodb": kill_change_streams,
}


class Waiting:
    """A thread in a blocking `get`."""

    def __init__(self, place: Place, store: Any) -> None:
        self._queue: PersistentQueue[str] = PersistentQueue("jobs", store=store)
        self._answer: standard.Queue[Any] = standard.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._waits = threading.Event()
        watched = store.listen

        def listen(*arguments: Any, **options: Any) -> Any:
            waiter = watched(*arguments, **options)
            self._waits.set()
            return waiter

        store.listen = listen
        self._thread.start()
        assert self._waits.wait(PATIENCE), "it does not even begin to wait"
        store.listen = watched

    def _run(self) -> None:
        try:
            message = self._queue.get_message(timeout=PATIENCE)
            self._queue.ack(message)
            self._answer.put(message.value)
        except BaseException as error:
            self._answer.put(error)

    def gets(self, value: str) -> None:
        answer = self._answer.get(timeout=PATIENCE * 2)
        if isinstance(answer, BaseException):
            raise answer
        assert answer == value
        self._thread.join(PATIENCE)


@contextmanager
def no_looks(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody looks at the store by himself as long as the listener believes to be live."""
    with patch.context() as patched:
        patched.setattr(listener, "_HEARS", PATIENCE * 10)
        yield


def assert_push(place: Place, store: Any, other: Any, patch: pytest.MonkeyPatch) -> None:
    with no_looks(patch):
        waiting = Waiting(place, store)
        PersistentQueue[str]("jobs", store=other).put("pushed")
        waiting.gets("pushed")


@pytest.mark.parametrize("kind", SERVERS)
def test_a_listener_that_the_server_ends_loses_no_message_and_listens_again(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = shared(SERVERS[kind])
    place = on_server(server)
    with place.open() as store, place.open() as other:
        assert_push(place, store, other, monkeypatch)
        with no_looks(monkeypatch):
            for n in range(3):
                waiting = Waiting(place, store)
                eventually(lambda: KILLERS[kind](server.url))
                PersistentQueue[str]("jobs", store=other).put(f"after the kill {n}")
                waiting.gets(f"after the kill {n}")
        assert_push(place, store, other, monkeypatch)


@pytest.mark.parametrize("kind", SERVERS)
def test_connections_that_break_while_somebody_waits_lose_no_message(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = shared(SERVERS[kind])
    place = on_server(server)
    with Proxy(server.port) as proxy, through(place, proxy.port).open(timeout=5.0) as store, place.open() as other:
        assert_push(place, store, other, monkeypatch)
        for n in range(3):
            waiting = Waiting(place, store)
            proxy.drop()
            PersistentQueue[str]("jobs", store=other).put(f"after the break {n}")
            waiting.gets(f"after the break {n}")
        assert_push(place, store, other, monkeypatch)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_listener_that_hears_nothing_and_does_not_know_it_loses_no_message(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = shared(SERVERS[kind])
    place = on_server(server)
    monkeypatch.setattr(listener.Listener, "quiet", 0.5)
    with Proxy(server.port) as proxy, through(place, proxy.port).open(timeout=5.0) as store, place.open() as other:
        assert_push(place, store, other, monkeypatch)
        waiting = Waiting(place, store)
        eventually(lambda: proxy.mute(WORDS[kind]))  # the listener may just be connecting again
        PersistentQueue[str]("jobs", store=other).put("unheard")
        waiting.gets("unheard")
        with no_looks(monkeypatch):  # now only a listener that found out can help
            waiting = Waiting(place, store)
            PersistentQueue[str]("jobs", store=other).put("heard at last")
            waiting.gets("heard at last")
        assert_push(place, store, other, monkeypatch)
