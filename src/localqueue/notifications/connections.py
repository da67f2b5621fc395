"""Connections that somebody else has accepted, each told in its own task on the event loop they belong to."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from localqueue._named_tuple import NamedTuple
from localqueue.notifications.fork import heed_forks
from localqueue.notifications.mailbox import Mailbox

_log = logging.getLogger("localqueue")

OnError = Callable[[Any, BaseException], object]


class Push(NamedTuple):
    """What is sent, and the queue it is about."""

    queue: str | None
    payload: Any


class Connections:
    """Sends to each connection what it is given, in order. A connection that fails is told of no more.

    `buffer` pushes wait for a connection at most; when it is slower, those shrink to the latest of each queue.
    """

    def __init__(self, connections: Iterable[Any] = (), buffer: int = 100, on_error: OnError | None = None) -> None:
        self._buffer = buffer
        self._on_error = on_error
        self._lines = [_Line(connection, self) for connection in connections]
        self._lock = threading.Lock()
        self._failures = 0
        self._error: BaseException | None = None
        heed_forks(self)

    def push(self, push: Push, loop: asyncio.AbstractEventLoop) -> None:
        for line in tuple(self._lines):
            line.push(push, loop)

    def new_mailbox(self) -> Mailbox[Push]:
        return Mailbox(self._buffer, _latest)

    def drop(self, line: _Line, error: BaseException) -> None:
        """A connection has failed: count it, say it, and leave it alone."""
        with self._lock:
            if line not in self._lines:
                return
            self._lines.remove(line)
            self._failures += 1
            self._error = error
        _log.warning("a WebSocket can not be told any more (%s: %s); dropped", type(error).__name__, error)
        if self._on_error is not None:
            try:
                self._on_error(line.connection, error)
            except Exception:
                _log.exception("on_error of a WebSocketNotification failed")

    @property
    def live_count(self) -> int:
        return len(self._lines)

    @property
    def failures(self) -> int:
        return self._failures

    @property
    def last_error(self) -> BaseException | None:
        return self._error

    def close(self) -> None:
        self._lines = []

    def abandon(self) -> None:
        """The connections and their loop are the parent's."""
        self._lock = threading.Lock()
        self._lines = []


class _Line:
    """What waits for one connection, and the task that sends it while there is something."""

    def __init__(self, connection: Any, connections: Connections) -> None:
        self.connection = connection
        self._connections = connections
        self._mailbox = connections.new_mailbox()
        self._task: asyncio.Task[None] | None = None

    def push(self, push: Push, loop: asyncio.AbstractEventLoop) -> None:
        is_first = self._mailbox.put(push)
        try:
            if is_first or loop.is_closed():
                loop.call_soon_threadsafe(self._begin, loop)
        except RuntimeError as error:  # the loop is closed, and the connection with it
            self._connections.drop(self, error)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._task is None:
            self._task = loop.create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while (push := self._mailbox.take()) is not None:
                sent = sender_for(self.connection, push.payload)()
                if inspect.isawaitable(sent):
                    await sent
        except asyncio.CancelledError:
            self._connections.drop(self, asyncio.CancelledError("the task that sends was cancelled"))
            raise
        except Exception as error:
            self._connections.drop(self, error)
        finally:
            self._task = None


def sender_for(connection: Any, payload: Any) -> Callable[[], Any]:
    """How a payload is sent: by `send_json`, else as a text by `send_text`, else by `send`."""
    if hasattr(connection, "send_json"):
        return partial(connection.send_json, payload)
    if isinstance(payload, str) and hasattr(connection, "send_text"):
        return partial(connection.send_text, payload)
    return partial(connection.send, payload)


def _latest(pushes: Sequence[Push], limit: int) -> Iterable[Push]:
    latest: dict[str | None, Push] = {}
    for push in pushes:
        latest.pop(push.queue, None)
        latest[push.queue] = push
    return list(latest.values())[-limit:]
