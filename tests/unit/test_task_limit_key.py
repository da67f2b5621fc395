"""The key of a task's limits: called with the arguments of each job, by name or in their order."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from localqueue import MemoryQueueStore, Tasks
from localqueue.tasks import TaskError
from localqueue.tasks.limit_key import LimitKey


@pytest.fixture
def tasks() -> Iterator[Tasks]:
    with MemoryQueueStore() as store, Tasks(store) as tasks:
        yield tasks


def send(user: str, size: int = 3, *, urgent: bool = False) -> None: ...


def gather(first: str, /, *rest: str, **more: str) -> None: ...


def key_of(function: Callable[..., Any], key: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    return LimitKey("send", key, inspect.signature(function)).of(args, kwargs)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (lambda user, **_: user, "ann"),
        (lambda *, size, **_: size, "3"),
        (lambda urgent, size, user: f"{user} {size} {urgent}", "ann 3 False"),
        (lambda who, how_large, **_: f"{who} {how_large}", "ann 3"),
        (lambda *args, **_: args[0] if args else "by name", "by name"),
    ],
)
def test_a_key_gets_the_arguments_by_name_or_in_their_order_and_the_defaults(
    key: Callable[..., Any], expected: str
) -> None:
    assert key_of(send, key, "ann") == expected


def test_a_key_gets_what_a_task_takes_without_a_name() -> None:
    assert (
        key_of(gather, lambda first, rest, **more: f"{first} {rest} {more}", "a", "b", c="d") == "a ('b',) {'c': 'd'}"
    )
    assert key_of(gather, lambda one, *others, **_: f"{one} {others}", "a", "b", c="d") == "a ('b',)"


def test_a_key_may_be_a_function_that_tells_nothing_of_its_parameters(tasks: Tasks) -> None:
    @tasks.task(concurrency=1, key=max)
    def compare(one: int, two: int) -> None: ...

    assert compare.limited(compare.value_of({"one": 3, "two": 7})) == (compare.limit_name, compare.limits, "7")


def test_a_key_that_no_job_could_be_told_by_is_refused_where_it_is_written(tasks: Tasks) -> None:
    with pytest.raises(
        TaskError, match=r"key of task 'send' .* user, size, urgent, .* takes \(user\).*lambda user, \*\*_"
    ):
        tasks.task(rate="1/s", key=lambda user: user)(send)
    assert not tasks.tasks


def test_a_key_that_raises_fails_the_job_and_is_named(tasks: Tasks) -> None:
    @tasks.task(concurrency=1, retries=0, key=lambda user, **_: {}[user])
    def note(user: str) -> None: ...

    job = note.enqueue("ann")

    assert tasks.worker().run_until_empty().dead_lettered == 1
    status = job.status()
    assert status is not None and status.error is not None
    assert status.error["type"] == "KeyError" and "key= of task 'note'" in status.error["traceback"]


def test_each_key_has_limits_of_its_own(tasks: Tasks) -> None:
    begun: list[str] = []

    @tasks.task(rate="1/h", key=lambda user, **_: user)
    def note(user: str, size: int = 0) -> None:
        begun.append(user)

    note.many([("ann", 1), ("ann", 2), ("ben", 1)])
    tasks.worker().run_until_empty()

    assert sorted(begun) == ["ann", "ben"]
