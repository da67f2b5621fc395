"""Waking over the publish/subscribe of a Redis server, wherever the messages are."""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.notifications.port import CATCH_UP
from localqueue.notifications.server import CHANNEL, ServerNotification
from localqueue.stores.listener import Listener
from localqueue.stores.redis.connection import Connections
from localqueue.stores.redis.notify import RedisListener


class RedisNotification(ServerNotification[Connections]):
    """Wakes the listeners of a queue in all processes that use the same Redis server and `channel`.

    `notify` publishes the name of the message's queue, `put_many` those of all its messages at once; nothing is stored
    on the server. In a cluster every node passes on what any node is told. A process has one connection that listens,
    shared with its Redis stores at the same address. Nothing is connected to before the first use. `timeout` bounds the
    wait for the server, whose failure `notify` raises as `NotificationFailed`.
    """

    kind = "redis"
    schemes = ("redis", "rediss", "redis+cluster", "unix")

    def __init__(
        self,
        url: str,
        queue: str | None = None,
        *,
        channel: str = CHANNEL,
        timeout: float = 5.0,
        catch_up: float = CATCH_UP,
    ) -> None:
        super().__init__(url, queue, channel=channel, timeout=timeout, catch_up=catch_up)

    def open_sender(self) -> Connections:
        return Connections(self._url, timeout=self._timeout)

    def close_sender(self, sender: Connections) -> None:
        sender.close()

    def abandon_sender(self, sender: Connections) -> None:
        sender.abandon()

    def say(self, sender: Connections, words: Sequence[str]) -> None:
        sender.ask(b"PUBLISH", self.channel.encode(), " ".join(words).encode(), again=True)

    def join(self, sender: Connections) -> Listener:
        return RedisListener.share(("redis", self._url), lambda: RedisListener(sender.new))
