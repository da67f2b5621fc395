"""`KafkaBroker`: the broker port on topics of a Kafka."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from localqueue.brokers import envelope
from localqueue.brokers.base import BrokerBase
from localqueue.brokers.capabilities import capabilities_of
from localqueue.brokers.kafka import settings
from localqueue.brokers.kafka.consumer import TopicConsumer
from localqueue.brokers.kafka.dead import DeadLetters, DeadReceipt
from localqueue.brokers.kafka.records import Receipt
from localqueue.brokers.kafka.sender import Sender
from localqueue.brokers.kafka.subscription import TopicSubscription
from localqueue.brokers.kafka.topics import Topics, dead_topic
from localqueue.brokers.port import BrokerStats, Delivery, Health, Outgoing
from localqueue.errors import QueueStoreMissingError
from localqueue.stores import fork

_MOST_LYING = 2000  # records that were fetched for `receive` and not taken


class KafkaBroker(BrokerBase):
    """Queues that are topics of a Kafka, read by one consumer group.

    Safe to share between threads, and to carry over a fork.
    """

    def __init__(self, url: str) -> None:
        self._settings = settings.read(url)
        super().__init__(capabilities_of("kafka"), self._settings.shown)
        self._start()
        fork.track(self)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._topics = Topics(self._settings)
        self._sender = Sender(self._settings)
        self._known: set[str] = set()
        self._receivers: dict[str, TopicConsumer] = {}
        self._members: list[TopicConsumer] = []

    def ensure(self, queue: str) -> None:
        self.require_open()
        self._sender.prepare()
        self._topics.make(queue)

    def send(self, queue: str, message: Outgoing) -> str:
        return self.send_batch(queue, (message,))[0]

    def send_batch(self, queue: str, messages: Sequence[Outgoing]) -> list[str]:
        self.require_open()
        self.check_send(queue, messages)
        if not messages:
            return []
        return self._send(queue, messages)

    def _send(self, topic: str, messages: Sequence[Outgoing]) -> list[str]:
        if topic not in self._known:
            self._sender.prepare()
            self._topics.partitions(topic)
            self._known.add(topic)
        try:
            return self._sender.send(topic, messages)
        except QueueStoreMissingError:
            self._known.discard(topic)
            raise

    def receive(self, queue: str, limit: int = 1, *, wait: float = 0.0, lease: float = 30.0) -> list[Delivery]:
        self.require_open()
        self.check_receive(limit, wait, lease)
        found = self._receiver(queue).take(limit, wait)
        if not found:
            self.require_open()
        return found

    def _receiver(self, queue: str) -> TopicConsumer:
        """The member of the group that `receive` has for a topic."""
        found = self._receivers.get(queue)
        if found is not None and not found.is_over:
            return found
        self._topics.partitions(queue)
        with self._lock:
            self.require_open()
            found = self._receivers.pop(queue, None)
            if found is None or found.is_over:
                over, found = found, TopicConsumer(self._settings, self._topics, queue, most=_MOST_LYING)
                if over is not None:
                    over.close()
                self._members.append(found)
            self._receivers[queue] = found
            return found

    def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        self.require_open()
        return self._settle(
            deliveries, lambda consumer, receipts, _: consumer.finish(receipts), lambda dead, at: dead.remove(at)
        )

    def nack(
        self,
        deliveries: Sequence[Delivery],
        *,
        delay: float = 0.0,
        dead: bool = False,
        error: Mapping[str, Any] | None = None,
    ) -> list[bool]:
        self.require_open()
        self.check_nack(delay)
        if not dead:
            return self._settle(deliveries, lambda consumer, receipts, _: consumer.give_back(receipts, delay), _stay)
        why = envelope.error_header(error)

        def bury(consumer: TopicConsumer, receipts: list[Receipt], some: list[Delivery]) -> list[bool]:
            held = [one for one, receipt in zip(some, receipts, strict=True) if consumer.holds(receipt)]
            self._bury(consumer.topic, held, why)
            return consumer.finish(receipts)

        return self._settle(deliveries, bury, _stay)

    def _bury(self, topic: str, deliveries: Sequence[Delivery], why: Mapping[str, str]) -> None:
        letters = [
            Outgoing(one.body, {**one.headers, **why, envelope.ATTEMPTS: str(one.attempts)}, one.id, one.key)
            for one in deliveries
        ]
        if letters:
            self._send(dead_topic(topic), letters)

    def _settle(
        self,
        deliveries: Sequence[Delivery],
        settle: Callable[[TopicConsumer, list[Receipt], list[Delivery]], list[bool]],
        settle_dead: Callable[[DeadLetters, list[int]], list[bool]],
    ) -> list[bool]:
        """Each member of the group is asked once."""
        done = [False] * len(deliveries)
        by_consumer: dict[TopicConsumer, list[int]] = {}
        by_letters: dict[DeadLetters, list[int]] = {}
        for position, one in enumerate(deliveries):
            if isinstance(one.receipt, DeadReceipt):
                by_letters.setdefault(one.receipt.letters, []).append(position)
            else:
                by_consumer.setdefault(one.receipt.consumer, []).append(position)
        for consumer, positions in by_consumer.items():
            some = [deliveries[position] for position in positions]
            for position, answer in zip(positions, settle(consumer, [one.receipt for one in some], some), strict=True):
                done[position] = answer
        for letters, positions in by_letters.items():
            answers = settle_dead(letters, [deliveries[position].receipt.offset for position in positions])
            for position, answer in zip(positions, answers, strict=True):
                done[position] = answer
        return done

    def extend(self, deliveries: Sequence[Delivery], seconds: float) -> list[float | None]:
        self.require_open()
        return [
            math.inf if isinstance(one.receipt, Receipt) and one.receipt.consumer.holds(one.receipt) else None
            for one in deliveries
        ]

    def dead_letters(self, queue: str, limit: int = 100) -> list[Delivery]:
        self.require_open()
        self._topics.partitions(queue)
        return DeadLetters(self._settings, self._topics, queue).look(limit)

    def stats(self, queue: str) -> BrokerStats:
        self.require_open()
        ready = self._topics.unfinished(queue, self._settings.group_of(queue))
        try:
            dead = self._topics.unfinished(dead_topic(queue), self._settings.dead_group_of(queue))
        except QueueStoreMissingError:
            dead = 0
        return BrokerStats(ready, dead=dead)

    def purge(self, queue: str) -> int | None:
        """Remove the records of the topic, those of other groups too. What is held here stays held."""
        self.require_open()
        waiting = self._topics.unfinished(queue, self._settings.group_of(queue))
        ends = self._topics.ends(queue, self._topics.partitions(queue))
        self._topics.remove_records(queue, ends)
        with self._lock:
            members = [one for one in self._members if one.topic == queue]
        for one in members:
            one.skip(ends)
        return waiting

    def delete(self, queue: str) -> None:
        self.require_open()
        self._known -= {queue, dead_topic(queue)}
        with self._lock:
            members = [one for one in self._members if one.topic == queue]
            self._members = [one for one in self._members if one.topic != queue]
            self._receivers.pop(queue, None)
        for one in members:
            one.close()
        self._topics.remove(queue)

    def health(self) -> Health:
        self.require_open()
        return self.timed(self._topics.answer)

    def subscribe(self, queue: str, *, prefetch: int = 100, lease: float = 30.0) -> TopicSubscription:
        self.require_open()
        self.check_receive(prefetch, 0.0, lease)
        self._topics.partitions(queue)
        with self._lock:
            receiver = self._receivers.pop(queue, None)
        if receiver is not None:  # who subscribes receives no more, and what comes to its partitions would lie there
            receiver.retire()
        with self._lock:
            self.require_open()
            member = TopicConsumer(
                self._settings, self._topics, queue, most=min(prefetch, _MOST_LYING), prefetch=prefetch
            )
            self._members = [one for one in self._members if not one.has_ended] + [member]
        return TopicSubscription(member)

    def close(self) -> None:
        if self._closed.is_set():
            return
        super().close()
        with self._lock:
            members, self._members, self._receivers = self._members, [], {}
        for one in members:
            one.stop()
        for one in members:
            one.close()
        self._sender.release()
        self._topics.release()
        fork.forget(self)

    def hold_for_fork(self) -> None:
        self._lock.acquire()

    def go_on_after_fork(self) -> None:
        self._lock.release()

    def close_in_child(self) -> None:
        """The threads of the driver are not here: what they belong to can neither be used nor ended."""
        for one in (self._sender.release(), self._topics.release(), *(one.abandon() for one in self._members)):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))

    def reopen_in_child(self) -> None:
        self._start()


def _stay(letters: DeadLetters, offsets: list[int]) -> list[bool]:
    return [True] * len(offsets)
