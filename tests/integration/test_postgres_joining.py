"""`put(..., connection=)` on PostgreSQL: messages that commit or roll back together with the user's own rows."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from queue import Full
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from localqueue import PersistentQueue, PublishSubscribeRouting, QueueError, QueueStoreLockedError
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.errors import QueueStoreClosedError, UnknownMessage
from localqueue.policies import DropOldest, OverflowToQueue, PerKeyFifoOrdering, StoredSubscriptions
from localqueue.stores.port import JoinsTransactions
from localqueue.stores.postgres import PostgresQueueStore
from localqueue.stores.postgres.connection import lock_timeouts
from tests.servers import Postgres

Connect = Callable[..., "psycopg.Connection[Any]"]


@pytest.fixture
def store(postgres: Postgres) -> Iterator[PostgresQueueStore]:
    with PostgresQueueStore(postgres.url, namespace=secrets.token_hex(6)) as store:
        yield store


@pytest.fixture
def queue(store: PostgresQueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store)


@pytest.fixture
def connect(postgres: Postgres) -> Iterator[Connect]:
    opened: list[psycopg.Connection[Any]] = []

    def open_one(**options: Any) -> psycopg.Connection[Any]:
        opened.append(psycopg.connect(postgres.url, **options))
        return opened[-1]

    with psycopg.connect(postgres.url, autocommit=True) as own:
        own.execute("CREATE TABLE IF NOT EXISTS orders (id serial PRIMARY KEY, what text)")
        own.execute("TRUNCATE orders")
    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def connection(connect: Connect) -> psycopg.Connection[Any]:
    return connect()


def orders(store: PostgresQueueStore, postgres: Postgres) -> list[str]:
    with psycopg.connect(postgres.url) as own:
        return [what for (what,) in own.execute("SELECT what FROM orders ORDER BY id")]


def values(queue: PersistentQueue[Any]) -> list[Any]:
    return [message.value for message in queue.messages()]


def idle(connection: psycopg.Connection[Any]) -> bool:
    return connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


# together or not at all


def test_a_row_and_a_message_commit_together(
    store: PostgresQueueStore, queue: PersistentQueue[Any], connection: psycopg.Connection[Any], postgres: Postgres
) -> None:
    assert isinstance(store, JoinsTransactions)
    with connection.transaction():
        connection.execute("INSERT INTO orders (what) VALUES ('tea')")
        message = queue.put({"order": "tea"}, connection=connection)
        assert queue.qsize() == 0 and orders(store, postgres) == []
    assert orders(store, postgres) == ["tea"]
    taken = queue.get_message(block=False)
    assert (taken.id, taken.value, taken.created_at) == (message.id, {"order": "tea"}, message.created_at)
    assert queue.ack(taken)
    assert store.check().ok


def test_a_rollback_leaves_neither_the_row_nor_the_message_nor_the_queue(
    store: PostgresQueueStore, queue: PersistentQueue[Any], connection: psycopg.Connection[Any], postgres: Postgres
) -> None:
    connection.execute("INSERT INTO orders (what) VALUES ('tea')")
    queue.put("tea", connection=connection)
    queue.put("once", dedupe_key="k", connection=connection)
    queue.put_many(["a", "b"], connection=connection)
    connection.rollback()
    assert orders(store, postgres) == [] and queue.stats().total == 0 and store.queues() == []
    queue.put("kept")
    assert values(queue) == ["kept"] and store.check().ok


def test_whoever_waits_is_woken_by_the_commit(queue: PersistentQueue[Any], connection: psycopg.Connection[Any]) -> None:
    queue.put("first", connection=connection)
    connection.commit()
    assert queue.get_nowait() == "first"
    threads = Background()
    got: list[Any] = []
    with queue.store.listen(["jobs"]) as waiter:
        queue.put("second", connection=connection)
        assert not waiter.wait(0)
        threads.start(lambda: got.append(waiter.wait(PATIENCE)))
        connection.commit()
        threads.join()
    assert got == [True] and queue.get_nowait() == "second"


def test_a_plain_put_does_not_hold_others_up(
    queue: PersistentQueue[Any], connect: Connect, store: PostgresQueueStore
) -> None:
    queue.put("here")
    first, second = connect(), connect()
    queue.put(1, connection=first)
    queue.put(2, connection=second)
    queue.put("limited", dedupe_key="k")
    second.commit()
    first.commit()
    assert sorted(map(str, values(queue))) == ["1", "2", "here", "limited"]


def test_several_queues_and_namespaces_take_part_in_one_transaction(
    store: PostgresQueueStore, queue: PersistentQueue[Any], connection: psycopg.Connection[Any], postgres: Postgres
) -> None:
    mails = PersistentQueue[Any]("mails", store=store)
    with PostgresQueueStore(postgres.url, namespace=secrets.token_hex(6)) as other:
        audit = PersistentQueue[Any]("audit", store=other)
        for one in (queue, mails, audit):
            one.put("x", connection=connection)
        connection.commit()
        assert [one.get_nowait() for one in (queue, mails, audit)] == ["x", "x", "x"]


def test_the_journal_numbers_a_joined_put_when_it_commits(
    store: PostgresQueueStore, queue: PersistentQueue[Any], connection: psycopg.Connection[Any]
) -> None:
    store.enable_journal()
    queue.put("before")
    queue.put("first", connection=connection)
    queue.put("second")
    assert store.journal_span() == (1, 2)
    connection.commit()
    assert store.journal_span() == (1, 3)
    told = [(event.seq, event.payload) for event in store.events(after=1)]
    assert told == [(2, '"second"'), (3, '"first"')]
    queue.put("never", connection=connection)
    connection.rollback()
    queue.put("third")
    assert [event.seq for event in store.events()] == [1, 2, 3, 4]


def test_the_span_of_the_journal_stops_before_a_number_that_is_not_committed(
    store: PostgresQueueStore, queue: PersistentQueue[Any], connection: psycopg.Connection[Any]
) -> None:
    store.enable_journal()
    queue.put("before")
    queue.put("open", connection=connection)
    connection.execute("SET CONSTRAINTS ALL IMMEDIATE")  # it has its number now, and whoever comes next waits for it
    assert store.journal_span() == (1, 1)
    connection.rollback()
    queue.put("next")
    assert store.journal_span() == (1, 2)
    assert [event.payload for event in store.events()] == ['"before"', '"next"']


# the options of put


def test_dedupe_sees_the_messages_of_the_same_transaction_and_those_stored(
    queue: PersistentQueue[Any], connection: psycopg.Connection[Any]
) -> None:
    stored = queue.put("a", dedupe_key="1")
    again = queue.put("b", dedupe_key="1", connection=connection)
    first = queue.put("c", dedupe_key="2", connection=connection)
    second = queue.put("d", dedupe_key="2", connection=connection)
    connection.commit()
    assert (again.id, again.value) == (stored.id, "a")
    assert second.id == first.id and values(queue) == ["a", "c"]


def test_a_message_can_come_after_others_of_the_transaction_and_stored_ones(
    queue: PersistentQueue[Any], connection: psycopg.Connection[Any]
) -> None:
    first = queue.put("first")
    second = queue.put("second", after=[first], connection=connection)
    third = queue.put("third", after=[first, second], connection=connection)
    connection.commit()
    assert (second.state, third.state) == ("waiting", "waiting")
    for value in ("first", "second", "third"):
        message = queue.get_message(block=False)
        assert message.value == value
        queue.ack(message)


def test_ordering_keys_runs_and_subscribers_hold(
    store: PostgresQueueStore, connection: psycopg.Connection[Any]
) -> None:
    keyed = PersistentQueue[Any]("orders", store=store, ordering_policy=PerKeyFifoOrdering())
    keyed.put("charge", ordering_key="k", run_id="r", connection=connection)
    assert keyed.put("ship", ordering_key="k", run_id="r", connection=connection).state == "blocked"
    news = PersistentQueue[Any](
        "news", store=store, routing_policy=PublishSubscribeRouting(), subscription_policy=StoredSubscriptions()
    )
    news.subscribe("ann")
    news.put("x", connection=connection)
    connection.commit()
    assert [message.value for message in keyed.get_messages(5)] == ["charge"]
    assert values(news.subscriber_queue("ann")) == ["x"]
    run = store.run("r")
    assert run is not None and run.total == 2 and store.check().ok


# capacity


def test_a_full_queue_raises_at_once_and_keeps_the_rest_of_the_transaction(
    store: PostgresQueueStore, connection: psycopg.Connection[Any], postgres: Postgres
) -> None:
    queue = PersistentQueue[Any]("small", store=store, maxsize=2)
    connection.execute("INSERT INTO orders (what) VALUES ('tea')")
    queue.put_many([1, 2], connection=connection)
    with pytest.raises(Full, match="'small' is full"):
        queue.put(3, connection=connection)
    connection.execute("INSERT INTO orders (what) VALUES ('cake')")
    connection.commit()
    assert orders(store, postgres) == ["tea", "cake"] and values(queue) == [1, 2]
    assert store.check().ok


def test_dropping_and_overflowing_queues_do_as_they_say(
    store: PostgresQueueStore, connection: psycopg.Connection[Any]
) -> None:
    latest = PersistentQueue[Any]("latest", store=store, backpressure=DropOldest(1))
    spare = PersistentQueue[Any]("spare", store=store)
    spilling = PersistentQueue[Any]("spilling", store=store, backpressure=OverflowToQueue(1, queue="spare"))
    for queue in (latest, spilling):
        queue.put_many([1, 2], connection=connection)
    connection.commit()
    assert (values(latest), values(spilling), values(spare)) == ([2], [1], [2])


# a put that fails


@pytest.mark.parametrize("began", [True, False], ids=["in a transaction", "outside of one"])
def test_a_put_that_fails_leaves_the_users_transaction_as_it_was(
    store: PostgresQueueStore, queue: PersistentQueue[Any], connection: psycopg.Connection[Any], began: bool,
    postgres: Postgres,
) -> None:  # fmt: skip
    if began:
        connection.execute("INSERT INTO orders (what) VALUES ('tea')")
    with pytest.raises(UnknownMessage):
        queue.put("x", after=[store.mint()[0][:-1] + "x"], connection=connection)
    assert idle(connection) is not began
    connection.commit()
    assert orders(store, postgres) == (["tea"] if began else []) and queue.stats().total == 0


def test_a_lock_that_another_transaction_holds_is_named_and_the_transaction_goes_on(
    store: PostgresQueueStore, queue: PersistentQueue[Any], connect: Connect
) -> None:
    queue.put("here")
    holder, connection = connect(), connect()
    queue.put("decided", dedupe_key="a", connection=holder)
    connection.execute("INSERT INTO orders (what) VALUES ('tea')")
    with pytest.MonkeyPatch.context() as hasty:
        hasty.setattr(store, "_lock_timeouts", lock_timeouts(0.5))
        with pytest.raises(QueueStoreLockedError, match="locked by another transaction"):
            queue.put("x", dedupe_key="a", connection=connection)
    queue.put("y", dedupe_key="b", connection=connection)
    holder.rollback()
    queue.put("x", dedupe_key="a", connection=connection)
    connection.commit()
    assert values(queue) == ["here", "y", "x"]


def test_settings_of_the_session_are_left_as_they_were(
    queue: PersistentQueue[Any], connection: psycopg.Connection[Any]
) -> None:
    connection.execute("SET lock_timeout = '1234ms'")
    connection.execute("SET search_path = public, pg_temp")
    queue.put("x", dedupe_key="k", connection=connection)
    assert connection.execute("SHOW lock_timeout").fetchone() == ("1234ms",)
    assert connection.execute("SHOW search_path").fetchone() == ("public, pg_temp",)
    connection.commit()


# the connection


def test_a_connection_in_autocommit_mode_has_to_begin_first(queue: PersistentQueue[Any], connect: Connect) -> None:
    connection = connect(autocommit=True)
    with pytest.raises(QueueError, match=r"with connection\.transaction"):
        queue.put("x", connection=connection)
    with connection.transaction():
        queue.put("x", connection=connection)
        assert queue.qsize() == 0
    assert values(queue) == ["x"]


def test_factories_for_rows_and_cursors_do_not_disturb_and_are_kept(
    queue: PersistentQueue[Any], connect: Connect
) -> None:
    connection = connect(row_factory=dict_row, cursor_factory=psycopg.ClientCursor)
    queue.put({"a": "ä"}, dedupe_key="k", headers={"h": "v"}, run_id="r", connection=connection)
    again = queue.put("other", dedupe_key="k", connection=connection)
    assert (again.value, again.headers) == ({"a": "ä"}, {"h": "v"})
    assert connection.execute("SELECT %s AS x", ("a",)).fetchone() == {"x": "a"}
    connection.commit()


def test_savepoints_of_the_user_hold_messages_too(
    queue: PersistentQueue[Any], connection: psycopg.Connection[Any]
) -> None:
    queue.put("kept", connection=connection)
    with connection.transaction():
        queue.put("given up", connection=connection)
        raise_rollback(connection)
    connection.commit()
    assert values(queue) == ["kept"]


def raise_rollback(connection: psycopg.Connection[Any]) -> None:
    raise psycopg.Rollback


def test_a_connection_to_another_database_is_refused(
    store: PostgresQueueStore, queue: PersistentQueue[Any], postgres: Postgres
) -> None:
    with psycopg.connect(postgres.url.rsplit("/", 1)[0] + "/template1") as connection:
        with pytest.raises(ValueError, match="another database"):
            queue.put("x", connection=connection)
        assert idle(connection)


def test_what_is_no_usable_connection_is_refused(
    store: PostgresQueueStore, queue: PersistentQueue[Any], connect: Connect
) -> None:
    with pytest.raises(TypeError, match=r"psycopg\.Connection"):
        queue.put("x", connection=object())
    closed = connect()
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        queue.put("x", connection=closed)
    failed = connect()
    with pytest.raises(psycopg.Error):
        failed.execute("SELECT 1 / 0")
    with pytest.raises(QueueError, match="has failed already"):
        queue.put("x", connection=failed)
    repeatable = connect()
    repeatable.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with pytest.raises(QueueError, match="READ COMMITTED"):
        queue.put("x", connection=repeatable)
    store.close()
    with pytest.raises(QueueStoreClosedError):
        queue.put("x", connection=connect())
