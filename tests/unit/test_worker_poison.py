"""A message whose handler raises whatever it likes fails by itself: the worker goes on with the others."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tenacity import retry_if_exception, retry_if_exception_type

from localqueue import MemoryQueueStore, PersistentQueue
from tests.unit.worker_ways import WAYS, in_tasks, in_threads, in_threads_of_a_loop


@pytest.fixture
def queue() -> Iterator[PersistentQueue[Any]]:
    with MemoryQueueStore() as store:
        yield PersistentQueue("jobs", store=store)


@pytest.fixture(params=WAYS)
def work(request: pytest.FixtureRequest) -> Callable[..., None]:
    return WAYS[request.param]


class Odd(BaseException):
    """Neither an `Exception` nor a wish to end the process."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__

    def __reduce__(self) -> Any:
        raise TypeError("no pickle")


class Endless(Exception):
    def __str__(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return repr(self)


class Unreadable(Exception):
    @property
    def exit_code(self) -> int:
        raise ValueError("no exit code")

    command = stdout = stderr = exit_code


def recurse(value: Any = None) -> Any:
    return recurse(value)


def deep(error: BaseException) -> Callable[[], None]:
    """Raise it from under as many frames as Python allows, nearly."""

    def sink(left: int) -> None:
        if not left:
            raise error
        sink(left - 1)

    return lambda: sink(500)


POISON: dict[str, Any] = {
    "CancelledError of asyncio": asyncio.CancelledError("no"),
    "CancelledError of futures": concurrent.futures.CancelledError(),
    "GeneratorExit": GeneratorExit("no"),
    "BaseException": Odd("no"),
    "StopIteration": StopIteration("no"),
    "StopAsyncIteration": StopAsyncIteration("no"),
    "a group with base exceptions": BaseExceptionGroup("several", [GeneratorExit(), ValueError("no")]),
    "a group with an exit": BaseExceptionGroup("several", [SystemExit(1), ValueError("no")]),
    "an error that can not be printed": Unprintable(),
    "an error whose text never ends": Endless(),
    "an error whose attributes raise": Unreadable("no"),
    "RecursionError": recurse,
    "MemoryError": MemoryError("no"),
    "an error from deep below": deep(GeneratorExit("no")),
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON.keys())
def test_whatever_a_handler_raises_is_a_failed_attempt_of_its_message(
    queue: PersistentQueue[Any], work: Callable[..., None], poison: Any
) -> None:
    queue.put_many(["poison", "a", "b", "c", "d"])
    tries: list[str] = []
    done: list[str] = []

    def handler(value: str) -> None:
        if value == "poison":
            tries.append(value)
            if callable(poison) and not isinstance(poison, BaseException):
                poison()
            raise poison
        done.append(value)

    work(queue, handler, max_tries=2, wait=None)
    assert (sorted(done), len(tries)) == (["a", "b", "c", "d"], 2)
    assert (queue.stats().dead, queue.stats().total) == (1, 1)
    (dead,) = queue.dead_letters()
    assert dead.last_error is not None
    assert dead.last_error["type"] in (type(poison).__name__, "RecursionError", "GeneratorExit", "RuntimeError")


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError(), SystemExit(1)], ids=repr)
def test_a_strategy_of_ones_own_sees_what_the_handler_raised(
    queue: PersistentQueue[Any], work: Callable[..., None], error: BaseException
) -> None:
    queue.put("x")
    tries: list[str] = []

    def handler(value: str) -> None:
        tries.append(value)
        raise error

    work(queue, handler, max_tries=3, wait=None, retry=retry_if_exception_type(type(error)))
    assert (len(tries), queue.stats().dead) == (3, 1)


def test_a_handler_that_exits_is_not_tried_again(queue: PersistentQueue[Any], work: Callable[..., None]) -> None:
    queue.put_many(["poison", "a"])
    seen: list[str] = []

    def handler(value: str) -> None:
        seen.append(value)
        if value == "poison":
            raise SystemExit(3)

    work(queue, handler, max_tries=5, wait=None)
    assert sorted(seen) == ["a", "poison"]
    (dead,) = queue.dead_letters()
    assert dead.last_error is not None and dead.last_error["type"] == "SystemExit"


@pytest.mark.parametrize("way", [in_threads, in_tasks, in_threads_of_a_loop])
def test_a_strategy_that_fails_gives_the_message_up(queue: PersistentQueue[Any], way: Callable[..., None]) -> None:
    queue.put_many(["poison", "a"])

    def handler(value: str) -> None:
        if value == "poison":
            raise ValueError("no status here")

    way(queue, handler, wait=None, retry=retry_if_exception(lambda error: error.status >= 500))  # type: ignore[attr-defined]
    (dead,) = queue.dead_letters()
    assert dead.last_error is not None and dead.last_error["message"] == "no status here"
    assert queue.stats().total == 1
