"""Ack, release, dead-letter, cancel and renew act only for whoever holds the lease."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue, QueueMessage
from localqueue.contracts.harness import FakeClock


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


def test_an_ack_removes_the_message_for_good(queue: PersistentQueue[Any]) -> None:
    queue.put("x")
    message = queue.get_message(block=False)
    assert queue.ack(message) is True
    assert queue.inspect(message.id) is None
    assert queue.ack(message) is False
    assert queue.stats().total == 0


def test_a_release_puts_the_message_behind_the_others(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put_many(["a", "b"])
    message = queue.get_message(block=False)
    clock.advance(1)
    assert queue.release(message) is True
    released = queue.inspect(message.id)
    assert released is not None
    assert (released.state, released.attempts) == ("ready", 1)
    assert (released.leased_until, released.leased_by) == (None, None)
    assert released.available_at == clock()
    assert [queue.get_nowait(), queue.get_nowait()] == ["b", "a"]


def test_a_release_can_wait(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put("x")
    queue.release(queue.get_message(block=False), delay=5)
    assert (queue.stats().delayed, queue.qsize()) == (1, 0)
    clock.advance(5)
    assert queue.get_message(block=False).attempts == 2


@pytest.mark.parametrize("call", ["release", "requeue_dead"])
def test_a_delay_is_never_negative(queue: PersistentQueue[Any], call: str) -> None:
    message = queue.put("x")
    with pytest.raises(ValueError, match="delay cannot be negative"):
        getattr(queue, call)(message, delay=-1)


class CommandError(Exception):
    def __init__(self) -> None:
        super().__init__("command failed")
        self.command = ["ls", "-l"]
        self.exit_code = 3
        self.stdout = ""
        self.stderr = None


@pytest.mark.parametrize(
    ("error", "recorded"),
    [
        (ValueError("bad"), {"type": "ValueError", "module": "builtins", "message": "bad"}),
        ("just text", {"type": None, "module": None, "message": "just text"}),
        (
            CommandError(),
            {
                "type": "CommandError",
                "module": __name__,
                "message": "command failed",
                "command": ["ls", "-l"],
                "exit_code": 3,
                "stdout": "",
            },
        ),
    ],
    ids=["exception", "text", "command"],
)
@pytest.mark.parametrize("call", ["release", "dead_letter"])
def test_an_error_is_recorded_with_the_failure(
    queue: PersistentQueue[Any], clock: FakeClock, call: str, error: Any, recorded: dict[str, Any]
) -> None:
    queue.put("x")
    message = queue.get_message(block=False)
    clock.advance(1)
    assert getattr(queue, call)(message, error=error)
    seen = queue.inspect(message.id)
    assert seen is not None
    assert (seen.last_error, seen.failed_at) == (recorded, clock())
    event = {"release": "released", "dead_letter": "dead_lettered"}[call]
    assert seen.attempt_history[-1] == {"type": event, "at": clock(), "attempt": 1, "last_error": recorded}


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("call", ["release", "dead_letter"])
def test_an_error_that_can_not_be_printed_does_not_stop_the_settling(queue: PersistentQueue[Any], call: str) -> None:
    queue.put("x")
    message = queue.get_message(block=False)
    assert getattr(queue, call)(message, error=UnprintableError())
    seen = queue.inspect(message.id)
    assert seen is not None
    assert seen.last_error is not None
    assert seen.last_error["type"] == "UnprintableError"


def test_a_release_without_an_error_keeps_the_last_one(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put("x")
    queue.release(queue.get_message(block=False), error="first")
    failed_at = clock()
    clock.advance(1)
    message = queue.get_message(block=False)
    assert (message.last_error, message.failed_at) == ({"type": None, "module": None, "message": "first"}, failed_at)
    queue.release(message)
    again = queue.inspect(message.id)
    assert again is not None
    assert (again.last_error, again.failed_at) == (message.last_error, failed_at)
    assert again.attempt_history[-1]["last_error"]["message"] == "first"


def test_a_dead_letter_leaves_delivery_and_can_be_inspected(queue: PersistentQueue[Any]) -> None:
    queue.put("x")
    message = queue.get_message(block=False)
    assert queue.dead_letter(message) is True
    with pytest.raises(Empty):
        queue.get_nowait()
    dead = queue.inspect(message.id)
    assert dead is not None
    assert (dead.state, dead.leased_until, dead.leased_by, dead.last_error) == ("dead", None, None, None)
    assert queue.dead_letters() == [dead]


def test_a_cancelled_message_leaves_delivery(queue: PersistentQueue[Any]) -> None:
    queue.put("x")
    message = queue.get_message(block=False)
    assert queue.cancel(message) is True
    assert (queue.stats().cancelled, queue.stats().dead) == (1, 0)
    seen = queue.inspect(message.id)
    assert seen is not None
    assert seen.state == "cancelled"
    assert queue.requeue_dead(message)
    assert queue.get_nowait() == "x"


@pytest.mark.parametrize("call", ["ack", "release", "dead_letter", "cancel"])
def test_a_lost_lease_can_not_settle(queue: PersistentQueue[Any], clock: FakeClock, call: str) -> None:
    queue.put("x")
    stale = queue.get_message(block=False)
    clock.advance(11)
    current = queue.get_message(block=False)
    assert getattr(queue, call)(stale) is False
    assert queue.inspect(current.id) == current
    assert queue.ack(current) is True


@pytest.mark.parametrize("call", ["ack", "release", "dead_letter", "cancel"])
@pytest.mark.parametrize("end", ["ack", "release", "dead_letter", "cancel"])
def test_settling_twice_changes_nothing_the_second_time(queue: PersistentQueue[Any], end: str, call: str) -> None:
    queue.put("x")
    message = queue.get_message(block=False)
    assert getattr(queue, end)(message) is True
    before = queue.inspect(message.id)
    assert getattr(queue, call)(message) is False
    assert queue.inspect(message.id) == before


def test_an_expired_lease_that_nobody_took_over_can_still_settle_or_is_told(
    queue: PersistentQueue[Any], clock: FakeClock
) -> None:
    """Either answer is safe; what may not happen is True while the message stays."""
    queue.put("x")
    message = queue.get_message(block=False)
    clock.advance(11)
    acked = queue.ack(message)
    assert (queue.inspect(message.id) is None) is acked


@pytest.mark.parametrize("call", ["ack", "release", "dead_letter", "cancel"])
@pytest.mark.parametrize("message_id", ["0" * 32, "nonsense", ""])
def test_an_unknown_message_is_false(queue: PersistentQueue[Any], call: str, message_id: str) -> None:
    queue.put("x")
    assert getattr(queue, call)(message_id) is False
    assert getattr(queue, call)(QueueMessage(message_id, None, "jobs")) is False
    assert queue.qsize() == 1


@pytest.mark.parametrize("handle", ["id", "bare message"])
def test_an_operator_overrides_any_lease_by_id(queue: PersistentQueue[Any], handle: str) -> None:
    put = queue.put("x")
    leased = queue.get_message(block=False)
    override: Any = put.id if handle == "id" else QueueMessage(id=put.id, value=None, queue="jobs")
    assert queue.release(override) is True
    assert queue.ack(leased) is False
    assert queue.dead_letter(override) is True
    assert queue.ack(override) is True
    assert queue.stats().total == 0


def test_an_override_acts_on_messages_nobody_leased(queue: PersistentQueue[Any]) -> None:
    ready, delayed = queue.put("a"), queue.put("b", delay=50)
    assert queue.dead_letter(ready)
    assert queue.ack(delayed)
    assert (queue.stats().dead, queue.stats().total) == (1, 1)


def test_many_acks_are_answered_one_by_one(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put_many(["a", "b", "c"])
    stale = queue.get_message(block=False)
    clock.advance(11)
    b, c, a = queue.get_messages(3)
    assert a.id == stale.id
    assert queue.ack_many([b, stale, "0" * 32, c.id]) == [True, False, False, True]
    assert [m.value for m in queue.messages()] == ["a"]
    assert queue.ack_many([]) == []


def test_renew_extends_the_lease_from_now(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put("x")
    message = queue.get_message(block=False)
    clock.advance(8)
    renewed = queue.renew(message)
    assert renewed is not None
    assert renewed.leased_until == clock() + 10
    assert renewed.attempts == message.attempts
    clock.advance(8)
    with pytest.raises(Empty):
        queue.get_nowait()
    assert queue.ack(message) is True


def test_renew_takes_a_timeout_of_its_own(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put("x")
    message = queue.get_message(block=False)
    renewed = queue.renew(message, timeout=100)
    assert renewed is not None
    assert renewed.leased_until == clock() + 100
    clock.advance(99)
    assert queue.empty()
    clock.advance(2)
    assert queue.get_nowait() == "x"


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_renewal_lasts_some_time(queue: PersistentQueue[Any], timeout: float) -> None:
    message = queue.put("x")
    with pytest.raises(ValueError, match=r"the lease timeout must be (greater than zero|a finite number of seconds)"):
        queue.renew(message, timeout=timeout)


def test_a_lost_lease_can_not_be_renewed(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put("x")
    stale = queue.get_message(block=False)
    clock.advance(11)
    current = queue.get_message(block=False)
    assert queue.renew(stale) is None
    queue.ack(current)
    assert queue.renew(current) is None
    assert queue.renew(queue.put("never leased")) is None


def test_a_message_is_dead_lettered_after_max_attempts_releases(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, max_attempts=2)
    queue.put("x")
    assert queue.release(queue.get_message(block=False), error="one")
    assert queue.release(queue.get_message(block=False), error="two")
    with pytest.raises(Empty):
        queue.get_nowait()
    (dead,) = queue.dead_letters()
    assert dead.attempts == 2
    assert dead.last_error is not None
    assert dead.last_error["message"] == "two"


def test_a_message_is_dead_lettered_after_max_attempts_lost_leases(store: MemoryQueueStore, clock: FakeClock) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, max_attempts=2, lease_timeout=10)
    queue.put("x")
    for attempt in (1, 2):
        assert queue.get_message(block=False).attempts == attempt
        clock.advance(11)
    with pytest.raises(Empty):
        queue.get_nowait()
    (dead,) = queue.dead_letters()
    assert (dead.value, dead.attempts) == ("x", 2)
    assert dead.last_error is not None
    assert dead.last_error["type"] == "AttemptsExhausted"
    assert "delivered 2 times without an ack" in dead.last_error["message"]


def test_a_bounded_put_does_not_give_a_message_more_attempts(store: MemoryQueueStore, clock: FakeClock) -> None:
    """The put counts capacity and so settles leases that ran out; the queue's max_attempts holds there too."""
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, max_attempts=1, maxsize=5, lease_timeout=10)
    queue.put("crashes its consumer")
    queue.get_message(block=False)
    clock.advance(11)
    queue.put("next")
    assert queue.get_nowait() == "next"
    assert [m.value for m in queue.dead_letters()] == ["crashes its consumer"]


def test_a_last_attempt_can_still_succeed(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, max_attempts=1)
    queue.put("x")
    assert queue.ack(queue.get_message(block=False))
    assert queue.stats().total == 0


def test_a_requeued_message_has_a_fresh_attempt_budget(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, max_attempts=2)
    message = queue.put("x")
    for _ in range(2):
        queue.release(queue.get_message(block=False), error="no")
    assert queue.requeue_dead(message)
    assert queue.get_message(block=False).attempts == 3
    queue.release(message.id)
    assert queue.get_message(block=False).attempts == 4
