"""What `put` and `put_many` promise: the checks, the message that comes back, and what is stored."""

from __future__ import annotations

import time
from collections.abc import Iterator
from queue import Empty
from typing import Any

import pytest

from localqueue import (
    NO_DEDUPLICATION,
    EffectivelyOnceDelivery,
    MemoryQueueStore,
    PersistentQueue,
    PriorityOrdering,
    QueueMessage,
)
from localqueue.contracts.harness import FakeClock
from localqueue.errors import UnknownMessage


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


def test_put_returns_the_ready_message(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    item = {"n": 1}
    message = queue.put(item)
    assert message.value is item
    assert (message.queue, message.state, message.attempts) == ("jobs", "ready", 0)
    assert message.created_at == message.available_at == clock()
    assert (message.leased_until, message.leased_by, message.last_error, message.failed_at) == (None, None, None, None)
    assert (message.attempt_history, message.dedupe_key, message.priority) == ([], None, 0)
    assert len(message.id) == 32
    assert int(message.id, 16) >= 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"delay": 5},
        {"dedupe_key": "k"},
        {"ttl": 60},
        {"headers": {"trace": "1"}},
        {"run_id": "r"},
        {"timeout": 1},
        {"delay": 5.0, "dedupe_key": "k", "ttl": 60.0, "headers": {"a": "b"}, "run_id": "r"},
    ],
    ids=str,
)
def test_what_put_returns_is_what_inspect_reads(queue: PersistentQueue[Any], options: dict[str, Any]) -> None:
    message = queue.put({"n": 1}, **options)
    assert queue.inspect(message.id) == message


def test_put_uses_the_real_clock_by_default() -> None:
    with MemoryQueueStore() as store:
        before = time.time()
        message = PersistentQueue("jobs", store=store).put("x", delay=10)
        assert before <= message.created_at <= time.time()
        assert message.available_at == pytest.approx(message.created_at + 10, abs=1e-3)


def test_ids_ascend_and_are_never_equal(queue: PersistentQueue[Any]) -> None:
    ids = [queue.put(n).id for n in range(50)] + [m.id for m in queue.put_many(range(50))]
    assert ids == sorted(set(ids))


def test_a_change_to_the_item_after_put_does_not_reach_the_consumer(queue: PersistentQueue[Any]) -> None:
    item = {"tags": ["a"]}
    queue.put(item)
    item["tags"].append("b")
    assert queue.get_nowait() == {"tags": ["a"]}


def test_a_delayed_message_is_delivered_when_it_is_due(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    message = queue.put("later", delay=10)
    assert message.state == "ready"
    assert message.available_at == clock() + 10
    clock.advance(9.5)
    assert (queue.qsize(), queue.stats().delayed) == (0, 1)
    with pytest.raises(Empty):
        queue.get_nowait()
    clock.advance(0.5)
    assert (queue.qsize(), queue.stats().delayed) == (1, 0)
    assert queue.get_nowait() == "later"


def test_headers_travel_with_the_message_and_stay_out_of_the_value(queue: PersistentQueue[Any]) -> None:
    put = queue.put({"n": 1}, headers={"trace": "abc", "größe": "1"})
    got = queue.get_message(block=False)
    assert got.value == {"n": 1}
    assert got.headers == put.headers == {"trace": "abc", "größe": "1"}
    queue.release(got)
    assert queue.get_message(block=False).headers == got.headers


@pytest.mark.parametrize("headers", [{"a": 1}, {1: "a"}, [("a", "b")], "ab"])
def test_headers_map_strings_to_strings(queue: PersistentQueue[Any], headers: Any) -> None:
    with pytest.raises(TypeError, match="headers must"):
        queue.put("x", headers=headers)
    assert queue.stats().total == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"delay": -1}, ValueError, "delay cannot be negative"),
        ({"delay": -0.001}, ValueError, "delay cannot be negative"),
        ({"dedupe_key": ""}, ValueError, "dedupe_key cannot be empty"),
        ({"priority": 1.0}, TypeError, "priority must be an integer"),
        ({"priority": 0.0}, TypeError, "priority must be an integer"),
        ({"priority": True}, TypeError, "priority must be an integer"),
        ({"priority": False}, TypeError, "priority must be an integer"),
        ({"priority": "1"}, TypeError, "priority must be an integer"),
        ({"priority": -1}, ValueError, "priority cannot be negative"),
        ({"priority": 1}, ValueError, "priority requires PriorityOrdering"),
        ({"timeout": -1}, ValueError, "'timeout' must be a non-negative number"),
        ({"timeout": -1, "block": False}, ValueError, "'timeout' must be a non-negative number"),
    ],
    ids=str,
)
def test_an_option_that_can_not_be_kept_is_refused(
    queue: PersistentQueue[Any], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        queue.put("x", **options)
    assert str(caught.value) == message
    assert queue.stats().total == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"delay": float("nan")}, ValueError, "delay must be a finite number of seconds"),
        ({"delay": float("inf")}, ValueError, "delay must be a finite number of seconds"),
        ({"delay": "5"}, TypeError, "delay must be a number of seconds"),
        ({"delay": None}, TypeError, "delay must be a number of seconds"),
        ({"delay": True}, TypeError, "delay must be a number of seconds"),
        ({"ttl": 0}, ValueError, "ttl must be greater than zero"),
        ({"ttl": -1}, ValueError, "ttl must be greater than zero"),
        ({"ttl": "1"}, TypeError, "ttl must be a number of seconds"),
        ({"dedupe_key": 5}, TypeError, "dedupe_key must be a string"),
        ({"dedupe_key": "a\ud800"}, ValueError, "not valid Unicode"),
        ({"run_id": ""}, ValueError, "run_id cannot be empty"),
        ({"ordering_key": "k"}, ValueError, "ordering_key requires PerKeyFifoOrdering"),
        ({"ordering_key": ""}, ValueError, "ordering_key cannot be empty"),
        ({"after": "0" * 32}, TypeError, r"write after=\[...\]"),
        ({"after": [5]}, TypeError, "after= takes message ids or messages"),
        ({"after": ["0" * 32]}, UnknownMessage, "was ever put into this store"),
    ],
    ids=str,
)
def test_an_option_of_the_wrong_kind_says_what_it_should_be(
    queue: PersistentQueue[Any], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        queue.put("x", **options)
    assert queue.stats().total == 0


def test_the_checks_of_put_come_in_the_documented_order(store: MemoryQueueStore) -> None:
    """delay, dedupe_key, its support, priority, timeout, payload; each is dropped once it has complained."""
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, deduplication_policy=NO_DEDUPLICATION)
    options: dict[str, Any] = {"delay": -1, "dedupe_key": "", "priority": -1, "timeout": -1}
    complaints = []
    for following in (
        {"delay": 0},
        {"dedupe_key": "k"},
        {"dedupe_key": None},
        {"priority": 1},
        {"priority": 0},
        {"timeout": None},
    ):
        with pytest.raises(ValueError) as caught:
            queue.put({1, 2}, **options)
        complaints.append(str(caught.value).partition(":")[0])
        options |= following
    with pytest.raises(ValueError) as caught:
        queue.put({1, 2}, **options)
    complaints.append(str(caught.value).partition(":")[0])
    assert complaints == [
        "delay cannot be negative",
        "dedupe_key cannot be empty",
        "dedupe_key is not supported by the active deduplication_policy",
        "priority cannot be negative",
        "priority requires PriorityOrdering",
        "'timeout' must be a non-negative number",
        "queue values must be JSON-serializable",
    ]


def test_effectively_once_delivery_requires_a_key_on_every_put(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, delivery_policy=EffectivelyOnceDelivery())
    for put in (lambda: queue.put("x"), lambda: queue.put_nowait("x"), lambda: queue.put_many(["x"])):
        with pytest.raises(ValueError, match="dedupe_key is required by the active delivery_policy"):
            put()
    assert queue.put("x", dedupe_key="k").dedupe_key == "k"


def test_an_unserialisable_value_is_refused_at_once_even_when_the_queue_is_full(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, maxsize=1)
    queue.put("x")
    with pytest.raises(ValueError, match="queue values must be JSON-serializable"):
        queue.put({1, 2})


def test_put_many_stores_all_in_order(queue: PersistentQueue[Any]) -> None:
    messages = queue.put_many({"n": n} for n in range(100))
    assert [m.value["n"] for m in messages] == list(range(100))
    assert [queue.inspect(m.id) for m in messages] == list(messages)
    assert [m.value["n"] for m in queue.get_messages(100)] == list(range(100))


def test_put_many_of_nothing_stores_nothing(queue: PersistentQueue[Any]) -> None:
    assert queue.put_many([]) == []
    assert queue.stats().total == 0


def test_put_many_stores_all_or_nothing(queue: PersistentQueue[Any]) -> None:
    with pytest.raises(ValueError, match="JSON-serializable"):
        queue.put_many(["a", "b", {1}])
    with pytest.raises(UnknownMessage):
        queue.put_many(["a", "b"], after=["0" * 32])
    assert queue.stats().total == 0


def test_put_many_gives_every_message_the_same_options(store: MemoryQueueStore, clock: FakeClock) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, ordering_policy=PriorityOrdering())
    first = queue.put("first")
    many = queue.put_many(["a", "b"], delay=5, priority=3, ttl=60, headers={"h": "1"}, run_id="r", after=[first])
    for message in many:
        assert (message.available_at, message.expires_at) == (clock() + 5, clock() + 60)
        assert (message.priority, message.headers, message.run_id) == (3, {"h": "1"}, "r")
        assert message.state == "waiting"
        seen = queue.inspect(message.id)
        assert seen is not None
        assert seen.waiting_on == 1


def test_a_message_can_stand_for_its_id_in_after(queue: PersistentQueue[Any]) -> None:
    first = queue.put("first")
    second = queue.put("second", after=[first])
    third = queue.put("third", after=[first.id, second])
    assert (second.state, third.state) == ("waiting", "waiting")
    assert queue.waits_for(third) == sorted([first.id, second.id])
    seen = []
    while queue.qsize():
        message = queue.get_message(block=False)
        seen.append(message.value)
        queue.ack(message)
    assert seen == ["first", "second", "third"]


def test_put_nowait_is_put_without_waiting(queue: PersistentQueue[Any]) -> None:
    message = queue.put_nowait("x")
    assert isinstance(message, QueueMessage)
    assert queue.get_nowait() == "x"
