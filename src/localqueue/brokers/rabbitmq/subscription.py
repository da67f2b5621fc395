"""Push of one queue: a consumer on a channel of its own, which the server sends no more than the prefetch unacked."""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from localqueue.brokers.port import Message, MessageNotification
from localqueue.brokers.rabbitmq.lane import Arrival, Lane
from localqueue.brokers.rabbitmq.message import delivery_of
from localqueue.brokers.rabbitmq.session import Reply, Session, resolve
from localqueue.errors import QueueError, QueueStoreClosedError, QueueStoreUnavailableError

_MOST = 65_535


def check_prefetch(prefetch: int) -> None:
    if isinstance(prefetch, bool) or not isinstance(prefetch, int) or not 1 <= prefetch <= _MOST:
        raise ValueError(f"prefetch must be a whole number from 1 to {_MOST}, not {prefetch!r}")


class RabbitMQSubscription:
    """The messages of a queue as they come. What was handed out stays to be settled after `close`."""

    def __init__(self, session: Session, queue: str, prefetch: int) -> None:
        self._queue = queue
        self._closed = False
        self._inbox: SimpleQueue[Arrival | None] = SimpleQueue()
        self._lane = Lane(session)
        self._lane.on_end = lambda _: self._inbox.put(None)
        self._consumer: str | None = None
        self._cancelled = False  # by the server
        self._lane.call(lambda reply: self._begin(prefetch, reply))

    def next(self, timeout: float | None = None) -> MessageNotification | None:
        try:
            arrival = self._inbox.get(timeout=timeout)
        except Empty:
            arrival = None
        if self._closed and arrival is not None and self._lane.claim(arrival.tag):
            self._lane.give_back([arrival.tag], failed=False)
        self._require_live()
        return None if arrival is None else Message(delivery_of(self._queue, self._lane, arrival))

    def _require_live(self) -> None:
        if self._closed:
            raise QueueStoreClosedError(f"the subscription of queue {self._queue!r} is closed")
        if self._cancelled:
            raise QueueStoreUnavailableError(
                f"the server has ended the subscription of queue {self._queue!r}: the queue was deleted or has moved"
            )
        ended = self._lane.ended or self._lane.session.lost
        if ended is not None:
            raise QueueStoreUnavailableError(f"the subscription of queue {self._queue!r} has ended: {ended}")

    def wake(self) -> None:
        self._inbox.put(None)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with suppress(QueueError):  # the channel is gone, and the server has all of it back
            self._lane.call(self._finish)
        self.wake()

    # for the session's thread

    def _begin(self, prefetch: int, reply: Reply) -> None:
        channel = self._lane.channel
        channel.add_on_cancel_callback(self._on_cancel)
        channel.basic_qos(prefetch_count=prefetch)
        self._consumer = channel.basic_consume(self._queue, self._on_push, callback=lambda _: resolve(reply))

    def _on_push(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self._inbox.put(self._lane.arrived(method, properties, body))

    def _on_cancel(self, _: Any) -> None:
        self._cancelled = True
        self._inbox.put(None)

    def _finish(self, reply: Reply) -> None:
        if self._cancelled:
            self._give_back(reply)
        else:
            assert self._consumer is not None
            self._lane.end_consumer(self._consumer, lambda: self._give_back(reply))

    def _give_back(self, reply: Reply) -> None:
        untaken = []
        with suppress(Empty):
            while True:
                arrival = self._inbox.get_nowait()
                if arrival is not None and self._lane.claim(arrival.tag):
                    untaken.append(arrival.tag)
        self._lane.give_back(untaken, failed=False)
        self._lane.retire()
        resolve(reply)
