"""What a worker refuses, and what it says then."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
from tenacity import stop_after_attempt

from localqueue import MemoryQueueStore, PersistentQueue, PersistentWorkerConfig
from localqueue.workers import AsyncWorker, Worker

BOTH = pytest.mark.parametrize("kind", [Worker, AsyncWorker])


@pytest.fixture
def queue() -> Iterator[PersistentQueue[Any]]:
    with MemoryQueueStore() as store:
        yield PersistentQueue("jobs", store=store)


def handler(value: Any) -> None: ...


async def coroutine_function(value: Any) -> None: ...


async def answer_later(state: Any) -> float:
    return 0.1


class AsyncCallable:
    async def __call__(self, value: Any) -> None: ...


@BOTH
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"concurrency": 0}, ValueError, "concurrency must be at least 1, not 0"),
        ({"concurrency": 1.5}, TypeError, "concurrency"),
        ({"concurrency": True}, TypeError, "concurrency"),
        ({"prefetch": 0}, ValueError, "prefetch must be at least 1, not 0"),
        ({"prefetch": "3"}, TypeError, "prefetch"),
        ({"timeout": 0}, ValueError, "timeout must be greater than zero, not 0"),
        ({"timeout": -1}, ValueError, "timeout must be greater than zero, not -1"),
        ({"timeout": "soon"}, TypeError, "timeout"),
        ({"timeout": float("nan")}, ValueError, "timeout"),
        ({"shutdown_timeout": 0}, ValueError, "shutdown_timeout must be greater than zero"),
        ({"worker_id": ""}, ValueError, "worker_id cannot be empty"),
        ({"max_tries": 0}, ValueError, "max_tries"),
        ({"max_tries": 3, "stop": stop_after_attempt(2)}, ValueError, "either max_tries= or stop="),
        ({"min_interval": -1}, ValueError, "min_interval"),
        ({"release_delay": -1}, ValueError, "release_delay"),
        ({"circuit_breaker_failures": 3}, ValueError, "circuit_breaker_cooldown > 0"),
        ({"circuit_breaker_cooldown": 3}, ValueError, "circuit_breaker_failures > 0"),
        ({"before_sleep": print}, ValueError, "not before_sleep; use persistent_worker"),
        ({"sleep": print, "after": print}, ValueError, "not after, sleep"),
        ({"config": PersistentWorkerConfig(reraise=True)}, ValueError, "not reraise"),
        ({"max_trys": 2}, TypeError, "unexpected keyword argument 'max_trys'; did you mean 'max_tries'?"),
        ({"concurency": 2}, TypeError, "unexpected keyword argument 'concurency'; did you mean 'concurrency'?"),
        ({"wait": "soon"}, TypeError, "wait must be a number of seconds, such as 0.5, or a Tenacity .* not 'soon'"),
        ({"retry": "OSError"}, TypeError, "retry must be an exception class, .* not 'OSError'"),
        ({"stop": 3}, TypeError, "stop must be a Tenacity strategy .* max_tries=3, not 3"),
        ({"wait": answer_later}, TypeError, "is a coroutine function, which only persistent_async_worker"),
    ],
)
def test_a_setting_nobody_could_follow_is_refused(
    queue: PersistentQueue[Any], kind: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        kind(queue, handler, **options)


@BOTH
def test_a_handler_must_be_callable(queue: PersistentQueue[Any], kind: Any) -> None:
    with pytest.raises(TypeError, match="must be callable, not 'module:function'"):
        kind(queue, "module:function")


@BOTH
def test_a_queue_must_be_a_queue(kind: Any) -> None:
    with pytest.raises(TypeError, match="a worker needs a PersistentQueue, not 'jobs'"):
        kind("jobs", handler)


@pytest.mark.parametrize(
    "function",
    [coroutine_function, AsyncCallable(), functools.partial(coroutine_function)],
    ids=["function", "callable", "partial"],
)
def test_coroutine_functions_belong_into_an_async_worker(queue: PersistentQueue[Any], function: Any) -> None:
    with pytest.raises(TypeError, match="use AsyncWorker"):
        Worker(queue, function)
    AsyncWorker(queue, function)


def test_an_executor_is_threads_or_processes(queue: PersistentQueue[Any]) -> None:
    with pytest.raises(ValueError, match="executor must be 'threads' or 'processes', not 'asyncio'; asyncio has Async"):
        Worker(queue, handler, executor="asyncio")  # type: ignore[arg-type]


def test_processes_can_not_share_a_queue_in_memory(queue: PersistentQueue[Any]) -> None:
    with pytest.raises(ValueError, match="in the memory of this process"):
        Worker(queue, handler, executor="processes").run_until_empty()
