"""`drain`: everything that is ready is handled, in the calling thread, as a worker would."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue, current_job
from localqueue.aio import AsyncQueue
from localqueue.testing import assert_enqueued, drain, drain_async, memory_store


@pytest.fixture
def queue() -> Iterator[PersistentQueue[Any]]:
    with memory_store(), PersistentQueue[Any]("jobs") as queue:
        yield queue


def fail(value: Any) -> None:
    raise LookupError(value)


def test_every_ready_message_is_handled_and_what_became_of_it_is_returned(queue: PersistentQueue[Any]) -> None:
    queue.put_many([1, 2, 3])
    settled = drain(queue, lambda value: value * 10)

    assert [(one.message.value, one.state, one.result) for one in settled] == [
        (1, "acked", 10),
        (2, "acked", 20),
        (3, "acked", 30),
    ]
    assert queue.stats().total == 0


def test_an_empty_queue_is_drained_at_once(queue: PersistentQueue[Any]) -> None:
    assert drain(queue, fail) == []


def test_a_queue_of_the_process_can_be_named(queue: PersistentQueue[Any]) -> None:
    queue.put(1)

    assert [one.message.value for one in drain("jobs", lambda value: None)] == [1]


def test_handlers_run_in_the_calling_thread_and_know_their_job(queue: PersistentQueue[Any]) -> None:
    queue.put(1)
    seen: list[Any] = []
    drain(queue, lambda value: seen.append((threading.current_thread(), current_job().message.value)))

    assert seen == [(threading.current_thread(), 1)]


def test_what_a_handler_puts_is_handled_too(queue: PersistentQueue[Any]) -> None:
    def count_down(value: int) -> None:
        if value:
            current_job().put(value - 1)

    queue.put(3)

    assert [one.message.value for one in drain(queue, count_down)] == [3, 2, 1, 0]


def test_a_failure_is_settled_as_a_worker_does_it_and_told(queue: PersistentQueue[Any]) -> None:
    queue.put("bad")
    (settled,) = drain(queue, fail, max_tries=1)

    assert settled.state == "dead-lettered"
    assert isinstance(settled.error, LookupError)
    assert [message.value for message in queue.dead_letters()] == ["bad"]


def test_the_first_failure_is_raised_when_asked_for_and_the_rest_is_left(queue: PersistentQueue[Any]) -> None:
    queue.put_many(["bad", "next"])
    with pytest.raises(LookupError, match="bad"):
        drain(queue, fail, raising=True, max_tries=1)

    (left,) = queue.messages(state="ready")
    assert (left.value, left.tries) == ("next", 0), "it was not started"


def test_an_assertion_in_a_handler_fails_the_test(queue: PersistentQueue[Any]) -> None:
    def check(value: Any) -> None:
        assert value == "good"

    queue.put("bad")
    with pytest.raises(AssertionError, match="good"):
        drain(queue, check, raising=True)


def test_what_is_delayed_is_left_unless_it_is_wanted(queue: PersistentQueue[Any]) -> None:
    queue.put("later", delay=3600)
    queue.put("much later", delay=86400)

    assert drain(queue, lambda value: None) == []
    settled = drain(queue, lambda value: None, with_delayed=True)
    assert [one.message.value for one in settled] == ["later", "much later"]


def test_retries_are_made_without_waiting_when_delayed_messages_are_wanted(queue: PersistentQueue[Any]) -> None:
    queue.put("bad")
    settled = drain(queue, fail, with_delayed=True, max_tries=3)

    assert [one.state for one in settled] == ["released", "released", "dead-lettered"]


def test_a_clock_that_can_not_be_moved_is_named() -> None:
    with (
        MemoryQueueStore() as store,
        PersistentQueue[Any]("jobs", store=store) as queue,
        pytest.raises(
            ValueError, match=r"the clock of MemoryQueueStore.* can not be moved; open the store with clock="
        ),
    ):
        drain(queue, fail, with_delayed=True)


def test_a_drain_without_end_is_an_error(queue: PersistentQueue[Any]) -> None:
    queue.put(0)
    with pytest.raises(AssertionError, match="queue 'jobs' is not drained after 5 messages"):
        drain(queue, lambda value: current_job().put(value + 1), most=5)


def test_a_drain_of_as_many_messages_as_are_allowed_is_none(queue: PersistentQueue[Any]) -> None:
    queue.put_many(range(5))

    assert len(drain(queue, lambda value: None, most=5)) == 5


def test_a_paused_queue_is_left_as_it_is(queue: PersistentQueue[Any]) -> None:
    queue.put(1)
    queue.put(2, delay=60)
    queue.pause()

    assert drain(queue, fail, with_delayed=True) == []


def test_a_coroutine_function_is_a_handler_too(queue: PersistentQueue[Any]) -> None:
    async def double(value: int) -> int:
        await asyncio.sleep(0)
        return current_job().message.value * 2

    queue.put(4)

    assert [one.result for one in drain(queue, double)] == [8]


@pytest.mark.parametrize("option", [{"concurrency": 2}, {"executor": "processes"}, {"timeout": 1}])
def test_what_the_calling_thread_can_not_do_is_refused(queue: PersistentQueue[Any], option: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"in the calling thread, so {next(iter(option))}= can not be kept"):
        drain(queue, fail, **option)


def test_an_interrupt_ends_the_drain(queue: PersistentQueue[Any]) -> None:
    def interrupt(value: Any) -> None:
        raise KeyboardInterrupt

    queue.put(1)
    with pytest.raises(KeyboardInterrupt):
        drain(queue, interrupt)


def test_what_is_no_queue_is_refused() -> None:
    with pytest.raises(TypeError, match="pass a queue, the name of one, or a task, not 7"):
        drain(7, fail)  # type: ignore[arg-type]


def test_the_asyncio_face_of_a_queue_stands_for_it(queue: PersistentQueue[Any]) -> None:
    face = AsyncQueue[Any](queue)
    queue.put(1)

    assert_enqueued(face, 1)
    assert [one.message.value for one in drain(face, lambda value: None)] == [1]


def test_on_an_event_loop_handlers_are_its_tasks(queue: PersistentQueue[Any]) -> None:
    loops: list[Any] = []

    async def handle(value: Any) -> None:
        loops.append(asyncio.get_running_loop())
        if value == "bad":
            raise LookupError(value)

    async def run() -> None:
        queue.put("good")
        queue.put("bad", delay=60)
        settled = await drain_async(queue, handle, with_delayed=True, max_tries=2)
        assert [one.state for one in settled] == ["acked", "released", "dead-lettered"]
        assert set(loops) == {asyncio.get_running_loop()}
        queue.put("bad")
        with pytest.raises(LookupError):
            await drain_async(queue, handle, raising=True)

    asyncio.run(run())
