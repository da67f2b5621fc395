"""Hooks of every queue object of the process: those that exist, and those that will be made."""

from __future__ import annotations

import threading
from typing import Any

from localqueue.events.hooks import Hook
from localqueue.queue.core import QueueCore, living, shared_hooks

_changing = threading.Lock()


def join(queue: QueueCore[Any]) -> None:
    """A queue object was made."""
    with _changing:
        for hook in shared_hooks:
            _add_to(queue, hook)


def add_hook(hook: Hook) -> None:
    """Add a hook to every queue object that has it not."""
    with _changing:
        shared_hooks.append(hook)
        for queue in _queues():
            _add_to(queue, hook)


def remove_hook(hook: Hook) -> None:
    """Take it from all of them again."""
    with _changing:
        shared_hooks[:] = [one for one in shared_hooks if one != hook]
        for queue in _queues():
            queue.remove_hook(hook)


def _queues() -> list[QueueCore[Any]]:
    return [queue for reference in list(living) if (queue := reference()) is not None]


def _add_to(queue: QueueCore[Any], hook: Hook) -> None:
    if hook not in queue.hooks:
        queue.add_hook(hook)
