"""A `receive`: it takes what was asked for and not one message more, so that none waits where nobody asks for it.

What is there is got, and in greater numbers by a consumer that may hold exactly so many. When there is nothing, a
consumer that may hold one message waits for it, and ends with it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from localqueue.brokers.rabbitmq.lane import Arrival, Lane
from localqueue.brokers.rabbitmq.session import Reply, Session, resolve

_WORTH_A_CONSUMER = 6  # messages; fewer are got one by one
_MOST = 1000
_QUIET = 0.05  # seconds without a message after which those that are missing are taken to be another's


class Receiver:
    """Used by one thread at a time, apart from `interrupt`."""

    def __init__(self, session: Session, source: str) -> None:
        self.source = source
        self.lane = Lane(session)
        self._inbox: SimpleQueue[Arrival | None] = SimpleQueue()
        self._consumer: str | None = None
        self._get_reply: Reply | None = None
        self.lane.on_end = lambda _: self._inbox.put(None)
        self.lane.call(self._prepare)

    @property
    def ended(self) -> bool:
        return self.lane.ended is not None or self.lane.session.lost is not None

    def take(self, limit: int) -> list[Arrival]:
        """What is there, up to `limit`."""
        found: list[Arrival] = []
        while len(found) < limit:
            one, left = self.lane.call(self._get)
            if one is None:
                break
            found.append(one)
            wanted = min(limit - len(found), left, _MOST)
            if wanted >= _WORTH_A_CONSUMER:
                return found + self._collect(wanted)
        return found

    def await_one(self, seconds: float) -> Arrival | None:
        """The next message; None when there was none, or somebody has interrupted."""
        self._drain()
        self.lane.call(self._begin_waiting)
        one = self._next(seconds)
        if one is None:
            if self.lane.ended is not None:
                raise self.lane.ended
            self.lane.call(self._stop_waiting)
            one = self._drain()
        return one

    def interrupt(self) -> None:
        self._inbox.put(None)

    def _next(self, seconds: float) -> Arrival | None:
        try:
            return self._inbox.get(timeout=seconds)
        except Empty:
            return None

    def _drain(self) -> Arrival | None:
        found = None
        with suppress(Empty):
            while True:
                found = self._inbox.get_nowait() or found
        return found

    def _collect(self, count: int) -> list[Arrival]:
        found: list[Arrival] = self.lane.call(lambda reply: _Collection(self, count, reply).start())
        return found

    # for the session's thread

    def _prepare(self, reply: Reply) -> None:
        from pika.spec import Basic

        self.lane.channel.add_callback(self._on_nothing, [Basic.GetEmpty], one_shot=False)
        self.lane.channel.add_on_cancel_callback(lambda _: self.lane.close())  # the queue was deleted, or has moved
        resolve(reply)

    def _get(self, reply: Reply) -> None:
        self._get_reply = reply
        self.lane.channel.basic_get(self.source, self._on_message)

    def _on_nothing(self, _: Any) -> None:
        if self._get_reply is not None:
            resolve(self._get_reply, (None, 0))

    def _on_message(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        assert self._get_reply is not None
        resolve(self._get_reply, (self.lane.arrived(method, properties, body), method.message_count))

    def _begin_waiting(self, reply: Reply) -> None:
        channel = self.lane.channel
        channel.basic_qos(prefetch_count=1)
        self._consumer = channel.basic_consume(self.source, self._on_push, callback=lambda _: resolve(reply))

    def _on_push(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self._inbox.put(self.lane.arrived(method, properties, body))
        if self._consumer is not None:  # before the message can be acked, for then another would be sent
            consumer, self._consumer = self._consumer, None
            self.lane.channel.basic_cancel(consumer, callback=lambda _: None)

    def _stop_waiting(self, reply: Reply) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            resolve(reply)
        else:
            self.lane.end_consumer(consumer, lambda: resolve(reply))


class _Collection:
    """A consumer that may hold so many messages, and ends when it does."""

    def __init__(self, receiver: Receiver, count: int, reply: Reply) -> None:
        self._lane = receiver.lane
        self._source = receiver.source
        self._count = count
        self._reply = reply
        self._found: list[Arrival] = []
        self._consumer: str | None = None
        self._last = time.monotonic()

    def start(self) -> None:
        channel = self._lane.channel
        channel.basic_qos(prefetch_count=self._count)
        self._consumer = channel.basic_consume(self._source, self._on_push)
        self._look_later()

    def _on_push(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self._found.append(self._lane.arrived(method, properties, body))
        self._last = time.monotonic()
        if len(self._found) == self._count and self._consumer is not None:
            self._finish()

    def _look_later(self) -> None:
        self._lane.session.connection.ioloop.call_later(_QUIET, self._look)

    def _look(self) -> None:
        if self._consumer is None or self._lane.ended is not None:
            return
        if time.monotonic() - self._last < _QUIET:
            self._look_later()
            return
        consumer, self._consumer = self._consumer, None
        self._lane.end_consumer(consumer, lambda: resolve(self._reply, self._found))

    def _finish(self) -> None:
        """It holds all that it may, so nothing more is on its way."""
        consumer, self._consumer = self._consumer, None
        self._lane.channel.basic_cancel(consumer, callback=lambda _: None)
        resolve(self._reply, self._found)
