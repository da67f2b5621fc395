"""While a user's transaction that has put something stays open, the consumers of the queue go on.

Whatever was put, and whatever timers are due: claims, acks, renewals and other puts neither wait for the user nor fail.
"""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, Full
from typing import Any

import psycopg
import pytest

from localqueue import PersistentQueue, PublishSubscribeRouting, QueueError
from localqueue.contracts.steps import Background, assert_sound, drain, put, stored, take
from localqueue.policies import DropNewest, DropOldest, OverflowToQueue, PerKeyFifoOrdering, StoredSubscriptions
from localqueue.stores.port import Changes, Lease, LeaseRequest, Settle, StoredMessage
from localqueue.stores.postgres import PostgresQueueStore
from tests.servers import Postgres
from tests.unit.worker_steps import eventually

pytestmark = pytest.mark.slow

TIMEOUT = 15.0  # seconds after which a call fails that waits for a transaction which is open

Connection = psycopg.Connection[Any]


@pytest.fixture
def store(postgres: Postgres) -> Iterator[PostgresQueueStore]:
    with PostgresQueueStore(postgres.url, namespace=secrets.token_hex(6), timeout=TIMEOUT) as store:
        yield store


@pytest.fixture
def queue(store: PostgresQueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store, ordering_policy=PerKeyFifoOrdering())


@pytest.fixture
def connection(postgres: Postgres) -> Iterator[Connection]:
    with psycopg.connect(postgres.url) as connection:
        yield connection


@pytest.fixture
def other(postgres: Postgres) -> Iterator[Connection]:
    with psycopg.connect(postgres.url) as connection:
        yield connection


class Work:
    """A queue at work: a message of each kind is leased, one is ready, and some timers are due."""

    def __init__(self, store: PostgresQueueStore) -> None:
        self.store = store
        put(store, payload="plain")
        put(store, payload="keyed", ordering_key="k")
        put(store, payload="of a run", run_id="r")
        put(store, payload="upstream")
        put(store, payload="followed", dedupe_key="f")
        self.after_followed = put(store, payload="follower", after=(stored_with(store, "followed").id,))
        self.held = {one.payload: one for one in store.lease(LeaseRequest("jobs", 10, 300.0, "w"))}
        assert len(self.held) == 5
        put(store, payload="oldest")
        put(store, payload="lapsed", priority=1)
        take(store, timeout=0.01)
        put(store, payload="late", delay=0.01)
        put(store, payload="expired", ttl=0.01)
        put(store, payload="dedupe holder that has outlived its time", ttl=0.01, dedupe_key="old")
        put(store, payload="ready")
        pass_time(store)

    def goes_on(self) -> None:
        """Everything that a consumer does. What waits for the user fails: the user waits for the end of this."""
        store, held = self.store, self.held
        claimed = {one.payload: one for one in store.lease(LeaseRequest("jobs", 10, 300.0, "w"))}
        assert {"lapsed", "late", "ready"} <= set(claimed)
        assert claimed["lapsed"].attempts == 2
        assert not any("expired" in name or "outlived" in name for name in claimed)
        leases = [Lease("jobs", one.id, one.attempts) for one in held.values()]
        assert None not in store.renew(leases, timeout=600.0)
        assert store.commit(Changes(settle=[settle(held["plain"], "release", delay=0.01)])).settled == [True]
        for name in ("keyed", "of a run", "upstream", "followed"):
            assert store.ack_one("jobs", held[name].id, held[name].attempts), name
        step = Changes(settle=[settle(claimed["late"])], lease=LeaseRequest("jobs", 5, 300.0, "w"))
        found = {one.payload for one in store.commit(step).leased}
        assert "follower" in found
        store.put_one("jobs", "another", None)
        put(store, payload="another keyed", ordering_key="another")
        put(store, payload="another deduped", dedupe_key="another")
        put(store, payload="another delayed", delay=0.01)
        pass_time(store)
        found |= {one.payload for one in store.lease(LeaseRequest("jobs", 10, 300.0))}
        assert {"plain", "another", "another keyed", "another deduped", "another delayed"} <= found
        store.heartbeat("jobs", "w")
        assert store.stats("jobs").total


def pass_time(store: PostgresQueueStore) -> None:
    """Until the timers of a hundredth of a second have passed."""
    due = store.now() + 0.02
    eventually(lambda: store.now() > due)


def stored_with(store: PostgresQueueStore, payload: str) -> StoredMessage:
    (found,) = [one for one in store.scan("jobs") if one.payload == payload]
    return found


def settle(message: StoredMessage, action: Any = "ack", **options: Any) -> Settle:
    return Settle("jobs", message.id, action, message.attempts, **options)


Put = Callable[[PersistentQueue[Any], Work, Connection], Any]


def with_dedupe_key(queue: PersistentQueue[Any], work: Work, connection: Connection) -> Any:
    return queue.put("x", dedupe_key="d", connection=connection)


def with_the_key_of_a_message_that_has_outlived_its_time(
    queue: PersistentQueue[Any], work: Work, connection: Connection
) -> Any:
    return queue.put("x", dedupe_key="old", connection=connection)


def with_many_dedupe_keys(queue: PersistentQueue[Any], work: Work, connection: Connection) -> Any:
    messages = queue.put_many(["x"] * 30, dedupe_keys=[f"d{n}" for n in range(30)], connection=connection)
    return messages[-1]


def after_one_at_work(queue: PersistentQueue[Any], work: Work, connection: Connection) -> Any:
    return queue.put("x", after=[work.held["upstream"].id], connection=connection)


def after_one_that_is_ready(queue: PersistentQueue[Any], work: Work, connection: Connection) -> Any:
    return queue.put("x", after=[stored_with(work.store, "ready").id], connection=connection)


def after_one_that_others_follow(queue: PersistentQueue[Any], work: Work, connection: Connection) -> Any:
    return queue.put("x", after=[work.held["followed"].id], connection=connection)


def with_an_ordering_key_that_is_free(queue: PersistentQueue[Any], work: Work, connection: Connection) -> Any:
    return queue.put("x", ordering_key="free", connection=connection)


def with_an_ordering_key_at_work(queue: PersistentQueue[Any], work: Work, connection: Connection) -> Any:
    return queue.put("x", ordering_key="k", connection=connection)


def into_a_run(queue: PersistentQueue[Any], work: Work, connection: Connection) -> Any:
    return queue.put("x", run_id="r", connection=connection)


def within_a_limit(queue: PersistentQueue[Any], work: Work, connection: Connection) -> Any:
    return PersistentQueue[Any]("jobs", store=work.store, maxsize=50).put("x", connection=connection)


def dropping_the_oldest(queue: PersistentQueue[Any], work: Work, connection: Connection) -> Any:
    limited = PersistentQueue[Any]("jobs", store=work.store, backpressure=DropOldest(1))
    return limited.put("x", connection=connection)


def dropping_itself(queue: PersistentQueue[Any], work: Work, connection: Connection) -> Any:
    PersistentQueue[Any]("jobs", store=work.store, backpressure=DropNewest(1)).put("y", connection=connection)
    return queue.put("x", connection=connection)


def overflowing(queue: PersistentQueue[Any], work: Work, connection: Connection) -> Any:
    limited = PersistentQueue[Any]("jobs", store=work.store, backpressure=OverflowToQueue(1, queue="spare"))
    return limited.put("x", dedupe_key="d", connection=connection)


def everything_together(queue: PersistentQueue[Any], work: Work, connection: Connection) -> Any:
    limited = PersistentQueue[Any]("jobs", store=work.store, maxsize=50, ordering_policy=PerKeyFifoOrdering())
    limited.put("first", ordering_key="k", dedupe_key="d1", run_id="r", connection=connection)
    return limited.put(
        "x", ordering_key="k", dedupe_key="d2", run_id="r", after=[work.held["upstream"].id], connection=connection
    )


PUTS: list[Put] = [
    with_dedupe_key, with_the_key_of_a_message_that_has_outlived_its_time, with_many_dedupe_keys, after_one_at_work,
    after_one_that_is_ready, after_one_that_others_follow, with_an_ordering_key_that_is_free,
    with_an_ordering_key_at_work, into_a_run, within_a_limit, dropping_the_oldest, dropping_itself,
    overflowing, everything_together,
]  # fmt: skip


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "rollback"])
@pytest.mark.parametrize("put_one", PUTS)
def test_consumers_go_on_while_a_transaction_is_open(
    store: PostgresQueueStore, queue: PersistentQueue[Any], connection: Connection, put_one: Put, committed: bool
) -> None:
    if committed:  # the journal has a part in the commit, too
        store.enable_journal()
    work = Work(store)
    message = put_one(queue, work, connection)
    work.goes_on()
    assert store.get(message.queue, message.id) is None
    connection.commit() if committed else connection.rollback()
    store.commit(Changes(settle=[settle(one) for one in store.scan("jobs", state="inflight")], strict=False))
    if committed:
        assert stored(store, message.id, message.queue).payload == '"x"'
        assert '"x"' in drain(store, message.queue), "what it waited for is gone"
    else:
        assert store.get(message.queue, message.id) is None
        assert "spare" not in store.queues()
    drain(store)
    assert store.stats("jobs").total == store.stats("jobs").expired
    assert_sound(store)


# who waits, and what is true when the user has committed


def waits(other: Connection, background: Background, call: Callable[[], Any]) -> list[Any]:
    """Start a call in the background, which waits for a lock of the user; what it returned, once it did."""
    done: list[Any] = []
    background.start(lambda: done.append(call()))
    find = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"
    eventually(lambda: other.execute(find).fetchone()[0] and not other.rollback())  # type: ignore[index, func-returns-value]
    assert not done
    return done


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "rollback"])
def test_a_producer_with_the_same_dedupe_key_waits_and_is_told_of_the_message(
    queue: PersistentQueue[Any], connection: Connection, other: Connection, committed: bool
) -> None:
    queue.put("here")
    first = queue.put("x", dedupe_key="d", connection=connection)
    background = Background()
    done = waits(other, background, lambda: queue.put("y", dedupe_key="d"))
    queue.put("z", dedupe_key="e")
    connection.commit() if committed else connection.rollback()
    background.join()
    assert (done[0].id == first.id) is committed
    assert {message.value for message in queue.get_messages(5)} == {"here", "z", "x" if committed else "y"}


def test_messages_of_an_ordering_key_come_in_the_order_of_the_commits(
    queue: PersistentQueue[Any], connection: Connection, other: Connection
) -> None:
    queue.put("1", ordering_key="k")
    queue.put("2", ordering_key="k", connection=connection)
    queue.put("3", ordering_key="k", connection=connection)
    background = Background()
    waits(other, background, lambda: queue.put("4", ordering_key="k"))
    assert drain(queue.store) == ['"1"']
    connection.commit()
    background.join()
    assert drain(queue.store) == ['"2"', '"3"', '"4"']
    assert_sound(queue.store)


def test_a_message_gives_way_to_one_that_was_requeued_meanwhile(
    store: PostgresQueueStore, queue: PersistentQueue[Any], connection: Connection
) -> None:
    put(store, payload="dead", ordering_key="k")
    message = take(store)
    store.commit(Changes(settle=[settle(message, "dead-letter")]))
    queue.put("x", ordering_key="k", connection=connection)
    queue.put("y", ordering_key="k", connection=connection)
    assert store.requeue("jobs") == 1
    connection.commit()
    assert_sound(store)
    assert drain(store) == ["dead", '"x"', '"y"']
    assert_sound(store)


def test_the_room_of_a_queue_is_never_given_twice(
    store: PostgresQueueStore, connection: Connection, other: Connection
) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, maxsize=2)
    queue.put("first")
    queue.put("second", connection=connection)
    background = Background()
    done = waits(other, background, lambda: queue_is_full(queue))
    connection.commit()
    background.join()
    assert done == [True] and store.stats("jobs").ready == 2


def queue_is_full(queue: PersistentQueue[Any]) -> bool:
    try:
        queue.put("third", block=False)
    except Full:
        return True
    return False


def test_who_cancels_a_run_waits_and_cancels_what_was_put(
    store: PostgresQueueStore, queue: PersistentQueue[Any], connection: Connection, other: Connection
) -> None:
    queue.put("x", run_id="r")
    message = queue.put("y", run_id="r", connection=connection)
    background = Background()
    done = waits(other, background, lambda: store.cancel_run("r"))
    assert store.ack_one("jobs", take(store).id, 1), "nor does that one stop consumers"
    connection.commit()
    background.join()
    assert done == [1] and stored(store, message.id).state == "cancelled"
    run = store.run("r")
    assert run is not None and run.total == 2


def test_no_publish_misses_a_subscriber_that_came_in_between(
    store: PostgresQueueStore, connection: Connection, other: Connection
) -> None:
    news = PersistentQueue[Any](
        "news", store=store, routing_policy=PublishSubscribeRouting(), subscription_policy=StoredSubscriptions()
    )
    news.subscribe("ann")
    news.put("for ann", connection=connection)
    background = Background()
    waits(other, background, lambda: news.subscribe("bob"))
    connection.commit()
    background.join()
    news.put("for both")
    assert len(news.subscriber_queue("ann").get_messages(5)) == 2
    assert len(news.subscriber_queue("bob").get_messages(5)) == 1


def test_an_operator_who_waits_for_a_message_that_is_dropped_stops_no_consumer(
    store: PostgresQueueStore, connection: Connection, other: Connection
) -> None:
    put(store, payload="oldest")
    put(store, payload="late", delay=0.01)
    pass_time(store)
    PersistentQueue[Any]("jobs", store=store, backpressure=DropOldest(1)).put("x", connection=connection)
    background = Background()
    background.start(lambda: store.purge("jobs"))
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    eventually(lambda: other.execute(waiting).fetchone()[0] and not other.rollback())  # type: ignore[index, func-returns-value]
    assert take(store).payload == "late"
    connection.commit()
    background.join()


def test_a_full_queue_whose_oldest_message_has_an_ordering_key_refuses(
    store: PostgresQueueStore, connection: Connection
) -> None:
    put(store, ordering_key="k")
    queue = PersistentQueue[Any]("jobs", store=store, backpressure=DropOldest(1))
    with pytest.raises(QueueError, match="the oldest message has an ordering key"):
        queue.put("x", connection=connection)
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert store.stats("jobs").ready == 1


def test_any_number_of_keys_fits_one_transaction(
    store: PostgresQueueStore, queue: PersistentQueue[Any], connection: Connection, other: Connection
) -> None:
    for first in range(0, 3000, 30):
        queue.put_many(range(30), dedupe_keys=[str(first + n) for n in range(30)], connection=connection)
    held = other.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone()
    assert held is not None and held[0] <= 1025
    connection.commit()
    assert store.stats("jobs").ready == 3000


def test_settling_is_refused(store: PostgresQueueStore, connection: Connection) -> None:
    put(store)
    with pytest.raises(ValueError, match="settle and lease outside of it"):
        store.commit_within(connection, Changes(settle=[settle(take(store))]))


def test_nothing_is_lost_doubled_or_reordered_by_transactions_that_last(
    store: PostgresQueueStore, postgres: Postgres
) -> None:
    """Users and consumers at the same time, with all that is decided when a user commits."""
    queue = PersistentQueue[Any]("jobs", store=store, ordering_policy=PerKeyFifoOrdering())
    background, delivered, kept = Background(), list[tuple[str, int]](), list[tuple[str, int]]()
    done = threading.Event()

    def use(name: str) -> None:
        chance = random.Random(name)
        with psycopg.connect(postgres.url) as connection:
            for n in range(25):
                first = queue.put([name, 2 * n], ordering_key=name, run_id="r", connection=connection)
                after = [first] if chance.random() < 0.5 else []
                queue.put([name, 2 * n + 1], after=after, dedupe_key=f"{name}{n}", connection=connection)
                if chance.random() < 0.3:
                    connection.rollback()
                else:
                    connection.commit()
                    kept.extend([(name, 2 * n), (name, 2 * n + 1)])

    def consume() -> None:
        while not done.is_set() or queue.stats().total:
            with suppress(Empty):
                for message in queue.get_messages(3, timeout=0.05):
                    delivered.append((message.value[0], message.value[1]))
                    assert queue.ack(message)

    consumers = Background()
    for _ in range(2):
        consumers.start(consume)
    for name in ("ann", "bob", "cid"):
        background.start(lambda name=name: use(name))  # type: ignore[misc]
    background.join()
    done.set()
    consumers.join()
    assert sorted(delivered) == sorted(kept)
    for name in ("ann", "bob", "cid"):
        keyed = [n for who, n in delivered if who == name and n % 2 == 0]
        assert keyed == sorted(keyed)
    assert_sound(store)
    run = store.run("r")
    assert run is not None and run.total == run.done == len(kept) // 2
