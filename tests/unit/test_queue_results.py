"""The status and the result of any message, from the queue that has it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from localqueue import AtMostOnceDelivery, MemoryQueueStore, PayloadError, PersistentQueue, SQLiteQueueStore
from localqueue.contracts.harness import FakeClock
from localqueue.errors import (
    IncompatiblePolicies,
    JobCancelled,
    JobExpired,
    JobFailed,
    ResultMissing,
    ResultTimeout,
)
from localqueue.jobs import progress, retention
from localqueue.jobs.outcome import JobOutcome, success_writer
from localqueue.message import QueueMessage, UndecodablePayload
from localqueue.policies import BytesCodec, MsgpackCodec, PickleCodec
from localqueue.stores.port import Changes, QueueStore, RecordWrite

A_DAY = 86400.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> Iterator[QueueStore]:
    if request.param == "memory":
        with MemoryQueueStore(clock=clock) as memory:
            yield memory
    else:
        with SQLiteQueueStore(tmp_path / "queues.sqlite3", clock=clock) as file:
            yield file


@pytest.fixture
def queue(store: QueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store, lease_timeout=10, keep_results=A_DAY)


def state_of(queue: PersistentQueue[Any], message: Any) -> str | None:
    status = queue.status(message)
    return None if status is None else status.state


def test_a_status_says_how_a_message_stands_on_its_way(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    first = queue.put("a")
    later = queue.put("b", delay=5)
    after = queue.put("c", after=[first])
    assert [state_of(queue, one) for one in (first, later, after.id)] == ["queued", "queued", "waiting"]
    leased = queue.get_message(block=False)
    running = queue.status(first)
    assert running is not None
    assert (running.state, running.attempts, running.started_at) == ("running", 1, clock())
    assert (running.finished_at, running.finished, running.progress) == (None, False, None)
    clock.advance(1)
    queue.release(leased, error=KeyError("x"), delay=100)
    released = queue.status(first)
    assert released is not None
    assert (released.state, released.attempts, released.started_at) == ("queued", 1, clock() - 1)
    assert released.error is not None and released.error["type"] == "KeyError"


def test_nothing_is_known_of_a_message_that_never_was(queue: PersistentQueue[Any], store: QueueStore) -> None:
    (unknown,) = store.mint()
    assert queue.status(unknown) is None
    with pytest.raises(ResultMissing, match=f"{unknown} of queue 'jobs'"):
        queue.result(unknown)
    with pytest.raises(LookupError):
        queue.result("not even an id", timeout=0)


def test_a_queue_that_keeps_nothing_says_so(store: QueueStore) -> None:
    queue = PersistentQueue[Any]("jobs", store=store)
    message = queue.put("x")
    leased = queue.get_message(block=False)
    with pytest.raises(ValueError, match="keep_results"):
        queue.ack(leased, result=1)
    with pytest.raises(ValueError, match="keep_results"):
        queue.ack_many([leased], results=[1])
    with pytest.raises(ValueError, match="keep_results"), queue.transaction() as tx:
        tx.ack(leased, result=1)
    assert queue.ack(leased)
    assert queue.status(message) is None
    with pytest.raises(ResultMissing, match="keep_results=seconds"):
        queue.result(message)
    assert store.records("outcome") == []


def test_a_message_in_another_queue_of_the_store_is_not_ours(store: QueueStore, queue: PersistentQueue[Any]) -> None:
    other = PersistentQueue[Any]("other", store=store, keep_results=A_DAY)
    message = other.put("x")
    assert other.ack(other.get_message(block=False), result=1)
    assert queue.status(message.id) is None
    assert other.result(message.id) == 1
    assert queue.result(message) == 1  # the message says where it is


def test_a_result_that_is_waited_for_too_long_is_a_timeout(queue: PersistentQueue[Any]) -> None:
    message = queue.put("x")
    with pytest.raises(ResultTimeout, match=r"not done within 0\.01 seconds") as caught:
        queue.result(message, timeout=0.01)
    assert isinstance(caught.value, TimeoutError)
    with pytest.raises(ResultTimeout):
        queue.result(message, timeout=0)


def test_a_message_that_expired_has_no_result(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    message = queue.put("x", ttl=5)
    clock.advance(6)
    assert state_of(queue, message) == "expired"  # nobody has looked for work since
    assert queue.empty()
    with pytest.raises(JobExpired, match=message.id):
        queue.result(message)


def test_a_release_after_the_last_attempt_is_a_failure(store: QueueStore) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, max_attempts=1, keep_results=A_DAY)
    message = queue.put("x")
    queue.release(queue.get_message(block=False))
    assert store.record("outcome", message.id) is not None
    with pytest.raises(JobFailed, match="AttemptsExhausted"):
        queue.result(message)


def test_a_message_that_the_store_buried_has_failed(store: QueueStore, clock: FakeClock) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, max_attempts=1, lease_timeout=10, keep_results=A_DAY)
    message = queue.put("x")
    queue.get_message(block=False)
    clock.advance(11)
    assert store.lease(queue.desk.request) == []
    with pytest.raises(JobFailed, match="its lease expired"):
        queue.result(message)


def test_a_payload_that_can_not_be_read_is_a_failure(store: QueueStore, queue: PersistentQueue[Any]) -> None:
    message_id, _ = store.put_one("jobs", "no JSON", None)
    with pytest.raises(Empty):
        queue.get_message(block=False)
    assert store.record("outcome", message_id) is not None
    with pytest.raises(JobFailed, match="PayloadError"):
        queue.result(message_id)


@pytest.mark.parametrize("codec", [MsgpackCodec(), PickleCodec(trusted=True), BytesCodec()], ids=lambda c: c.name)
def test_a_result_is_encoded_by_the_codec_of_the_queue(store: QueueStore, codec: Any) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, codec=codec, keep_results=A_DAY)
    results: list[Any] = [b"\x00\n\xff", None]
    messages = queue.put_many([b"a", b"b"])
    for result in results:
        assert queue.ack(queue.get_message(block=False), result=result)
    assert [queue.result(message) for message in messages] == results
    plain = PersistentQueue[Any]("jobs", store=store)
    status = plain.status(messages[0].id)
    assert status is not None
    assert isinstance(status.result, UndecodablePayload)
    with pytest.raises(PayloadError, match=f"the result of message {messages[0].id} was written with codec"):
        plain.result(messages[0].id)


def test_a_result_that_can_not_be_kept_leaves_the_message_leased(queue: PersistentQueue[Any]) -> None:
    message = queue.put("x")
    with pytest.raises(PayloadError, match="the result can not be kept"):
        queue.ack(queue.get_message(block=False), result={1, 2})
    assert state_of(queue, message) == "running"


def test_a_batch_wants_one_result_for_each_message(queue: PersistentQueue[Any]) -> None:
    queue.put("x")
    with pytest.raises(ValueError, match="2 values for 1 messages"):
        queue.ack_many([queue.get_message(block=False)], results=[1, 2])


def test_an_operator_can_ack_with_a_result(queue: PersistentQueue[Any]) -> None:
    message = queue.put("x")
    assert queue.ack(message.id, result="by hand")
    assert queue.result(message) == "by hand"
    assert queue.ack(message.id, result="again") is False


def test_task_done_is_a_success_without_a_result(queue: PersistentQueue[Any]) -> None:
    message = queue.put("x")
    queue.get(block=False)
    assert queue.task_done()
    assert (state_of(queue, message), queue.result(message)) == ("succeeded", None)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_results_are_kept_for_a_finite_time(seconds: float) -> None:
    with pytest.raises(ValueError, match="keep_results"):
        PersistentQueue("jobs", keep_results=seconds)


def test_what_is_delivered_at_most_once_has_no_results() -> None:
    with pytest.raises(IncompatiblePolicies, match="at most once"):
        PersistentQueue("jobs", delivery_policy=AtMostOnceDelivery(), keep_results=1)
    with pytest.raises(TypeError, match="keep_results"):
        PersistentQueue("jobs", keep_results="long")  # type: ignore[arg-type]


def test_looking_makes_no_store(tmp_path: Path) -> None:
    queue = PersistentQueue[Any]("jobs", store_path=tmp_path / "none.sqlite3", keep_results=A_DAY)
    assert queue.status("01") is None
    with pytest.raises(ResultMissing):
        queue.result("01")
    assert list(tmp_path.iterdir()) == []
    queue.close()


def test_outcomes_are_forgotten_while_others_are_written(store: QueueStore, clock: FakeClock) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, keep_results=60)
    counts = []
    for _ in range(12):
        for _ in range(4):
            queue.put_many(range(50))
            queue.ack_many(queue.get_messages(50, block=False), results=range(50))
        counts.append(len(store.records("outcome")))
        clock.advance(61)
    assert max(counts) <= 200 + retention.PAGE, counts
    for _ in range(4):
        queue.desk.retention.forget_some()
    assert store.records("outcome") == []


def test_large_results_are_forgotten_too(store: QueueStore, clock: FakeClock) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, keep_results=60)
    queue.put_many(range(60))
    queue.ack_many(queue.get_messages(60, block=False), results=["x" * 2**18] * 60)
    queue.desk.retention.forget_some()
    assert len(store.records("outcome")) == 60
    clock.advance(61)
    queue.desk.retention.forget_some()
    assert store.records("outcome") == []


def test_a_batch_forgets_as_much_as_it_writes(store: QueueStore, clock: FakeClock) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, keep_results=60)
    for _ in range(3):
        queue.put_many(range(1000))
        queue.ack_many(queue.get_messages(1000, block=False))
        clock.advance(61)
    assert len(store.records("outcome")) <= 1000 + retention.PAGE


def test_progress_that_nobody_deleted_is_forgotten_when_its_message_does_not_run(
    store: QueueStore, queue: PersistentQueue[Any], clock: FakeClock
) -> None:
    queue.put_many(["runs", "is gone", "was released"])
    running, gone, released = queue.get_messages(3, block=False)
    told = progress.Told()
    told.fraction = 0.5
    queue.desk.commit(Changes(records=[progress.written(one, told) for one in (running, gone, released)]))
    queue.ack(gone)
    queue.release(released)
    clock.advance(5)
    queue.desk.retention.forget_some()
    assert len(store.records("progress")) == 3  # a worker may have written just now what it settles next
    clock.advance(3600)
    queue.desk.retention.forget_some()
    assert [record.key for record in store.records("progress")] == [running.id]


@pytest.mark.parametrize("value", [b"no JSON", b"[2]", b'[2,1.0,"jobs","succeeded",1,0,0,null,null,false]', b"7", b""])
def test_an_outcome_of_another_release_is_left_alone(
    queue: PersistentQueue[Any], clock: FakeClock, value: bytes
) -> None:
    store = queue.store
    (message_id,) = store.mint()
    old = [JobOutcome(60.0, "jobs", "succeeded", 1, None, None).write(one) for one in store.mint(2)]
    others = [RecordWrite("outcome", message_id, value), RecordWrite("progress", message_id, value)]
    store.commit(Changes(records=[*others, *old]))
    clock.advance(7200)
    queue.desk.retention.forget_some()
    assert [record.key for record in store.records("outcome")] == [message_id]
    assert len(store.records("progress")) == 1
    with pytest.raises(PayloadError, match=f"the outcome of message {message_id}"):
        queue.status(message_id)


@pytest.mark.parametrize(
    "error",
    [
        JobFailed("jobs", "1", {"type": "KeyError", "message": "'x'", "traceback": "Traceback:\n  here"}),
        JobCancelled("jobs", "1"),
        JobExpired("jobs", "1"),
        ResultTimeout("jobs", "1", 2.0),
        ResultMissing("nothing is known"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_a_job_survives_a_process_border(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_failure_shows_where_the_handler_failed() -> None:
    error = JobFailed("jobs", "7", {"type": "KeyError", "message": "'x'", "traceback": "Traceback:\n  here"})
    assert str(error) == "message 7 of queue 'jobs' failed: KeyError: 'x'\n\nTraceback:\n  here"
    assert error.traceback == "Traceback:\n  here"
    assert str(JobFailed("jobs", "7")) == "message 7 of queue 'jobs' failed: no error was given"


@pytest.mark.parametrize("codec", [None, "msgpack"])
@pytest.mark.parametrize("result", [None, "[1]", '"\ud800é"', b"\x00\n"])
@pytest.mark.parametrize("keep", [60, 0.25])
def test_the_outcome_of_a_plain_success_is_written_as_any_other(
    keep: float, result: str | bytes | None, codec: str | None
) -> None:
    message = QueueMessage("0" * 32, None, 'a "queue"', attempts=1, created_at=1794913420.5875)
    for started in (None, 1794913420.588375):
        outcome = JobOutcome(
            keep=keep,
            queue=message.queue,
            state="succeeded",
            attempts=1,
            created_at=message.created_at,
            started_at=started,
            codec=codec,
            result=result,
        )

        assert success_writer(keep, message.queue, codec)(message, started, result) == outcome.write(message.id)
