"""Push of a topic: a member of the group of its own, which leaves with it."""

from __future__ import annotations

from localqueue.brokers.kafka.consumer import TopicConsumer
from localqueue.brokers.port import Message, MessageNotification
from localqueue.errors import QueueStoreClosedError

_FOREVER = 10 * 365 * 86400.0


class TopicSubscription:
    """What was taken can be settled after it is closed: it leaves the group behind the last of them."""

    def __init__(self, consumer: TopicConsumer) -> None:
        self._consumer = consumer
        self._closed = False

    def next(self, timeout: float | None = None) -> MessageNotification | None:
        if self._closed:
            raise QueueStoreClosedError(f"the subscription of topic {self._consumer.topic!r} is closed")
        found = self._consumer.await_next(_FOREVER if timeout is None else timeout)
        if found is None and self._consumer.is_over:
            raise QueueStoreClosedError(f"the subscription of topic {self._consumer.topic!r} is closed")
        return None if found is None else Message(found)

    def wake(self) -> None:
        self._consumer.wake()

    def close(self) -> None:
        self._closed = True
        self._consumer.retire()
