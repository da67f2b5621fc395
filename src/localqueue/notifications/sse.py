"""Server-sent events: anybody who can read a web page can hear of what is put."""

from __future__ import annotations

from functools import partial
from types import TracebackType
from typing import Any, Self

from localqueue.notifications.delay import tell_when_due
from localqueue.notifications.event import Arrival
from localqueue.notifications.feed import Feed
from localqueue.notifications.feed_app import Authorize, FeedApp


class SSENotification:
    """Tells every client of its ASGI application, `app`, of each message that can be leased. It sends the queue and the
    id of the message, never what is in it.

    A client that comes back with the id of the last event it saw gets what it missed, out of the last `history`
    events, or else one event that says to look everywhere. One that reads slowly holds up nobody: of more than `buffer`
    events it gets one for each queue, that says to look again.

    `notify` may be called by any thread, whether or not the application runs in this one. Who consumes in another
    process waits with an `SSEListener`; in this one waiting is left to the store.
    """

    notifies = True
    notifies_on_put = True

    def __init__(
        self,
        *,
        history: int = 1000,
        buffer: int = 100,
        authorize: Authorize | None = None,
        heartbeat: float = 15.0,
    ) -> None:
        self._feed = Feed(history=history, buffer=buffer)
        self._settings = {"history": history, "buffer": buffer}
        self.app = FeedApp(self._feed, authorize, heartbeat=heartbeat)

    def notify(self, message: Any) -> None:
        """Tell of a message when it can be leased. Never waits for a client."""
        tell_when_due(message, partial(self._feed.publish, Arrival.of(message)))

    @property
    def listener_count(self) -> int:
        """Clients that are connected now."""
        return self._feed.subscriber_count

    @property
    def coalesced(self) -> int:
        """Events that slow clients were not told one by one."""
        return self._feed.coalesced

    def as_dict(self) -> dict[str, Any]:
        return {
            "type": "sse",
            "scope": "network",
            "notifies": self.notifies,
            "notifies_on_put": self.notifies_on_put,
            "listener_count": self.listener_count,
            **self._settings,
        }

    def close(self) -> None:
        """End the streams of all clients. What is put from now on is not told."""
        self._feed.close()

    def __repr__(self) -> str:
        return f"SSENotification(history={self._settings['history']}, buffer={self._settings['buffer']})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
