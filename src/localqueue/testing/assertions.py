"""What is in a queue, asserted: a failure shows what is there, and in what each message differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from localqueue.message import QueueMessage
from localqueue.stores.port import CANCELLED, DEAD, EXPIRED
from localqueue.testing.match import differences
from localqueue.testing.target import arguments_of, is_call_of, is_task, queue_of

if TYPE_CHECKING:
    from localqueue.testing.target import AnyQueue, AnyTask

_GONE = (DEAD, EXPIRED, CANCELLED)
_SHOWN = 20


def assert_enqueued(
    target: AnyQueue | AnyTask,
    value: Any = ...,
    *,
    count: int | None = None,
    headers: Mapping[str, Any] | None = None,
    delay: Any = None,
    priority: Any = None,
    dedupe_key: Any = None,
    ordering_key: Any = None,
    run_id: Any = None,
) -> list[QueueMessage[Any]]:
    """Assert that a message like this is in the queue, or exactly `count` of them, and return those that are.

    Of a task, `value` is a dict of its arguments by parameter, as the task will get them. Every message counts that can
    still be delivered, one that is being handled included. A dict, as the value or inside of it, is matched by the keys
    it has; so are `headers`. A function in any place is asked whether it accepts what is there, and what is left out
    may be anything. `delay` is in seconds from when the message was put.
    """
    __tracebackhide__ = True
    task = target if is_task(target) else None
    expected = _Expected(task, value, headers, delay, priority, dedupe_key, ordering_key, run_id)
    with queue_of(target) as queue:
        there = [message for message in queue.messages() if message.state not in _GONE and expected.is_for(message)]
        place = f"queue {queue.name!r}" if task is None else f"task {task.name!r}"
    found = [message for message in there if not expected.differences(message)]
    if not found if count is None else len(found) != count:
        but = "" if count is None else f", not {count}"
        raise AssertionError(f"{expected.told_of(len(found))}{but}\n{expected.listed(place, there)}")
    return found


def assert_not_enqueued(
    target: AnyQueue | AnyTask,
    value: Any = ...,
    *,
    headers: Mapping[str, Any] | None = None,
    delay: Any = None,
    priority: Any = None,
    dedupe_key: Any = None,
    ordering_key: Any = None,
    run_id: Any = None,
) -> None:
    """Assert that no message like this is in the queue; see `assert_enqueued` for what is like it."""
    __tracebackhide__ = True
    assert_enqueued(
        target,
        value,
        count=0,
        headers=headers,
        delay=delay,
        priority=priority,
        dedupe_key=dedupe_key,
        ordering_key=ordering_key,
        run_id=run_id,
    )


class _Expected:
    """A value and options; an option that is None was left out. Of a task the value is its arguments."""

    def __init__(self, task: AnyTask | None, value: Any, headers: Any, delay: Any, *others: Any) -> None:
        options = dict(zip(("priority", "dedupe_key", "ordering_key", "run_id"), others, strict=True))
        self._task = task
        self._value = "value" if task is None else "args"
        self._wanted = {} if value is ... else {self._value: value}
        named = {"headers": headers, "delay": delay, **options}
        self._wanted.update({name: one for name, one in named.items() if one is not None})

    def is_for(self, message: QueueMessage[Any]) -> bool:
        return self._task is None or is_call_of(self._task, message)

    def differences(self, message: QueueMessage[Any]) -> list[str]:
        return [
            one
            for name, wanted in self._wanted.items()
            for one in differences(wanted, self._field(message, name), name)
        ]

    def told_of(self, count: int) -> str:
        """That so many messages are like this."""
        one = count <= 1
        who = f"{count or 'no'} message" if one else f"{count} messages"
        if not self._wanted:
            return f"{who} {'is' if one else 'are'} there"
        wanted = ", ".join(f"{name}={wanted!r}" for name, wanted in self._wanted.items())
        return f"{who} {'has' if one else 'have'} {wanted}"

    def listed(self, place: str, there: list[QueueMessage[Any]]) -> str:
        """What is there instead, and in what it differs."""
        if not there:
            return f"{place} has none" if self._task is not None else f"{place} is empty"
        lines = [f"{place} has {len(there)}:"]
        for message in there[:_SHOWN]:
            lines.append(f"  {self._shown(message)}")
            lines += [f"    {one}" for one in self.differences(message)]
        if len(there) > _SHOWN:
            lines.append(f"  and {len(there) - _SHOWN} more")
        return "\n".join(lines)

    def _shown(self, message: QueueMessage[Any]) -> str:
        names = ("delay", "priority", "headers", "dedupe_key", "ordering_key", "run_id")
        options = [f"{name}={found!r}" for name in names if (found := self._field(message, name))]
        return " ".join([repr(self._field(message, self._value)), *options])

    def _field(self, message: QueueMessage[Any], name: str) -> Any:
        if name == "args" and self._task is not None:
            return arguments_of(self._task, message)
        if name == "delay":  # the difference of two times, which are not exact to the last bit
            return round(message.available_at - message.created_at, 3)
        return getattr(message, name)
