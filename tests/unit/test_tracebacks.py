"""A failed attempt keeps where it was raised: enough to find the line, never a variable or a password."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from localqueue import (
    AsyncWorker,
    MemoryQueueStore,
    PersistentQueue,
    Worker,
    persistent_async_worker,
    persistent_worker,
)
from localqueue.stores.kept_error import TRACEBACK_LIMIT, describe_error

Run = Callable[[PersistentQueue[Any], Callable[[Any], Any]], None]


@pytest.fixture
def queue() -> Iterator[PersistentQueue[Any]]:
    with MemoryQueueStore() as store:
        yield PersistentQueue("jobs", store=store)


def in_threads(queue: PersistentQueue[Any], handler: Callable[[Any], Any]) -> None:
    Worker(queue, handler, max_tries=1).run_until_empty()


def on_a_loop(queue: PersistentQueue[Any], handler: Callable[[Any], Any]) -> None:
    async def handle(value: Any) -> Any:
        return handler(value)

    asyncio.run(AsyncWorker(queue, handle, max_tries=1).run_until_empty())


def in_a_thread_of_a_loop(queue: PersistentQueue[Any], handler: Callable[[Any], Any]) -> None:
    asyncio.run(AsyncWorker(queue, handler, max_tries=1).run_until_empty())


def inside_the_lease(queue: PersistentQueue[Any], handler: Callable[[Any], Any]) -> None:
    with pytest.raises(BaseException):  # noqa: B017
        persistent_worker(queue, max_tries=1)(handler)()


def inside_the_lease_on_a_loop(queue: PersistentQueue[Any], handler: Callable[[Any], Any]) -> None:
    @persistent_async_worker(queue, max_tries=1)
    async def handle(value: Any) -> Any:
        return handler(value)

    async def once() -> None:
        await handle()

    with pytest.raises(BaseException):  # noqa: B017
        asyncio.run(once())


WAYS = [in_threads, on_a_loop, in_a_thread_of_a_loop, inside_the_lease, inside_the_lease_on_a_loop]


def traceback_of(queue: PersistentQueue[Any], handler: Callable[[Any], Any], run: Run = in_threads) -> str:
    queue.put("job")
    run(queue, handler)
    (dead,) = queue.dead_letters()
    assert dead.last_error is not None
    assert dead.attempt_history[-1]["last_error"] == dead.last_error
    return str(dead.last_error["traceback"])


def find(value: Any) -> None:
    secret_of_the_frame = "visible nowhere"
    {"keys": secret_of_the_frame}[value]


def fail(value: Any) -> None:
    try:
        find(value)
    except KeyError as error:
        raise ValueError("no such job") from error


@pytest.mark.parametrize("run", WAYS, ids=lambda run: run.__name__)
def test_a_traceback_names_the_frames_of_the_handler_and_its_causes(queue: PersistentQueue[Any], run: Run) -> None:
    text = traceback_of(queue, fail, run)
    lines = text.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith(", in fail") and __file__ in lines[1]
    assert "    find(value)" in lines[2]
    assert "KeyError: 'job'" in lines
    assert "The above exception was the direct cause of the following exception:" in lines
    assert lines[-2:] == ['    raise ValueError("no such job") from error', "ValueError: no such job"]


@pytest.mark.parametrize("run", WAYS, ids=lambda run: run.__name__)
def test_no_frame_of_ours_and_no_variable_is_shown(queue: PersistentQueue[Any], run: Run) -> None:
    text = traceback_of(queue, fail, run)
    assert "visible nowhere" not in text
    frames = [line for line in text.splitlines() if line.startswith("  File ")]
    assert frames and all(__file__ in frame for frame in frames)


@pytest.mark.parametrize("run", WAYS, ids=lambda run: run.__name__)
def test_the_log_has_the_traceback(queue: PersistentQueue[Any], run: Run, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "localqueue.workers"):
        text = traceback_of(queue, fail, run)
    (record,) = [one for one in caplog.records if "dead-lettered" in one.getMessage()]
    assert record.getMessage().endswith(f"ValueError('no such job')\n{text}")
    assert record.exc_info is None


def test_a_deep_recursion_keeps_its_beginning_and_its_end(queue: PersistentQueue[Any]) -> None:
    def descend(value: Any) -> Any:
        return turn(value)

    def turn(value: Any) -> Any:
        return descend(value)

    text = traceback_of(queue, descend)
    assert "frames left out]" in text
    assert "in descend" in text.splitlines()[1]
    assert text.splitlines()[-1].startswith("RecursionError: ")
    assert len(text) < TRACEBACK_LIMIT + 60


def test_a_long_traceback_is_cut_in_its_middle(queue: PersistentQueue[Any]) -> None:
    def shout(value: Any) -> None:
        raise ValueError("é" * 50_000)

    text = traceback_of(queue, shout)
    assert len(text) < TRACEBACK_LIMIT + 60
    assert text.startswith("Traceback") and "characters left out" in text and text.endswith("é")


def test_what_can_not_be_printed_is_survived(queue: PersistentQueue[Any]) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise SystemExit("never")

        __repr__ = __str__

    def fail_oddly(value: Any) -> None:
        raise ExceptionGroup("both", [Odd(), ValueError("plain")]) from Odd()

    text = traceback_of(queue, fail_oddly)
    assert "Odd: <exception str() failed>" in text and "ValueError: plain" in text


def test_causes_that_go_in_a_circle_are_told_once(queue: PersistentQueue[Any]) -> None:
    def circle(value: Any) -> None:
        first, second = KeyError("first"), KeyError("second")
        first.__cause__, second.__cause__ = second, first
        raise first

    text = traceback_of(queue, circle)
    assert (text.count("KeyError: 'first'"), text.count("KeyError: 'second'")) == (1, 1)


def test_passwords_of_addresses_are_hidden(queue: PersistentQueue[Any], caplog: pytest.LogCaptureFixture) -> None:
    def connect(value: Any) -> None:
        raise ConnectionError("postgresql://me:hunter22@db/jobs", "host=db password=hunter22 user=me")

    text = traceback_of(queue, connect)
    assert "postgresql://me@db/jobs" in text and "host=db password=*** user=me" in text
    assert "hunter22" not in text + caplog.text


@pytest.mark.parametrize("error", [ValueError("never raised"), "a text", {"type": "X", "message": "a mapping"}])
def test_what_was_not_raised_has_no_traceback(error: object) -> None:
    described = describe_error(error)
    assert described is not None and "traceback" not in described


def test_an_error_of_ours_alone_has_no_traceback(queue: PersistentQueue[Any]) -> None:
    queue.put("no number")
    Worker(queue, int, max_tries=1).run_until_empty()
    (dead,) = queue.dead_letters()
    assert dead.last_error is not None and dead.last_error.keys() == {"type", "module", "message"}


def test_an_error_that_a_consumer_passes_has_its_traceback(queue: PersistentQueue[Any]) -> None:
    queue.put("job")
    message = queue.get_message()
    try:
        fail(message.value)
    except ValueError as error:
        queue.dead_letter(message, error=error)
    (dead,) = queue.dead_letters()
    assert dead.last_error is not None and dead.last_error["traceback"].endswith("ValueError: no such job")
    assert len(json.dumps(dead.last_error)) < 4096
