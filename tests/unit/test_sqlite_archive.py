"""A SQLite file made of what another store held is that store, to everybody who opens it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from localqueue.contracts import FakeClock
from localqueue.contracts.steps import ack, assert_sound, drain, lease, new, override, put, release, take
from localqueue.errors import QueueStoreCorruptError, UnknownMessage
from localqueue.stores.archive import (
    Archive,
    ArchivedJournal,
    ArchivedMessage,
    ArchivedQueue,
    ArchivedRun,
)
from localqueue.stores.port import Changes, RecordWrite
from localqueue.stores.sqlite import MemoryQueueStore, SQLiteQueueStore
from localqueue.stores.sqlite.archive import write_archive
from localqueue.stores.stats import KnownWorker

KINDS = ("idempotency", "result")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[SQLiteQueueStore]:
    with MemoryQueueStore(namespace="tenant", clock=clock) as store:
        yield store


def fill(store: SQLiteQueueStore, clock: FakeClock) -> None:
    """Something of everything that a namespace can hold."""
    store.enable_journal(keep_events=1000)
    first = put(store, payload="first", headers='{"a":1}', run_id="r")
    put(store, payload=b"\x00second", codec="raw", after=(first,), run_id="r")
    put(store, payload="acked", priority=9)
    ack(store, take(store))
    put(store, payload="retried", dedupe_key="d", priority=8)
    release(store, take(store, leased_by="w"), error={"type": "E"})
    clock.advance(1)
    release(store, take(store, leased_by="w"), forgive=True)
    for text in "ab":
        put(store, payload=text, ordering_key="k", ttl=500)
    put(store, payload="later", delay=60)
    put(store, payload="soon over", ttl=1)
    dead = put(store, payload="dead")
    clock.advance(1)
    override(store, dead, "dead-letter", error={"type": "Late", "message": "it's over"})
    override(store, put(store, payload="cancelled", run_id="gone"), "cancel")
    store.cancel_run("gone")
    clock.advance(5)
    take(store, leased_by="w", timeout=30, max_attempts=3)
    removed = put(store, "other")
    store.purge("other")
    put(store, "other", ordering_key=removed)
    store.heartbeat("jobs", "w", leases=3)
    store.pause("other")
    store.pause("jobs", worker="lazy")
    for subscriber in "bca":
        store.subscribe("topic", subscriber)
    store.unsubscribe("topic", "c")
    store.commit(Changes(records=[RecordWrite(kind, key, b"\x01") for kind in KINDS for key in "xy"]))


def read(store: SQLiteQueueStore) -> Archive:
    """The archive of a store; what the port does not show is read from its tables."""
    query = store._writer.connection.execute
    id_of = store.ids.id_of
    ended = {id_of(key): at for key, at in query("SELECT key, ended_at FROM lq_messages")}
    most = {id_of(key): most for key, most in query("SELECT key, most FROM lq_line WHERE part = 1")}

    def workers(queue: str) -> tuple[KnownWorker, ...]:
        rows = query(
            "SELECT worker, leases, last_seen, paused_at FROM lq_workers JOIN lq_queues ON id = queue WHERE name = ?",
            (queue,),
        ).fetchall()
        return tuple(KnownWorker(*row) for row in rows)

    queues = store.queues()
    events = store.events()
    return Archive(
        namespace=store.namespace,
        secret=store.ids._secret,
        queues=[
            ArchivedQueue(
                name,
                store.now() if store.paused(name) else None,
                store.stats(name).dropped,
                store.subscriptions(name),
                workers(name),
            )
            for name in queues
        ],
        runs=[ArchivedRun(*row) for row in query("SELECT name, total, done, cancelled_at FROM lq_runs")],
        messages=sorted(
            (
                ArchivedMessage(message, most.get(message.id), ended[message.id])
                for name in queues
                for message in store.scan(name)
            ),
            key=lambda archived: archived.message.id,
        ),
        edges=[
            (upstream, message.id)
            for name in queues
            for message in store.scan(name)
            for upstream in store.upstream(name, message.id)
        ],
        removed=[(id_of(key), "purged") for (key,) in query("SELECT key FROM lq_removed")],
        records=[record for kind in KINDS for record in store.records(kind)],
        journal=ArchivedJournal(store.journal_enabled(), events[-1].seq, None, 1000) if events else None,
        events=events,
    )


def test_an_archive_is_read_back_as_it_was(store: SQLiteQueueStore, clock: FakeClock, tmp_path: Path) -> None:
    fill(store, clock)
    target = tmp_path / "copies" / "copy.sqlite3"
    write_archive(str(target), read(store))
    assert [entry.name for entry in target.parent.iterdir()] == ["copy.sqlite3"]
    with SQLiteQueueStore(target, namespace="tenant", clock=clock) as copy:
        assert copy.queues() == store.queues()
        for queue in store.queues():
            assert copy.scan(queue) == store.scan(queue)
            assert copy.stats(queue) == store.stats(queue)
            assert copy.subscriptions(queue) == store.subscriptions(queue)
            for state in ("dead", "expired", "cancelled"):
                assert copy.scan(queue, state=state) == store.scan(queue, state=state)
            for message in store.scan(queue):
                assert copy.upstream(queue, message.id) == store.upstream(queue, message.id)
        assert copy.paused("other")
        assert copy.paused("jobs", worker="lazy")
        for run_id in ("r", "gone", "unknown"):
            assert copy.run(run_id) == store.run(run_id)
        for kind in KINDS:
            assert copy.records(kind) == store.records(kind)
        assert copy.journal_enabled()
        assert copy.events() == store.events()
        assert_sound(copy, copy.queues())


def test_the_copy_goes_on_like_the_original(store: SQLiteQueueStore, clock: FakeClock, tmp_path: Path) -> None:
    fill(store, clock)
    removed = next(event.message_id for event in store.events() if event.type == "purged")
    held = store.scan("jobs", state="inflight")[0]
    write_archive(str(tmp_path / "copy"), read(store))
    with SQLiteQueueStore(tmp_path / "copy", namespace="tenant", clock=clock) as copy:
        for one in (store, copy):
            with pytest.raises(UnknownMessage):
                one.commit(Changes(enqueue=[new(one, after=(removed,))]))
            assert ack(one, held), "the lease and its token are still good"
            one.requeue("jobs")
            one.resume("other")
        assert drain(copy) == drain(store)
        assert drain(copy, "other") == drain(store, "other")
        clock.advance(100)
        assert drain(copy) == drain(store) == ["later"]
        seen = [(event.seq, event.type, event.message_id) for event in copy.events()]
        assert seen == [(event.seq, event.type, event.message_id) for event in store.events()]
        assert_sound(copy, copy.queues())


def test_a_lease_keeps_its_attempt_limit(store: SQLiteQueueStore, clock: FakeClock, tmp_path: Path) -> None:
    put(store)
    take(store, timeout=5, max_attempts=1)
    write_archive(str(tmp_path / "copy"), read(store))
    clock.advance(10)
    with SQLiteQueueStore(tmp_path / "copy", namespace="tenant", clock=clock) as copy:
        assert lease(copy) == []
        (dead,) = copy.scan("jobs", state="dead")
        assert dead.last_error is not None
        assert [event["type"] for event in dead.history] == ["leased", "lease_expired"]


def test_an_existing_target_is_refused_before_anything_is_read(store: SQLiteQueueStore, tmp_path: Path) -> None:
    def never() -> Iterator[ArchivedQueue]:
        raise AssertionError("the archive was read")
        yield

    archive = read(store)
    archive.queues = never()
    (tmp_path / "copy").write_text("precious")
    with pytest.raises(FileExistsError):
        write_archive(str(tmp_path / "copy"), archive)
    assert (tmp_path / "copy").read_text() == "precious"


def test_an_archive_that_breaks_off_leaves_nothing(store: SQLiteQueueStore, clock: FakeClock, tmp_path: Path) -> None:
    fill(store, clock)
    archive = read(store)
    whole = list(archive.messages)

    def half() -> Iterator[ArchivedMessage]:
        yield from whole[:3]
        raise ConnectionError("the server went away")

    archive.messages = half()
    with pytest.raises(ConnectionError):
        write_archive(str(tmp_path / "copy"), archive)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_that_contradicts_itself_is_not_kept(
    store: SQLiteQueueStore, clock: FakeClock, tmp_path: Path
) -> None:
    fill(store, clock)
    archive = read(store)
    archive.edges = []
    with pytest.raises(QueueStoreCorruptError, match="dependencies"):
        write_archive(str(tmp_path / "copy"), archive)
    assert list(tmp_path.iterdir()) == []


def test_a_copy_is_one_plain_file(store: SQLiteQueueStore, clock: FakeClock, tmp_path: Path) -> None:
    fill(store, clock)
    write_archive(str(tmp_path / "copy"), read(store))
    connection = sqlite3.connect(tmp_path / "copy")
    try:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        connection.close()
