"""WebSockets: connections of yours that are pushed to, or an endpoint that clients listen at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self

from localqueue._dataclass import KW_ONLY, dataclass, field
from localqueue.notifications.connections import Connections, OnError, Push
from localqueue.notifications.delay import tell_when_due
from localqueue.notifications.event import Arrival
from localqueue.notifications.feed import Feed
from localqueue.notifications.feed_app import Authorize, FeedApp

#: The fields of a message that are sent unless a serializer says otherwise.
_FIELDS = (
    "id", "value", "queue", "state", "attempts", "created_at", "available_at", "leased_until", "leased_by",
    "last_error", "failed_at", "attempt_history", "dedupe_key", "priority",
)  # fmt: skip


def message_fields(message: Any) -> dict[str, Any]:
    """The message as a dict, with its value: what a connection is sent by default."""
    return {name: getattr(message, name, None) for name in _FIELDS}


class _ComeByThemselves(tuple[Any, ...]):
    """The connections of one that is served: none of them is known before."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class WebSocketNotification:
    """Pushes each message that can be leased to connections: one, or each of several.

    `serializer` makes of the message what is sent: by `send_json` of the connection, else as a text by `send_text`,
    else by `send`. Those run on `loop`: the loop given, the one running at construction, or the one running at
    `notify`, which may be called by any thread and never waits. A connection that fails is dropped, counted in
    `failures`, logged, and handed to `on_error(connection, error)`. One that is slow holds up nobody: of more than
    `buffer` pushes it gets the latest of each queue.

    `serve` makes one without connections: clients come to its `app`.
    """

    connections: Any
    serializer: Callable[[Any], Any] = message_fields
    loop: asyncio.AbstractEventLoop | None = None
    _: KW_ONLY
    buffer: int = 100
    on_error: OnError | None = None
    notifies: bool = True
    notifies_on_put: bool = True
    _pushed: Connections = field(default_factory=Connections, init=False, repr=False, compare=False)
    _feed: Feed | None = field(default=None, init=False, repr=False, compare=False)
    _app: FeedApp | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        connections = _all(self.connections)
        if not connections and not isinstance(self.connections, _ComeByThemselves):
            raise ValueError("connections cannot be empty")
        if not callable(self.serializer):
            raise TypeError(f"serializer must be callable with a message, got {self.serializer!r}")
        if isinstance(self.buffer, bool) or not isinstance(self.buffer, int) or self.buffer < 1:
            raise ValueError(f"buffer must be a number of pushes, at least 1, got {self.buffer!r}")
        object.__setattr__(self, "connections", connections)
        object.__setattr__(self, "_pushed", Connections(connections, self.buffer, self.on_error))
        if self.loop is None:
            object.__setattr__(self, "loop", _running_loop())

    @classmethod
    def serve(
        cls,
        *,
        history: int = 1000,
        buffer: int = 100,
        authorize: Authorize | None = None,
        heartbeat: float = 15.0,
    ) -> Self:
        """One whose `app`, an ASGI application, is where clients listen: what `SSENotification` has, by WebSocket."""
        feed = Feed(history=history, buffer=buffer)
        served = cls(_ComeByThemselves(), buffer=buffer)
        object.__setattr__(served, "_feed", feed)
        object.__setattr__(served, "_app", FeedApp(feed, authorize, heartbeat=heartbeat))
        return served

    @property
    def app(self) -> FeedApp:
        """The ASGI application of one that was made by `serve`."""
        if self._app is None:
            raise AttributeError("it pushes to connections of yours; WebSocketNotification.serve() has an app")
        return self._app

    def notify(self, message: Any) -> None:
        """Tell of a message when it can be leased. Never waits for a client.

        RuntimeError when there are connections and no event loop to send on.
        """
        if self._feed is not None:
            tell_when_due(message, partial(self._feed.publish, Arrival.of(message)))
        elif self._pushed.live_count:
            loop = self.loop or _running_loop()
            if loop is None:
                raise RuntimeError("WebSocketNotification requires an active event loop or loop=")
            push = Push(getattr(message, "queue", None), self.serializer(message))
            tell_when_due(message, partial(self._pushed.push, push, loop))

    @property
    def listener_count(self) -> int:
        """Connections that have not failed, and clients of the app."""
        return self._pushed.live_count + (0 if self._feed is None else self._feed.subscriber_count)

    @property
    def failures(self) -> int:
        """Connections that failed and were dropped."""
        return self._pushed.failures

    @property
    def last_error(self) -> BaseException | None:
        """What the connection that failed last has raised."""
        return self._pushed.last_error

    def as_dict(self) -> dict[str, Any]:
        return {
            "type": "websocket",
            "scope": "network",
            "notifies": self.notifies,
            "notifies_on_put": self.notifies_on_put,
            "listener_count": self.listener_count,
        }

    def close(self) -> None:
        """End the streams of the app's clients and tell nobody any more. Connections of yours stay open."""
        self._pushed.close()
        if self._feed is not None:
            self._feed.close()


def _all(given: Any) -> tuple[Any, ...]:
    """One connection or several. A connection may be iterable itself, as those of `websockets` are by `async for`."""
    if any(hasattr(given, name) for name in ("send_json", "send_text", "send")):
        return (given,)
    if not isinstance(given, Iterable):
        raise TypeError(f"a connection has send_json, send_text or send, got {given!r}")
    connections = tuple(given)
    for connection in connections:
        if not any(hasattr(connection, name) for name in ("send_json", "send_text", "send")):
            raise TypeError(f"a connection has send_json, send_text or send, got {connection!r}")
    return connections


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
