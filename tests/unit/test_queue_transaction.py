"""A transaction settles and puts together, or changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Full
from typing import Any

import pytest

from localqueue import (
    CallbackDispatcher,
    CallbackNotification,
    LeaseLost,
    MemoryQueueStore,
    PayloadError,
    PersistentQueue,
    PublishSubscribeRouting,
    QueueError,
    StaticFanoutSubscriptions,
)
from localqueue.contracts.harness import FakeClock
from localqueue.errors import NotWaiting, UnknownMessage


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore(clock=clock) as opened:
        yield opened


@pytest.fixture
def queue(store: MemoryQueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store, lease_timeout=10)


def leased(queue: PersistentQueue[Any], value: Any = "x") -> Any:
    queue.put(value)
    return queue.get_message(block=False)


def test_an_ack_and_a_put_happen_together(queue: PersistentQueue[Any]) -> None:
    message = leased(queue)
    with queue.transaction() as transaction:
        transaction.ack(message)
        follow_up = transaction.put("next", headers={"h": "1"})
        assert queue.inspect(message.id) is not None
        assert queue.stats().total == 1
    assert queue.inspect(message.id) is None
    assert queue.inspect(follow_up.id) == follow_up.message
    assert (follow_up.message.value, follow_up.message.headers) == ("next", {"h": "1"})


def test_an_exception_in_the_block_changes_nothing(queue: PersistentQueue[Any]) -> None:
    message = leased(queue)
    with pytest.raises(KeyError), queue.transaction() as transaction:
        transaction.ack(message)
        transaction.put("next")
        raise KeyError
    assert queue.inspect(message.id) == message
    assert queue.stats().total == 1


def test_a_lost_lease_takes_everything_back(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    good, stale = leased(queue, "good"), leased(queue, "stale")
    clock.advance(11)
    current = queue.get_messages(2)
    assert {m.id for m in current} == {good.id, stale.id}
    good = next(m for m in current if m.id == good.id)
    with pytest.raises(LeaseLost) as caught, queue.transaction() as transaction:
        transaction.ack(good)
        follow_up = transaction.put("next")
        transaction.ack(stale)
    assert (caught.value.queue, caught.value.message_id, caught.value.token) == ("jobs", stale.id, 1)
    assert queue.inspect(good.id) == good
    assert queue.stats().total == 2
    with pytest.raises(QueueError, match="not committed"):
        assert follow_up.id


def test_a_message_that_is_gone_takes_everything_back(queue: PersistentQueue[Any]) -> None:
    message = leased(queue)
    queue.ack(message)
    with pytest.raises(LeaseLost), queue.transaction() as transaction:
        transaction.put("next")
        transaction.release(message)
    assert queue.stats().total == 0


def test_release_and_dead_letter_join_in(queue: PersistentQueue[Any]) -> None:
    first, second = leased(queue, "first"), leased(queue, "second")
    with queue.transaction() as transaction:
        transaction.release(first, delay=5, error="later")
        transaction.dead_letter(second, error=ValueError("never"))
    assert (queue.stats().delayed, queue.stats().dead) == (1, 1)
    released, dead = queue.inspect(first.id), queue.dead_letters()[0]
    assert released is not None
    assert released.last_error is not None
    assert released.last_error["message"] == "later"
    assert dead.last_error is not None
    assert dead.last_error["type"] == "ValueError"


def test_a_full_queue_takes_everything_back(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, maxsize=1)
    message = leased(queue)
    queue.put("fills it")
    with pytest.raises(Full), queue.transaction() as transaction:
        transaction.ack(message)
        transaction.put("one too many")
    assert queue.inspect(message.id) == message


def test_messages_of_a_transaction_can_come_after_each_other(queue: PersistentQueue[Any]) -> None:
    before = queue.put("before")
    with queue.transaction() as transaction:
        left = transaction.put("left", after=[before])
        right = transaction.put("right", after=[before.id])
        join = transaction.put("join", after=[left, right], run_id="r")
    assert (left.message.state, join.message.state) == ("waiting", "waiting")
    assert queue.waits_for(join.id) == sorted([left.id, right.id])
    seen = []
    while queue.qsize():
        message = queue.get_message(block=False)
        seen.append(message.value)
        queue.ack(message)
    assert seen == ["before", "left", "right", "join"]


def test_a_handler_adds_an_edge_to_a_waiting_join_while_it_acks(queue: PersistentQueue[Any]) -> None:
    first = queue.put("first")
    join = queue.put("join", after=[first])
    message = queue.get_message(block=False)
    with queue.transaction() as transaction:
        extra = transaction.put("extra")
        transaction.add_dependency(join, extra)
        transaction.ack(message)
    assert queue.waits_for(join) == [extra.id]
    extra_leased = queue.get_message(block=False)
    assert extra_leased.value == "extra"
    assert queue.empty()
    queue.ack(extra_leased)
    assert queue.get_nowait() == "join"


def test_an_edge_to_a_message_that_stopped_waiting_is_refused(queue: PersistentQueue[Any]) -> None:
    ready = queue.put("ready")
    with pytest.raises(NotWaiting), queue.transaction() as transaction:
        extra = transaction.put("extra")
        transaction.add_dependency(ready, extra)
    assert queue.stats().total == 1


def test_an_unknown_upstream_is_refused(queue: PersistentQueue[Any]) -> None:
    with pytest.raises(UnknownMessage), queue.transaction() as transaction:
        transaction.put("a")
        transaction.put("b", after=["0" * 32])
    assert queue.stats().total == 0


@pytest.mark.parametrize("after", ["an id", "a message"])
def test_after_takes_a_list(queue: PersistentQueue[Any], after: str) -> None:
    upstream = queue.put("a")
    single: Any = upstream.id if after == "an id" else upstream
    with queue.transaction() as transaction, pytest.raises(TypeError):
        transaction.put("b", after=single)


def test_two_queues_of_one_store_change_together(store: MemoryQueueStore, queue: PersistentQueue[Any]) -> None:
    mails: PersistentQueue[Any] = PersistentQueue("mails", store=store)
    message = leased(queue)
    mail = leased(mails, "mail")
    with queue.transaction() as transaction:
        transaction.ack(message)
        transaction.ack(mail, of=mails)
        sent = transaction.put("sent", to=mails)
    assert (queue.stats().total, sent.message.queue) == (0, "mails")
    assert mails.get_nowait() == "sent"


def test_queues_of_different_stores_can_not_change_together(queue: PersistentQueue[Any]) -> None:
    with MemoryQueueStore() as elsewhere:
        other: PersistentQueue[Any] = PersistentQueue("jobs", store=elsewhere)
        transaction = queue.transaction()
        with pytest.raises(ValueError, match="do not share a store object"):
            transaction.put("x", to=other)
        with pytest.raises(ValueError, match="do not share a store object"):
            transaction.ack("0" * 32, of=other)


@pytest.mark.parametrize("end", ["committed", "failed", "rejected"])
def test_a_transaction_is_used_once(queue: PersistentQueue[Any], end: str) -> None:
    transaction = queue.transaction()
    if end == "committed":
        with transaction:
            transaction.put("x")
    elif end == "failed":
        with pytest.raises(KeyError), transaction:
            raise KeyError
    else:
        with pytest.raises(LeaseLost), transaction:
            transaction.ack("0" * 32)
    for use in (
        lambda: transaction.put("y"),
        lambda: transaction.ack("0" * 32),
        lambda: transaction.add_dependency("a", "b"),
        transaction.commit,
    ):
        with pytest.raises(QueueError, match="this transaction has ended"):
            use()
    assert queue.stats().total == (1 if end == "committed" else 0)


def test_a_pending_message_of_another_transaction_has_no_id_yet(queue: PersistentQueue[Any]) -> None:
    open_transaction = queue.transaction()
    pending = open_transaction.put("x")
    with pytest.raises(QueueError, match="not committed yet"), queue.transaction() as transaction:
        transaction.put("y", after=[pending])
    assert queue.stats().total == 0


def test_a_put_in_a_transaction_is_checked_at_once(queue: PersistentQueue[Any]) -> None:
    transaction = queue.transaction()
    with pytest.raises(ValueError, match="delay cannot be negative"):
        transaction.put("x", delay=-1)
    with pytest.raises(PayloadError):
        transaction.put({1})


def test_a_publishing_queue_takes_no_put_in_a_transaction(store: MemoryQueueStore) -> None:
    events: PersistentQueue[Any] = PersistentQueue(
        "events",
        store=store,
        routing_policy=PublishSubscribeRouting(),
        subscription_policy=StaticFanoutSubscriptions(("a",)),
    )
    with pytest.raises(ValueError, match="publishes to subscribers"):
        events.transaction().put("x")


def test_a_duplicate_in_a_transaction_is_the_stored_message(queue: PersistentQueue[Any]) -> None:
    first = queue.put("old", dedupe_key="k")
    with queue.transaction() as transaction:
        again = transaction.put("new", dedupe_key="k")
        fresh = transaction.put("other", dedupe_key="o")
        twice = transaction.put("other again", dedupe_key="o")
    assert again.message == first
    assert twice.id == fresh.id
    assert queue.stats().total == 2


def test_hooks_run_after_the_commit_in_order_and_failures_surface(store: MemoryQueueStore) -> None:
    calls: list[Any] = []

    def fail(message: Any) -> None:
        calls.append(("dispatch", message.value, queue.inspect(message.id) is not None))
        raise ConnectionError(message.value)

    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs",
        store=store,
        notification_policy=CallbackNotification(lambda m: calls.append(("notify", m.value))),
        dispatch_policy=CallbackDispatcher((fail,)),
    )
    with pytest.raises(ExceptionGroup) as caught, queue.transaction() as transaction:
        transaction.put("a")
        transaction.put("b")
        assert calls == []
    assert [str(e) for e in caught.value.exceptions] == ["a", "b"]
    assert calls == [("notify", "a"), ("dispatch", "a", True), ("notify", "b"), ("dispatch", "b", True)]
    assert queue.qsize() == 2


def test_an_empty_transaction_does_nothing(queue: PersistentQueue[Any]) -> None:
    with queue.transaction():
        pass
    assert queue.stats().total == 0
