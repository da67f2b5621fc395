"""What a test names when it means messages: a queue, its name in the store of the process, or a task."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from localqueue.queue import PersistentQueue

if TYPE_CHECKING:
    from localqueue.aio import AsyncQueue
    from localqueue.message import QueueMessage
    from localqueue.tasks import Task, Tasks

    AnyQueue: TypeAlias = PersistentQueue[Any] | AsyncQueue[Any] | str
    AnyTask: TypeAlias = Task[..., Any, Any]


@contextmanager
def queue_of(target: object) -> Iterator[PersistentQueue[Any]]:
    """The queue that is meant."""
    inner: Any = getattr(target, "queue", target)  # that of an AsyncQueue
    if isinstance(target, str):
        with PersistentQueue[Any](target) as queue:
            yield queue
    elif is_task(target):
        yield target.tasks.queue(target.queue)
    elif isinstance(inner, PersistentQueue):
        yield inner
    else:
        raise TypeError(f"pass a queue, the name of one, or a task, not {target!r}")


def is_tasks(target: object) -> TypeGuard[Tasks]:
    return _is_a(target, "Tasks")


def is_task(target: object) -> TypeGuard[AnyTask]:
    return _is_a(target, "Task")


def is_call_of(task: AnyTask, message: QueueMessage[Any]) -> bool:
    """Whether a message asks for this task."""
    value = message.value
    return isinstance(value, dict) and value.get("task") in (task.name, *task.aliases)


def arguments_of(task: AnyTask, message: QueueMessage[Any]) -> Any:
    """The arguments of a call by parameter, as the task will get them; as they are written, if it would refuse them."""
    from localqueue.tasks import SignatureChanged

    written = message.value.get("args")
    try:
        args, kwargs = task.signature.read(written)
    except SignatureChanged:
        return written
    bound = inspect.signature(task.function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _is_a(target: object, name: str) -> bool:
    """Who has made such an object has loaded its class; nobody else has to."""
    tasks = sys.modules.get("localqueue.tasks")
    return tasks is not None and isinstance(target, getattr(tasks, name))
