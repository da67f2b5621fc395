"""Getting messages: what is leased, how long a get waits, and what at-most-once delivery gives up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from localqueue import AtMostOnceDelivery, MemoryQueueStore, PersistentQueue, SQLiteQueueStore
from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import PATIENCE, Background


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


def tell_when_listening(store: Any) -> threading.Event:
    """An event that is set once a consumer has found nothing and waits."""
    listening, listen = threading.Event(), store.listen

    def listen_and_tell(queues: Any, **options: Any) -> Any:
        waiter = listen(queues, **options)
        listening.set()
        return waiter

    store.listen = listen_and_tell
    return listening


def test_a_leased_message_carries_its_lease(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    put = queue.put("x")
    clock.advance(3)
    message = queue.get_message(block=False, leased_by="w1")
    assert (message.id, message.value, message.queue) == (put.id, "x", "jobs")
    assert (message.state, message.attempts) == ("inflight", 1)
    assert message.created_at == message.available_at == put.created_at
    assert message.leased_until == clock() + 10
    assert message.leased_by == "w1"
    assert message.attempt_history == [{"type": "leased", "at": clock(), "attempt": 1, "leased_by": "w1"}]
    assert queue.inspect(put.id) == message


def test_a_lease_without_a_worker_names_none(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put("x")
    message = queue.get_message(block=False)
    assert message.leased_by is None
    assert message.attempt_history == [{"type": "leased", "at": clock(), "attempt": 1}]


@pytest.mark.parametrize(("worker", "error"), [(5, TypeError), ("", ValueError), ("\ud800", ValueError)], ids=repr)
def test_a_worker_is_named_by_text(queue: PersistentQueue[Any], worker: Any, error: type[Exception]) -> None:
    queue.put("x")
    with pytest.raises(error, match="leased_by"):
        queue.get_message(block=False, leased_by=worker)
    assert queue.qsize() == 1


def test_a_leased_message_is_not_delivered_to_another(queue: PersistentQueue[Any]) -> None:
    queue.put("x")
    queue.get_message(block=False)
    with pytest.raises(Empty):
        queue.get_message(block=False)


def test_an_expired_lease_is_delivered_again_as_another_attempt(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put("x")
    first = queue.get_message(block=False, leased_by="A")
    leased_at = clock()
    clock.advance(9.99)
    assert queue.empty()
    clock.advance(0.02)
    assert queue.qsize() == 1
    second = queue.get_message(block=False, leased_by="B")
    assert (second.id, second.attempts, second.leased_by) == (first.id, 2, "B")
    assert [(e["type"], e["attempt"], e.get("leased_by")) for e in second.attempt_history] == [
        ("leased", 1, "A"),
        ("lease_expired", 1, "A"),
        ("leased", 2, "B"),
    ]
    assert second.attempt_history[0]["at"] == leased_at


@pytest.mark.parametrize("get", ["get", "get_message", "get_messages"])
def test_nothing_to_get_is_empty(queue: PersistentQueue[Any], get: str) -> None:
    call: Any = {
        "get": queue.get,
        "get_message": queue.get_message,
        "get_messages": lambda *a, **k: queue.get_messages(2, *a, **k),
    }[get]
    for arguments in ({"block": False}, {"timeout": 0}, {"timeout": 0.01}, {"block": False, "timeout": 5}):
        with pytest.raises(Empty):
            call(**arguments)
    with pytest.raises(ValueError, match="'timeout' must be a non-negative number"):
        call(timeout=-1)
    with pytest.raises(ValueError, match="'timeout' must be a non-negative number"):
        call(block=False, timeout=-0.5)


def test_a_get_with_no_time_left_still_looks_once(queue: PersistentQueue[Any]) -> None:
    queue.put("x")
    assert queue.get(timeout=0) == "x"


def test_a_get_waits_for_its_timeout(queue: PersistentQueue[Any]) -> None:
    start = time.monotonic()
    with pytest.raises(Empty):
        queue.get_message(timeout=0.1)
    assert time.monotonic() - start >= 0.1


@pytest.mark.parametrize("kind", ["memory", "sqlite", "another store object on the file"])
@pytest.mark.parametrize("queue_exists", [True, False], ids=["known queue", "unknown queue"])
def test_a_blocked_get_is_woken_by_a_put(tmp_path: Path, kind: str, queue_exists: bool) -> None:
    store = MemoryQueueStore() if kind == "memory" else SQLiteQueueStore(tmp_path / "q.db")
    producer_store = SQLiteQueueStore(tmp_path / "q.db") if kind.startswith("another") else store
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    if queue_exists:
        queue.ack(queue.put("before"))
    listening = tell_when_listening(store)
    got: list[Any] = []
    background = Background()
    background.start(lambda: got.append(queue.get(timeout=PATIENCE)))
    assert listening.wait(PATIENCE)
    PersistentQueue("jobs", store=producer_store).put("x")
    background.join()
    assert got == ["x"]
    producer_store.close()
    store.close()


@pytest.mark.parametrize(
    "event", ["a delay ends", "a lease ends", "a release", "a requeue", "a resume", "an upstream ack"]
)
def test_a_blocked_get_is_woken_by(event: str) -> None:
    with MemoryQueueStore() as store:
        queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
        short: PersistentQueue[Any] = PersistentQueue("jobs", store=store, lease_timeout=0.1)
        act: Any = None  # what happens by itself may have happened before anybody listens, on a busy machine
        if event == "a delay ends":
            queue.put("x", delay=0.1)
        elif event == "a lease ends":
            queue.put("x")
            short.get_message(block=False)
        elif event == "an upstream ack":
            upstream = queue.put("first")
            queue.put("x", after=[upstream])
            leased = queue.get_message(block=False)
            act = partial(queue.ack, leased)
        else:
            queue.put("x")
            if event == "a resume":
                queue.pause()
                act = queue.resume
            else:
                leased = queue.get_message(block=False)
                if event == "a release":
                    act = partial(queue.release, leased)
                else:
                    queue.dead_letter(leased)
                    act = partial(queue.requeue_dead, leased)
        listening = tell_when_listening(store)
        got: list[Any] = []
        background = Background()
        background.start(lambda: got.append(queue.get(timeout=PATIENCE)))
        if act is not None:
            assert listening.wait(PATIENCE)
            act()
        background.join()
        assert got == ["x"]


def test_consumers_in_many_threads_get_every_message_once(tmp_path: Path) -> None:
    with SQLiteQueueStore(tmp_path / "q.db") as store:
        queue: PersistentQueue[int] = PersistentQueue("jobs", store=store)
        queue.put_many(range(200))
        seen: list[int] = []

        def consume() -> None:
            while True:
                try:
                    message = queue.get_message(block=False)
                except Empty:
                    return
                seen.append(message.value)
                assert queue.ack(message)

        background = Background()
        for _ in range(4):
            background.start(consume)
        background.join()
        assert sorted(seen) == list(range(200))
        assert queue.stats().total == 0


def test_a_batch_is_leased_at_once_and_in_order(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put_many(range(5))
    batch = queue.get_messages(3, leased_by="w")
    assert [m.value for m in batch] == [0, 1, 2]
    assert {(m.state, m.attempts, m.leased_by, m.leased_until) for m in batch} == {("inflight", 1, "w", clock() + 10)}
    assert [m.value for m in queue.get_messages(10)] == [3, 4]
    assert queue.stats().leases_by_worker_id == {"w": 3}


def test_a_batch_waits_for_the_first_message_only(tmp_path: Path) -> None:
    with SQLiteQueueStore(tmp_path / "q.db") as store:
        queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
        listening = tell_when_listening(store)
        got: list[Any] = []
        background = Background()
        background.start(lambda: got.extend(queue.get_messages(100, timeout=PATIENCE)))
        assert listening.wait(PATIENCE)
        queue.put("x")
        background.join()
        assert [m.value for m in got] == ["x"]


@pytest.mark.parametrize("n", [0, -1, True, 1.5, "3", None])
def test_a_batch_has_a_positive_size(queue: PersistentQueue[Any], n: Any) -> None:
    with pytest.raises(ValueError, match="the number of messages must be a positive integer"):
        queue.get_messages(n)


def test_get_returns_the_value_and_task_done_acks_it(queue: PersistentQueue[Any]) -> None:
    queue.put("a")
    queue.put("b")
    assert (queue.get(), queue.get_nowait()) == ("a", "b")
    assert queue.stats().inflight == 2
    queue.task_done()
    assert [m.value for m in queue.messages()] == ["b"]
    queue.task_done()
    assert queue.stats().total == 0
    with pytest.raises(ValueError, match=r"task_done\(\) called too many times"):
        queue.task_done()


def test_get_message_is_not_counted_as_an_unfinished_task(queue: PersistentQueue[Any]) -> None:
    queue.put("a")
    queue.get_message()
    with pytest.raises(ValueError, match="too many times"):
        queue.task_done()
    queue.join()


def test_tasks_belong_to_the_object_that_got_them(store: MemoryQueueStore, queue: PersistentQueue[Any]) -> None:
    queue.put("a")
    queue.get()
    other: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    other.join()
    with pytest.raises(ValueError, match="too many times"):
        other.task_done()


def test_task_done_after_a_lost_lease_does_not_take_the_message_from_its_new_owner(
    store: MemoryQueueStore, queue: PersistentQueue[Any], clock: FakeClock
) -> None:
    queue.put("a")
    queue.get()
    clock.advance(11)
    other: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    owned = other.get_message(block=False)
    assert queue.task_done() is False
    assert other.ack(owned)


@pytest.mark.parametrize("settle", ["task_done", "ack", "release", "dead_letter", "purge", "ack_many", "transaction"])
def test_join_waits_for_the_tasks_of_this_object_only(
    store: MemoryQueueStore, queue: PersistentQueue[Any], settle: str
) -> None:
    message = queue.put("a")
    queue.put("still ready")
    queue.get()
    joined = threading.Event()

    def wait() -> None:
        queue.join()
        joined.set()

    background = Background()
    background.start(wait)
    assert not joined.is_set()
    if settle == "task_done":
        queue.task_done()
    elif settle == "purge":
        queue.purge()
    elif settle == "ack_many":
        queue.ack_many([message])
    elif settle == "transaction":
        with queue.transaction() as transaction:
            transaction.ack(message)
    else:
        getattr(queue, settle)(message)
    background.join()
    assert joined.is_set()


def test_at_most_once_delivery_removes_a_message_before_handing_it_out(
    store: MemoryQueueStore, clock: FakeClock
) -> None:
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, delivery_policy=AtMostOnceDelivery(), lease_timeout=10
    )
    queue.put("x")
    message = queue.get_message(block=False, leased_by="w")
    assert (message.value, message.state, message.attempts) == ("x", "inflight", 1)
    assert message.leased_until == clock() + 10
    assert queue.stats().total == 0
    assert not queue.ack(message)
    assert not queue.release(message)
    assert not queue.dead_letter(message)
    assert queue.renew(message) is None
    clock.advance(11)
    with pytest.raises(Empty):
        queue.get_nowait()


def test_at_most_once_delivery_leaves_no_task_behind(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, delivery_policy=AtMostOnceDelivery())
    queue.put_many(["a", "b", "c"])
    assert queue.get() == "a"
    with pytest.raises(ValueError, match="too many times"):
        queue.task_done()
    assert [m.value for m in queue.get_messages(5)] == ["b", "c"]
    assert queue.stats().total == 0
    queue.join()


def test_at_most_once_delivery_frees_what_waits_for_the_message(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, delivery_policy=AtMostOnceDelivery())
    first = queue.put("first", dedupe_key="k")
    queue.put("second", after=[first])
    assert (queue.get(), queue.get(timeout=0)) == ("first", "second")
    assert queue.put("again", dedupe_key="k").value == "again"
