"""`put(..., connection=)`: messages that commit or roll back together with the user's own rows."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from queue import Full
from typing import Any

import pytest

from localqueue import (
    CallbackDispatcher,
    InProcessNotification,
    LMDBQueueStore,
    MemoryQueueStore,
    PersistentQueue,
    PriorityOrdering,
    PublishSubscribeRouting,
    QueueError,
    QueueStoreLockedError,
    SQLiteQueueStore,
)
from localqueue.contracts.steps import PATIENCE
from localqueue.errors import QueueStoreClosedError, UnknownMessage
from localqueue.policies import (
    BytesCodec,
    DropOldest,
    OverflowToQueue,
    PerKeyFifoOrdering,
    StoredSubscriptions,
    Throttling,
)
from localqueue.stores.port import JoinsTransactions
from tests.processes import context


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteQueueStore]:
    with SQLiteQueueStore(tmp_path / "app.db", timeout=PATIENCE) as store:
        yield store


@pytest.fixture
def queue(store: SQLiteQueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store)


@pytest.fixture
def connect(store: SQLiteQueueStore) -> Iterator[Callable[..., sqlite3.Connection]]:
    opened: list[sqlite3.Connection] = []

    def open_one(path: str | os.PathLike[str] = store.path, **options: Any) -> sqlite3.Connection:
        opened.append(sqlite3.connect(path, **{"timeout": PATIENCE, **options}))
        return opened[-1]

    with closing(sqlite3.connect(store.path)) as own:
        own.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT)")
    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def connection(connect: Callable[..., sqlite3.Connection]) -> sqlite3.Connection:
    return connect()


def orders(store: SQLiteQueueStore) -> list[str]:
    with closing(sqlite3.connect(store.path)) as own:
        return [what for (what,) in own.execute("SELECT what FROM orders ORDER BY id")]


def values(queue: PersistentQueue[Any]) -> list[Any]:
    return [message.value for message in queue.messages()]


# together or not at all


def test_a_row_and_a_message_commit_together(
    store: SQLiteQueueStore, queue: PersistentQueue[Any], connection: sqlite3.Connection
) -> None:
    with connection:
        connection.execute("INSERT INTO orders (what) VALUES ('tea')")
        message = queue.put({"order": "tea"}, connection=connection)
        assert queue.qsize() == 0 and orders(store) == []
    assert orders(store) == ["tea"]
    taken = queue.get_message(block=False)
    assert (taken.id, taken.value, taken.created_at) == (message.id, {"order": "tea"}, message.created_at)
    assert queue.ack(taken)
    assert store.check().ok


def test_a_rollback_leaves_neither_the_row_nor_the_message_nor_the_queue(
    store: SQLiteQueueStore, queue: PersistentQueue[Any], connection: sqlite3.Connection
) -> None:
    connection.execute("INSERT INTO orders (what) VALUES ('tea')")
    queue.put("tea", connection=connection)
    queue.put_many(["a", "b"], connection=connection)
    connection.rollback()
    assert orders(store) == [] and queue.stats().total == 0 and store.queues() == []
    assert store.check().ok


def test_a_queue_that_was_made_in_a_rolled_back_transaction_works_afterwards(
    store: SQLiteQueueStore, queue: PersistentQueue[Any], connection: sqlite3.Connection
) -> None:
    queue.put("lost", connection=connection)
    connection.rollback()
    PersistentQueue("other", store=store).put("takes the row that the queue would have had")
    queue.put("kept")
    assert values(queue) == ["kept"] and queue.get() == "kept"
    assert store.check().ok


def test_put_many_stores_all_in_order(queue: PersistentQueue[Any], connection: sqlite3.Connection) -> None:
    messages = queue.put_many(range(250), connection=connection)
    connection.commit()
    assert [message.id for message in queue.messages()] == [message.id for message in messages]
    assert [message.value for message in queue.get_messages(300)] == list(range(250))


def test_messages_follow_the_order_of_the_puts_with_and_without_a_connection(
    queue: PersistentQueue[Any], connection: sqlite3.Connection
) -> None:
    queue.put(1)
    queue.put(2, connection=connection)
    queue.put(3, connection=connection)
    connection.commit()
    queue.put(4)
    assert [message.value for message in queue.get_messages(10)] == [1, 2, 3, 4]


def test_several_queues_of_one_file_take_part_in_one_transaction(
    store: SQLiteQueueStore, queue: PersistentQueue[Any], connection: sqlite3.Connection
) -> None:
    mails = PersistentQueue("mails", store=store)
    with SQLiteQueueStore(store.path, namespace="other") as other:
        audit = PersistentQueue("audit", store=other)
        for one in (queue, mails, audit):
            one.put("x", connection=connection)
        connection.commit()
        assert [one.get_nowait() for one in (queue, mails, audit)] == ["x", "x", "x"]


# the options of put


def test_dedupe_sees_the_messages_of_the_same_transaction_and_those_stored(
    queue: PersistentQueue[Any], connection: sqlite3.Connection
) -> None:
    stored = queue.put("a", dedupe_key="1")
    again = queue.put("b", dedupe_key="1", connection=connection)
    first = queue.put("c", dedupe_key="2", connection=connection)
    second = queue.put("d", dedupe_key="2", connection=connection)
    connection.commit()
    assert (again.id, again.value) == (stored.id, "a")
    assert second.id == first.id and values(queue) == ["a", "c"]


def test_priority_delay_ttl_headers_and_runs_are_stored(
    store: SQLiteQueueStore, connection: sqlite3.Connection
) -> None:
    queue = PersistentQueue[Any]("alerts", store=store, ordering_policy=PriorityOrdering())
    queue.put("low", connection=connection)
    queue.put("later", delay=60, connection=connection)
    queue.put("high", priority=9, ttl=60, headers={"a": "b"}, run_id="r", connection=connection)
    connection.commit()
    high = queue.get_message(block=False)
    assert (high.value, high.headers, high.run_id, high.expires_at is None) == ("high", {"a": "b"}, "r", False)
    assert queue.get_nowait() == "low"
    assert queue.stats().delayed == 1
    assert store.check().ok


def test_a_message_can_come_after_others_of_the_transaction_and_stored_ones(
    queue: PersistentQueue[Any], connection: sqlite3.Connection
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


def test_ordering_keys_hold(store: SQLiteQueueStore, connection: sqlite3.Connection) -> None:
    queue = PersistentQueue[Any]("orders", store=store, ordering_policy=PerKeyFifoOrdering())
    queue.put("charge", ordering_key="k", connection=connection)
    assert queue.put("ship", ordering_key="k", connection=connection).state == "blocked"
    connection.commit()
    assert [message.value for message in queue.get_messages(5)] == ["charge"]


def test_every_subscriber_gets_a_copy_in_the_same_transaction(
    store: SQLiteQueueStore, connection: sqlite3.Connection
) -> None:
    news = PersistentQueue[Any](
        "news", store=store, routing_policy=PublishSubscribeRouting(), subscription_policy=StoredSubscriptions()
    )
    news.subscribe("ann")
    news.subscribe("bob")
    first = news.put("x", connection=connection)
    news.put_many(["y", "z"], connection=connection)
    assert news.subscriber_queue("ann").qsize() == 0
    connection.commit()
    assert values(news.subscriber_queue("ann")) == values(news.subscriber_queue("bob")) == ["x", "y", "z"]
    assert news.subscriber_queue("ann").messages()[0].id == first.id


def test_a_codec_of_bytes_works(store: SQLiteQueueStore, connection: sqlite3.Connection) -> None:
    queue = PersistentQueue[Any]("raw", store=store, codec=BytesCodec())
    queue.put(b"\x00\xff", dedupe_key="k", connection=connection)
    assert queue.put(b"other", dedupe_key="k", connection=connection).value == b"\x00\xff"
    connection.commit()
    assert queue.get_nowait() == b"\x00\xff"


# capacity


def test_a_full_queue_raises_at_once_and_keeps_the_rest_of_the_transaction(
    store: SQLiteQueueStore, connection: sqlite3.Connection
) -> None:
    queue = PersistentQueue[Any]("small", store=store, maxsize=2)
    connection.execute("INSERT INTO orders (what) VALUES ('tea')")
    queue.put_many([1, 2], connection=connection)
    with pytest.raises(Full, match="'small' is full"):
        queue.put(3, connection=connection)
    connection.execute("INSERT INTO orders (what) VALUES ('cake')")
    connection.commit()
    assert orders(store) == ["tea", "cake"] and values(queue) == [1, 2]
    assert store.check().ok


def test_a_batch_that_only_fits_in_part_leaves_nothing(store: SQLiteQueueStore, connection: sqlite3.Connection) -> None:
    queue = PersistentQueue[Any]("small", store=store, maxsize=3)
    queue.put_many([1, 2])
    with pytest.raises(Full):
        queue.put_many([3, 4], connection=connection)
    connection.commit()
    assert values(queue) == [1, 2] and store.check().ok


def test_dropping_and_overflowing_queues_do_as_they_say(
    store: SQLiteQueueStore, connection: sqlite3.Connection
) -> None:
    latest = PersistentQueue[Any]("latest", store=store, backpressure=DropOldest(1))
    spare = PersistentQueue[Any]("spare", store=store)
    spilling = PersistentQueue[Any]("spilling", store=store, backpressure=OverflowToQueue(1, queue="spare"))
    for queue in (latest, spilling):
        queue.put_many([1, 2], connection=connection)
    connection.commit()
    assert (values(latest), values(spilling), values(spare)) == ([2], [1], [2])


def test_a_throttled_queue_never_pauses_inside_the_transaction(
    store: SQLiteQueueStore, connection: sqlite3.Connection
) -> None:
    queue = PersistentQueue[Any]("slow", store=store, backpressure=Throttling(1, 3600.0, 3600.0))
    queue.put(1, connection=connection)
    connection.commit()
    with pytest.raises(Full):
        queue.put(2, connection=connection)


# a put that fails


@pytest.mark.parametrize("began", [True, False], ids=["in a transaction", "outside of one"])
def test_a_put_that_fails_leaves_the_users_transaction_as_it_was(
    store: SQLiteQueueStore, queue: PersistentQueue[Any], connection: sqlite3.Connection, began: bool
) -> None:
    if began:
        connection.execute("INSERT INTO orders (what) VALUES ('tea')")
    with pytest.raises(UnknownMessage):
        queue.put("x", after=[store.mint()[0][:-1] + "x"], connection=connection)
    assert connection.in_transaction is began
    connection.commit()
    assert orders(store) == (["tea"] if began else []) and queue.stats().total == 0


def test_an_option_that_is_refused_does_not_touch_the_connection(
    queue: PersistentQueue[Any], connection: sqlite3.Connection
) -> None:
    with pytest.raises(ValueError, match="dedupe_key cannot be empty"):
        queue.put("x", dedupe_key="", connection=connection)
    assert not connection.in_transaction


def test_a_lock_that_another_process_holds_is_named_and_nothing_is_left_open(
    queue: PersistentQueue[Any], connect: Callable[..., sqlite3.Connection]
) -> None:
    queue.put("here")
    holder, connection = connect(isolation_level=None), connect(timeout=0.2)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(QueueStoreLockedError, match="BEGIN IMMEDIATE"):
        queue.put("x", connection=connection)
    assert not connection.in_transaction
    holder.execute("ROLLBACK")
    queue.put("y", connection=connection)
    connection.commit()
    assert values(queue) == ["here", "y"]


def test_a_transaction_that_read_before_another_wrote_is_told_to_begin_again(
    queue: PersistentQueue[Any], connection: sqlite3.Connection
) -> None:
    connection.execute("BEGIN")
    connection.execute("SELECT * FROM orders").fetchall()
    queue.put("meanwhile")
    with pytest.raises(QueueStoreLockedError, match="wrote since this one began to read"):
        queue.put("x", connection=connection)
    connection.rollback()
    queue.put("x", connection=connection)
    connection.commit()
    assert values(queue) == ["meanwhile", "x"]


# the connection


@pytest.mark.parametrize("level", ["", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
def test_a_transaction_is_begun_as_sqlite3_would(
    queue: PersistentQueue[Any], connect: Callable[..., sqlite3.Connection], level: str
) -> None:
    connection = connect(isolation_level=level)
    queue.put("x", connection=connection)
    assert connection.in_transaction and queue.qsize() == 0
    connection.commit()
    assert queue.qsize() == 1


def test_a_connection_in_autocommit_mode_has_to_begin_first(
    queue: PersistentQueue[Any], connect: Callable[..., sqlite3.Connection]
) -> None:
    connection = connect(isolation_level=None)
    with pytest.raises(QueueError, match="'BEGIN IMMEDIATE' before"):
        queue.put("x", connection=connection)
    connection.execute("BEGIN")
    queue.put("x", connection=connection)
    connection.execute("COMMIT")
    assert values(queue) == ["x"]


if sys.version_info >= (3, 12):

    def test_the_autocommit_attribute_decides_where_it_is_set(
        queue: PersistentQueue[Any], connect: Callable[..., sqlite3.Connection]
    ) -> None:
        with pytest.raises(QueueError, match="'BEGIN IMMEDIATE' before"):
            queue.put("x", connection=connect(autocommit=True))
        connection = connect(autocommit=False)
        queue.put("x", connection=connection)
        connection.commit()
        assert values(queue) == ["x"]


def test_factories_for_rows_and_text_do_not_disturb_and_are_kept(
    queue: PersistentQueue[Any], connection: sqlite3.Connection
) -> None:
    def as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
        return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}

    connection.row_factory, connection.text_factory = as_dict, bytes
    queue.put({"a": "ä"}, dedupe_key="k", headers={"h": "v"}, run_id="r", connection=connection)
    again = queue.put("other", dedupe_key="k", connection=connection)
    assert (again.value, again.headers) == ({"a": "ä"}, {"h": "v"})
    with pytest.raises(UnknownMessage):
        queue.put("x", after=["0" * 32], connection=connection)
    assert (connection.row_factory, connection.text_factory) == (as_dict, bytes)
    assert connection.execute("SELECT 'a' AS x").fetchone() == {"x": b"a"}
    connection.commit()


def test_a_cursor_of_the_user_goes_on_reading(queue: PersistentQueue[Any], connection: sqlite3.Connection) -> None:
    connection.executemany("INSERT INTO orders (what) VALUES (?)", [(str(n),) for n in range(300)])
    small = PersistentQueue[Any]("small", store=queue.store, maxsize=200)
    refused = 0
    for (what,) in connection.execute("SELECT what FROM orders ORDER BY id"):
        try:
            small.put(what, connection=connection)
        except Full:
            refused += 1
    connection.commit()
    assert (small.qsize(), refused) == (200, 100)


def test_savepoints_of_the_user_hold_messages_too(queue: PersistentQueue[Any], connection: sqlite3.Connection) -> None:
    queue.put("kept", connection=connection)
    connection.execute("SAVEPOINT mine")
    queue.put("given up", connection=connection)
    connection.execute("ROLLBACK TO mine")
    connection.commit()
    assert values(queue) == ["kept"]


def test_the_file_may_be_reached_by_another_name_and_from_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with SQLiteQueueStore("app.db") as store:
        queue = PersistentQueue[Any]("jobs", store=store)
        (tmp_path / "alias.db").symlink_to(tmp_path / "app.db")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        with closing(sqlite3.connect("../alias.db")) as connection:
            queue.put("x", connection=connection)
            connection.commit()
        assert values(queue) == ["x"]


# what is refused


def test_a_connection_to_another_database_is_refused(
    queue: PersistentQueue[Any], connect: Callable[..., sqlite3.Connection], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"is to '.*other\.db' and the queue is in '.*app\.db'"):
        queue.put("x", connection=connect(tmp_path / "other.db"))
    in_memory = connect(":memory:")
    with pytest.raises(ValueError, match="a database in memory"):
        queue.put("x", connection=in_memory)
    in_memory.execute("ATTACH ? AS app", (str(tmp_path / "app.db"),))
    with pytest.raises(ValueError, match="main database"):
        queue.put("x", connection=in_memory)


def test_a_temporary_table_that_hides_one_of_the_queue_is_refused(
    queue: PersistentQueue[Any], connection: sqlite3.Connection
) -> None:
    connection.execute("CREATE TEMP TABLE Lq_Messages (a)")
    with pytest.raises(ValueError, match="temporary table 'Lq_Messages'"):
        queue.put("x", connection=connection)


def test_what_is_not_an_open_connection_is_refused(
    queue: PersistentQueue[Any], connect: Callable[..., sqlite3.Connection]
) -> None:
    connection = connect()
    wrong: Any = connection.cursor()
    with pytest.raises(TypeError, match=r"takes a sqlite3\.Connection"):
        queue.put("x", connection=wrong)
    connection.close()
    with pytest.raises(ValueError, match="closed database"):
        queue.put("x", connection=connection)


def test_a_store_in_memory_is_refused(connection: sqlite3.Connection) -> None:
    with MemoryQueueStore() as store, pytest.raises(ValueError, match=r"MemoryQueueStore.*use a SQLiteQueueStore"):
        PersistentQueue[Any]("jobs", store=store).put("x", connection=connection)


def test_a_store_that_can_not_join_is_named_with_the_way_out(tmp_path: Path, connection: sqlite3.Connection) -> None:
    with LMDBQueueStore(tmp_path / "lmdb") as store:
        assert not isinstance(store, JoinsTransactions)
        queue = PersistentQueue[Any]("jobs", store=store)
        for put in (queue.put, lambda item, connection: queue.put_many([item], connection=connection)):
            with pytest.raises(ValueError, match="SQLiteQueueStore on the file of your own tables, not in a LMDBQueue"):
                put("x", connection=connection)


def test_a_queue_that_dispatches_is_refused(store: SQLiteQueueStore, connection: sqlite3.Connection) -> None:
    seen: list[Any] = []
    queue = PersistentQueue[Any]("jobs", store=store, dispatch_policy=CallbackDispatcher((seen.append,)))
    with pytest.raises(ValueError, match="not before you commit"):
        queue.put("x", connection=connection)
    assert seen == [] and not connection.in_transaction


def test_a_timeout_has_no_place_beside_a_connection(
    queue: PersistentQueue[Any], connection: sqlite3.Connection
) -> None:
    with pytest.raises(ValueError, match="either timeout= or connection="):
        queue.put("x", timeout=1, connection=connection)


def test_a_closed_store_says_so(tmp_path: Path, connection: sqlite3.Connection) -> None:
    store = SQLiteQueueStore(connection.execute("PRAGMA database_list").fetchone()[2])
    queue = PersistentQueue[Any]("jobs", store=store)
    store.close()
    with pytest.raises(QueueStoreClosedError):
        queue.put("x", connection=connection)


# who sees it


def test_no_notification_is_sent_for_what_may_still_be_rolled_back(
    store: SQLiteQueueStore, connection: sqlite3.Connection
) -> None:
    notification = InProcessNotification()
    queue = PersistentQueue[Any]("jobs", store=store, notification_policy=notification)
    queue.put("x", connection=connection)
    connection.commit()
    assert not notification.wait(timeout=0)
    assert queue.get_nowait() == "x"


def test_no_hook_is_told_of_what_may_still_be_rolled_back(
    store: SQLiteQueueStore, connection: sqlite3.Connection
) -> None:
    told: list[Any] = []
    queue = PersistentQueue[Any]("jobs", store=store, hooks=[told.append])
    queue.put("x", connection=connection)
    connection.commit()
    assert told == []


def test_the_journal_has_what_was_committed_and_nothing_else(
    store: SQLiteQueueStore, queue: PersistentQueue[Any], connection: sqlite3.Connection
) -> None:
    store.enable_journal()
    queue.put("given up", connection=connection)
    connection.rollback()
    message = queue.put("kept", connection=connection)
    again = queue.put("kept", connection=connection)
    connection.commit()
    assert [event.message_id for event in store.events()] == [message.id, again.id]


def test_a_blocked_consumer_of_this_process_is_woken_by_the_commit(
    store: SQLiteQueueStore, queue: PersistentQueue[Any], connection: sqlite3.Connection
) -> None:
    """Also for a queue that the transaction itself makes, and while the store has found it empty before."""
    assert queue.empty()
    listening, got = threading.Event(), []
    listen = store.listen

    def listen_and_tell(queues: Any, **options: Any) -> Any:
        waiter = listen(queues, **options)
        listening.set()
        return waiter

    store.listen = listen_and_tell  # type: ignore[method-assign]
    consumer = threading.Thread(target=lambda: got.append(queue.get(timeout=PATIENCE)))
    consumer.start()
    assert listening.wait(PATIENCE)
    queue.put("x", connection=connection)
    connection.commit()
    consumer.join(PATIENCE)
    assert got == ["x"]


def consume_one(path: str, listening: Any, got: Any) -> None:
    with SQLiteQueueStore(path) as store:
        listen = store.listen

        def listen_and_tell(queues: Any, **options: Any) -> Any:
            waiter = listen(queues, **options)
            listening.set()
            return waiter

        store.listen = listen_and_tell  # type: ignore[method-assign]
        got.put(PersistentQueue[Any]("jobs", store=store).get(timeout=PATIENCE))


@pytest.mark.multiprocess
def test_a_blocked_consumer_of_another_process_is_woken_by_the_commit(
    store: SQLiteQueueStore, queue: PersistentQueue[Any], connection: sqlite3.Connection
) -> None:
    listening, got = context.Event(), context.Queue()
    consumer = context.Process(target=consume_one, args=(store.path, listening, got), daemon=True)
    consumer.start()
    assert listening.wait(PATIENCE)
    with connection:
        queue.put("x", connection=connection)
    assert got.get(timeout=PATIENCE) == "x"
    consumer.join(PATIENCE)
    assert consumer.exitcode == 0


def test_threads_with_a_connection_each_and_the_store_itself_put_side_by_side(store: SQLiteQueueStore) -> None:
    """Nothing waits for a lock that its own thread holds, and every message is there once."""
    with SQLiteQueueStore(store.path, timeout=PATIENCE) as patient:
        queue = PersistentQueue[Any]("jobs", store=patient)
        failures: list[BaseException] = []

        def put_within(name: int) -> None:
            try:
                with closing(sqlite3.connect(patient.path, timeout=PATIENCE)) as own:
                    for n in range(25):
                        with own:
                            own.execute("BEGIN IMMEDIATE")
                            queue.put([name, n], connection=own)
                        queue.put([name, n, "alone"])
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=put_within, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE * 2)
        assert failures == []
        assert len({str(value) for value in values(queue)}) == queue.qsize() == 200
        assert patient.check().ok
