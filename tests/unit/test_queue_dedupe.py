"""A dedupe key names one live message of a queue: a second put finds it instead of storing another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from localqueue import (
    NO_DEDUPLICATION,
    CallbackDispatcher,
    CallbackNotification,
    EffectivelyOnceDelivery,
    MemoryQueueStore,
    PersistentQueue,
    PushConsumption,
    RejectingBackpressure,
    SQLiteQueueStore,
)
from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import Background
from localqueue.errors import DedupeKeyInUse


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore(clock=clock) as opened:
        yield opened


@pytest.fixture
def queue(store: MemoryQueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store)


def test_a_second_put_returns_the_stored_message_unchanged(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    first = queue.put("old", dedupe_key="k", headers={"a": "1"})
    clock.advance(1)
    again = queue.put("new", dedupe_key="k", delay=60, ttl=5)
    assert again == first
    assert queue.stats().total == 1
    assert queue.get_nowait() == "old"


@pytest.mark.parametrize("state", ["ready", "delayed", "inflight", "waiting", "released"])
def test_a_live_message_holds_its_key(queue: PersistentQueue[Any], state: str) -> None:
    upstream = queue.put("upstream", delay=1000)
    options: dict[str, Any] = {"delayed": {"delay": 9}, "waiting": {"after": [upstream]}}.get(state, {})
    first = queue.put("old", dedupe_key="k", **options)
    if state in ("inflight", "released"):
        leased = queue.get_message(block=False)
        if state == "released":
            queue.release(leased)
    again = queue.put("new", dedupe_key="k")
    assert (again.id, again.value) == (first.id, "old")
    assert again.state == (state if state in ("inflight", "waiting") else "ready")


@pytest.mark.parametrize("end", ["ack", "dead_letter", "cancel", "purge", "expire"])
def test_a_key_is_free_once_its_message_left_delivery(queue: PersistentQueue[Any], clock: FakeClock, end: str) -> None:
    first = queue.put("old", dedupe_key="k", ttl=5)
    if end == "purge":
        queue.purge()
    elif end == "expire":
        clock.advance(6)
    else:
        getattr(queue, end)(queue.get_message(block=False))
    again = queue.put("new", dedupe_key="k")
    assert again.id != first.id
    assert again.state == "ready"
    assert queue.get_nowait() == "new"


def test_keys_belong_to_one_queue(store: MemoryQueueStore, queue: PersistentQueue[Any]) -> None:
    other: PersistentQueue[Any] = PersistentQueue("mails", store=store)
    queue.put("a", dedupe_key="k")
    assert other.put("b", dedupe_key="k").value == "b"


def test_a_dead_letter_can_not_return_while_a_live_message_has_its_key(queue: PersistentQueue[Any]) -> None:
    queue.put("old", dedupe_key="k")
    dead = queue.get_message(block=False)
    queue.dead_letter(dead)
    live = queue.put("new", dedupe_key="k")
    with pytest.raises(DedupeKeyInUse, match="a live message has its dedupe key 'k'"):
        queue.requeue_dead(dead)
    assert queue.requeue_all_dead() == 0
    queue.ack(live)
    assert queue.requeue_dead(dead)
    assert queue.put("third", dedupe_key="k").id == dead.id


def test_a_duplicate_on_a_full_queue_is_the_duplicate_and_not_full(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, backpressure=RejectingBackpressure(1))
    first = queue.put("x", dedupe_key="k")
    assert queue.full()
    assert queue.put("y", dedupe_key="k", block=False) == first


def test_a_duplicate_is_neither_notified_nor_dispatched_again(store: MemoryQueueStore) -> None:
    notified: list[str] = []
    dispatched: list[str] = []
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs",
        store=store,
        consumption_policy=PushConsumption(),
        notification_policy=CallbackNotification(lambda m: notified.append(m.value)),
        dispatch_policy=CallbackDispatcher((lambda m: dispatched.append(m.value),)),
    )
    queue.put("a", dedupe_key="k")
    queue.put("b", dedupe_key="k")
    queue.put("c", dedupe_key="other")
    assert notified == dispatched == ["a", "c"]


def test_a_queue_without_deduplication_takes_no_key(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, deduplication_policy=NO_DEDUPLICATION)
    with pytest.raises(ValueError, match="dedupe_key is not supported by the active deduplication_policy"):
        queue.put("x", dedupe_key="k")
    assert queue.put("x").dedupe_key is None


def test_threads_that_put_one_key_at_once_store_one_message(tmp_path: Any) -> None:
    with SQLiteQueueStore(tmp_path / "q.db") as store:
        queue: PersistentQueue[int] = PersistentQueue("jobs", store=store)
        together = threading.Barrier(8)
        ids: list[str] = []

        def put(n: int) -> None:
            together.wait()
            ids.append(queue.put(n, dedupe_key="k").id)

        background = Background()
        for n in range(8):
            background.start(put, n)
        background.join()
        assert len(ids) == 8
        assert len(set(ids)) == 1
        assert queue.stats().total == 1


def test_a_batch_takes_one_key_for_each_item() -> None:
    with MemoryQueueStore() as store:
        queue: PersistentQueue[str] = PersistentQueue("jobs", store=store)
        first = queue.put("a", dedupe_key="k1")
        stored = queue.put_many(["again", "b"], dedupe_keys=["k1", "k2"])
        assert [message.id == first.id for message in stored] == [True, False]
        assert [message.value for message in queue.messages()] == ["a", "b"]
        with pytest.raises(ValueError, match="1 keys for 2 items"):
            queue.put_many(["c", "d"], dedupe_keys=["k3"])
        with pytest.raises(TypeError, match="one key for each item"):
            queue.put_many(["c", "d"], dedupe_keys="k3")
        assert queue.qsize() == 2


def test_an_effectively_once_queue_takes_batches_with_keys() -> None:
    with MemoryQueueStore() as store:
        queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, delivery_policy=EffectivelyOnceDelivery())
        with pytest.raises(ValueError, match="dedupe_key is required"):
            queue.put_many(["a", "b"])
        assert [message.dedupe_key for message in queue.put_many(["a", "b"], dedupe_keys=["x", "y"])] == ["x", "y"]
