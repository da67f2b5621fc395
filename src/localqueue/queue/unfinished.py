"""The messages that `get()` handed out and nobody has settled yet, for `task_done()` and `join()`."""

from __future__ import annotations

import threading
from typing import Any

from localqueue.message import QueueMessage
from localqueue.queue.drafts import id_of


class Unfinished:
    """In the order they were handed out."""

    def __init__(self) -> None:
        self.messages: dict[str, QueueMessage[Any]] = {}
        self._changed = threading.Condition()

    def add(self, message: QueueMessage[Any]) -> None:
        with self._changed:
            self.messages[message.id] = message

    def oldest(self) -> QueueMessage[Any]:
        """The one that `task_done()` acks."""
        with self._changed:
            for message in self.messages.values():
                return message
        raise ValueError("task_done() called too many times")

    def forget(self, *messages: QueueMessage[Any] | str) -> None:
        """They are settled."""
        with self._changed:
            for message in messages:
                self.messages.pop(id_of(message), None)
            self._changed.notify_all()

    def clear(self) -> None:
        with self._changed:
            self.messages.clear()
            self._changed.notify_all()

    def wait(self) -> None:
        """Until there are none."""
        with self._changed:
            self._changed.wait_for(lambda: not self.messages)
