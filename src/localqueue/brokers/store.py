"""A store of this package behind the broker port: what works on a broker works on it too."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from localqueue.brokers import envelope
from localqueue.brokers.base import BrokerBase
from localqueue.brokers.capabilities import capabilities_of
from localqueue.brokers.port import (
    NO_HEADERS,
    Available,
    Broker,
    BrokerStats,
    Delivery,
    Health,
    MessageNotification,
    Outgoing,
)
from localqueue.errors import QueueStoreClosedError
from localqueue.stores.port import (
    DEAD,
    Action,
    Changes,
    Lease,
    LeaseRequest,
    NewMessage,
    QueueStore,
    Settle,
    StoredMessage,
    Waiter,
)
from localqueue.stores.url import backend_of

_DEAD = 0  # the token of a dead letter: no lease has it


class StoreBroker(BrokerBase):
    """Sends into and receives from the queues of a store. With `owned`, closing the broker closes the store.

    A queue of a store comes into being by its first message, so `ensure` has nothing to do. A store names its messages
    itself: the `id` of one that is sent is not kept.
    """

    def __init__(self, store: QueueStore, *, owned: bool = False) -> None:
        super().__init__(capabilities_of(backend_of(store.url)), store.url)
        self.store = store
        self._owned = owned
        self._waiting: set[Waiter] = set()
        self._lock = threading.Lock()

    def as_store(self) -> QueueStore:
        return self.store

    def ensure(self, queue: str) -> None:
        self.require_open()

    def send(self, queue: str, message: Outgoing) -> str:
        return self.send_batch(queue, (message,))[0]

    def send_batch(self, queue: str, messages: Sequence[Outgoing]) -> list[str]:
        self.require_open()
        self.check_send(queue, messages)
        if not messages:
            return []
        ids = self.store.mint(len(messages))
        drafts = [envelope.draft(message_id, queue, one) for message_id, one in zip(ids, messages, strict=True)]
        enqueued = self.store.commit(Changes(enqueue=drafts)).enqueued
        return [
            one.existing.id if one.existing is not None else one.id or message_id
            for message_id, one in zip(ids, enqueued, strict=True)
        ]

    def receive(self, queue: str, limit: int = 1, *, wait: float = 0.0, lease: float = 30.0) -> list[Delivery]:
        self.require_open()
        self.check_receive(limit, wait, lease)
        request = LeaseRequest(queue, limit, lease)
        found = self.store.lease(request)
        if not found and wait > 0:
            found = self._wait_for(request, wait)
        return [_delivery(one, one.attempts) for one in found]

    def _wait_for(self, request: LeaseRequest, wait: float) -> list[StoredMessage]:
        deadline = time.monotonic() + wait
        with self.store.listen((request.queue,)) as waiter:
            with self._lock:
                self._waiting.add(waiter)
            try:
                while (left := deadline - time.monotonic()) > 0 and not self._closed.is_set() and waiter.heard(left):
                    if found := self.store.lease(request):
                        return found
            finally:
                with self._lock:
                    self._waiting.discard(waiter)
        return []

    def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        if len(deliveries) == 1 and deliveries[0].receipt != _DEAD:
            self.require_open()
            return [self.store.ack_one(deliveries[0].queue, deliveries[0].id, deliveries[0].receipt)]
        return self._settle(deliveries, "ack")

    def nack(
        self,
        deliveries: Sequence[Delivery],
        *,
        delay: float = 0.0,
        dead: bool = False,
        error: Mapping[str, Any] | None = None,
    ) -> list[bool]:
        if dead:
            return self._settle(deliveries, "dead-letter", error=error)
        return self._settle([one for one in deliveries if one.receipt != _DEAD], "release", delay=delay, error=error)

    def _settle(
        self,
        deliveries: Sequence[Delivery],
        action: Action,
        *,
        delay: float = 0.0,
        error: Mapping[str, Any] | None = None,
    ) -> list[bool]:
        self.require_open()
        settles = [Settle(one.queue, one.id, action, one.receipt or None, delay, error) for one in deliveries]
        return self.store.commit(Changes(settle=settles, strict=False)).settled if settles else []

    def extend(self, deliveries: Sequence[Delivery], seconds: float) -> list[float | None]:
        self.require_open()
        leases = [Lease(one.queue, one.id, one.receipt) for one in deliveries]
        return self.store.renew(leases, timeout=seconds) if leases else []

    def written(self, delivery: Delivery) -> str:
        return str(delivery.receipt)

    def resumed(self, queue: str, message_id: str, receipt: str) -> Delivery:
        return Delivery(queue, message_id, b"", NO_HEADERS, 1, int(receipt))

    def dead_letters(self, queue: str, limit: int = 100) -> list[Delivery]:
        self.require_open()
        return [_delivery(one, _DEAD) for one in self.store.scan(queue, state=DEAD, limit=limit)]

    def stats(self, queue: str) -> BrokerStats:
        self.require_open()
        stats = self.store.stats(queue)
        return BrokerStats(stats.ready, stats.inflight, stats.delayed, stats.dead)

    def purge(self, queue: str) -> int | None:
        self.require_open()
        return self.store.purge(queue)

    def delete(self, queue: str) -> None:
        self.purge(queue)

    def health(self) -> Health:
        self.require_open()
        return self.timed(lambda: self.store.qsize("localqueue-health"))

    def subscribe(self, queue: str, *, prefetch: int = 100, lease: float = 30.0) -> StoreSubscription:
        self.require_open()
        self.store.qsize(queue)  # a store that is away says so; a waiter would wait for it to come back
        return StoreSubscription(self.store.listen((queue,)), queue)

    def close(self) -> None:
        super().close()
        with self._lock:
            waiting = list(self._waiting)
        for waiter in waiting:
            waiter.interrupt()
        if self._owned:
            self.store.close()


class StoreSubscription:
    """The store's own wake-up, which also tells of what falls due; what it tells of is received from the store."""

    def __init__(self, waiter: Waiter, queue: str) -> None:
        self._waiter = waiter
        self._queue = queue
        self._closed = False

    def next(self, timeout: float | None = None) -> MessageNotification | None:
        if self._closed:
            raise QueueStoreClosedError(f"the subscription of queue {self._queue!r} is closed")
        return Available(self._queue) if self._waiter.heard(timeout) else None

    def wake(self) -> None:
        self._waiter.interrupt()

    def close(self) -> None:
        self._closed = True
        self._waiter.interrupt()
        self._waiter.close()


def as_broker(place: Any) -> Broker:
    """A broker, a store behind the same port, or what is at an address."""
    if isinstance(place, str):
        from localqueue.brokers.url import open_broker

        return open_broker(place)
    if hasattr(place, "receive"):
        broker: Broker = place
        return broker
    if not hasattr(place, "lease"):
        raise TypeError(f"messages come from a broker, a store or the address of one, not {place!r}")
    return StoreBroker(place)


def _delivery(message: StoredMessage, token: int) -> Delivery:
    sent = envelope.outgoing(
        NewMessage(message.id, message.queue, message.payload, message.codec, headers=message.headers)
    )
    headers = {**sent.headers, envelope.CREATED: repr(message.created_at), **envelope.error_header(message.last_error)}
    return Delivery(
        message.queue,
        message.id,
        sent.body,
        headers,
        message.attempts,
        token,
        message.ordering_key,
        message.priority,
        message.created_at,
        message.leased_until,
        message.dedupe_key,
        message.id,
    )
