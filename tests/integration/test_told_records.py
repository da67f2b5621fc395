"""Who waits for a record is told of it, whichever way it was written.

To tell a word from a look at the store, the looks are put off for longer than a test waits.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from localqueue.contracts.record_wake import tell
from localqueue.contracts.steps import MOMENT, PATIENCE, Background, put, take
from localqueue.stores import listener, wake
from localqueue.stores.port import Changes, LeaseRequest, RecordWrite, Settle, Waiter
from tests.stores import OPENERS, SERVERS, SHARED, new_place
from tests.unit.worker_steps import eventually

TOLD = RecordWrite("k", "a", b"v", tell=True)


def _acked(store: Any, **options: Any) -> None:
    message = take(store)
    settle = [Settle("jobs", message.id, "ack", message.attempts)]
    done = store.commit(Changes(settle=settle, records=[TOLD], **options))
    assert (done.settled, len(done.versions)) == ([True], 1)


#: Ways to write the record, each after what has to be there for it.
WAYS: dict[str, tuple[Callable[[Any], object], Callable[[Any], object]]] = {
    "a commit": (lambda store: None, lambda store: tell(store, "a")),
    "a deletion": (lambda store: tell(store, "a"), lambda store: tell(store, "a", None)),
    "many records": (
        lambda store: None,
        lambda store: store.commit(
            Changes(records=[TOLD, *(RecordWrite("k", str(n), b"", tell=True) for n in range(200))])
        ),
    ),
    "a batch": (lambda store: None, lambda store: store.put_batch("jobs", ["x", "y"], None, records=[TOLD])),
    "a step": (
        lambda store: [put(store) for _ in range(2)],
        lambda store: _acked(store, lease=LeaseRequest("jobs")),
    ),
    "the last step": (put, lambda store: _acked(store, lease=LeaseRequest("jobs"))),
    "an ack": (put, _acked),
    "an ack that sets another message free": (
        lambda store: [put(store, ordering_key="k") for _ in range(2)],
        lambda store: _acked(store, lease=LeaseRequest("jobs")),
    ),
}


@pytest.fixture(autouse=True)
def _no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks at the store by himself."""
    monkeypatch.setattr(wake, "_CATCH_UP", PATIENCE * 10)
    monkeypatch.setattr(listener, "_HEARS", PATIENCE * 10)


def kinds(names: Iterable[str]) -> list[Any]:
    return [pytest.param(kind, marks=[pytest.mark.slow] if kind in SERVERS else []) for kind in names]


def assert_wakes(waiter: Waiter, write: Callable[[], object]) -> None:
    told = threading.Event()
    threads = Background()
    threads.start(lambda: told.set() if waiter.wait(PATIENCE * 10) else None)
    try:
        write()
        assert told.wait(PATIENCE)
    finally:
        waiter.interrupt()
        threads.join()


def assert_told(waits: Any, writes: Any, way: str) -> None:
    prepare, write = WAYS[way]
    prepare(writes)
    with waits.listen_records("k", ["a"]) as waiter:
        assert not waiter.wait(0)
        assert_wakes(waiter, lambda: write(writes))


@pytest.mark.parametrize("kind", kinds(OPENERS))
@pytest.mark.parametrize("way", WAYS)
def test_who_waits_at_the_same_store_is_told(tmp_path: Path, kind: str, way: str) -> None:
    with new_place(kind, tmp_path).open() as store:
        assert_told(store, store, way)


def _sqlite(location: str) -> Any:
    return sqlite3.connect(location)


def _psycopg(location: str) -> Any:
    import psycopg

    return psycopg.connect(location)


@pytest.mark.parametrize("kind", kinds(["sqlite", "postgres"]))
def test_a_record_of_a_users_transaction_is_told_when_that_commits(tmp_path: Path, kind: str) -> None:
    place = new_place(kind, tmp_path)
    with place.open() as store, place.open() as other:
        connection = (_sqlite if kind == "sqlite" else _psycopg)(place.location)
        try:
            with other.listen_records("k", ["a"]) as waiter:
                store.commit_within(connection, Changes(records=[TOLD]))
                assert not waiter.wait(MOMENT)
                assert_wakes(waiter, connection.commit)
        finally:
            connection.close()


@pytest.mark.parametrize("kind", kinds(SHARED))
@pytest.mark.parametrize("way", WAYS)
def test_who_waits_at_another_store_is_told(tmp_path: Path, kind: str, way: str) -> None:
    place = new_place(kind, tmp_path)
    with place.open() as store, place.open() as other:
        assert_told(other, store, way)


@pytest.mark.parametrize("kind", kinds(SERVERS))
def test_who_waits_for_messages_hears_of_no_records(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    pass_on = listener.Listener._tell

    def note(self: listener.Listener, channel: str, about: list[str] | None) -> None:
        heard.append(about)
        pass_on(self, channel, about)

    place = new_place(kind, tmp_path)
    with place.open() as store, place.open() as other, other.listen(["jobs"]) as waiter:
        assert not waiter.wait(0)
        monkeypatch.setattr(listener.Listener, "_tell", note)
        tell(store, "a")
        assert_wakes(waiter, lambda: put(store))
        eventually(lambda: heard)  # who began to wait after the put has found it without a word
        assert len({tuple(about) for about in heard}) == 1, heard
