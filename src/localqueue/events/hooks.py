"""Calling hooks: each of them, after the commit, and never at the expense of the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import CoroutineType
from typing import Any

from localqueue.events.async_hook import AsyncHook, log_failure
from localqueue.events.event import Event
from localqueue.interrupts import asks_to_end

Hook = Callable[[Event], Any]


class Hooks:
    """Hooks in the order they were added. One that fails is logged and holds up neither the queue nor the others."""

    __slots__ = ("_calls", "_given")

    def __init__(self, hooks: Iterable[Hook]) -> None:
        self._given = tuple(hooks)
        self._calls = tuple(_sync(hook) for hook in self._given)

    def __iter__(self) -> Iterator[Hook]:
        return iter(self._given)

    def fire(self, event: Event) -> None:
        for hook in self._calls:
            try:
                returned = hook(event)
                if isinstance(returned, CoroutineType):
                    returned.close()
                    raise TypeError(f"hook {hook!r} returned a coroutine that nobody awaits; wrap it in AsyncHook")
            except BaseException as error:
                if asks_to_end(error):
                    raise
                log_failure(hook, event, error)


def several(hooks: Hook | Iterable[Hook] | None) -> tuple[Hook, ...]:
    """The hooks that `hooks=` names: none, one or several."""
    if hooks is None:
        return ()
    given = (hooks,) if callable(hooks) else tuple(hooks)
    for hook in given:
        if not callable(hook):
            raise TypeError(f"a hook must be callable with an event, not {hook!r}")
    return given


def _sync(hook: Hook) -> Hook:
    return AsyncHook(hook) if _is_async(hook) else hook


def _is_async(hook: Hook) -> bool:
    import inspect  # takes as long to load as a third of a queue

    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__)
