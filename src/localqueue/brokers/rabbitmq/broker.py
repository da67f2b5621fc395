"""RabbitMQ behind the broker port."""

from __future__ import annotations

import math
import secrets
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from localqueue.brokers import envelope
from localqueue.brokers.base import BrokerBase
from localqueue.brokers.capabilities import capabilities_of
from localqueue.brokers.port import BrokerStats, Delivery, Health, Outgoing
from localqueue.brokers.rabbitmq import settings as _settings
from localqueue.brokers.rabbitmq import topology
from localqueue.brokers.rabbitmq.connections import Connections
from localqueue.brokers.rabbitmq.errors import load
from localqueue.brokers.rabbitmq.lane import Arrival, Lane
from localqueue.brokers.rabbitmq.message import checked, copy_of, delivery_of, properties_of
from localqueue.brokers.rabbitmq.publisher import Parcel
from localqueue.brokers.rabbitmq.receiver import Receiver
from localqueue.brokers.rabbitmq.subscription import RabbitMQSubscription, check_prefetch
from localqueue.errors import QueueStoreMissingError, QueueStoreUnavailableError

_ROW = {"quorum": "rabbitmq", "classic": "rabbitmq-classic"}
_AT_ONCE, _BYTES_AT_ONCE = 1000, 8_000_000  # messages and bytes that wait for their confirms together


class RabbitMQBroker(BrokerBase):
    """Sends to and receives from the queues of a RabbitMQ, version 3.10 or newer.

    The options go behind the `?` of the address, or here. `queue_type` is what `ensure` makes: `quorum` queues, or
    `classic` ones with priorities. `timeout` is how many seconds a call waits for the server, `heartbeat` how many it
    may be silent before the connection is given up, `connection_name` what the server's tools show. `ssl_context` is
    for `amqps://`, where Python's default is not enough.

    A delay is rounded up, by a fiftieth or a minute at most. An ack is sent and never answered: that it was accepted
    means that the connection was not known to be lost. If it was, the message comes again.
    """

    def __init__(self, url: str, *, ssl_context: ssl.SSLContext | None = None, **options: Any) -> None:
        load()
        self._settings = _settings.read(url, ssl_context, options)
        row = capabilities_of(_ROW[self._settings.queue_type])
        super().__init__(row, self._settings.tongue.shown)
        self._connections = Connections(self._settings, self.require_open)
        self._ask = self._connections.ask
        self._delays: dict[str, float] = {}  # when a delay queue was declared last

    # queues

    def ensure(self, queue: str) -> None:
        topology.check_name(queue)
        kind = self._settings.queue_type
        self._declare(topology.dead_of(queue), topology.dead_arguments(kind))
        self._declare(queue, topology.arguments(queue, kind, self.capabilities.priorities))

    def stats(self, queue: str) -> BrokerStats:
        topology.check_name(queue)
        ready = self._ask("queue_declare", queue=queue, passive=True, made_by=queue).message_count
        dead = None
        with suppress(QueueStoreMissingError):  # of a queue that another program has made
            name = topology.dead_of(queue)
            dead = self._ask("queue_declare", queue=name, passive=True, made_by=queue).message_count
        return BrokerStats(ready, dead=dead)

    def purge(self, queue: str) -> int | None:
        topology.check_name(queue)
        return int(self._ask("queue_purge", queue=queue, made_by=queue).message_count)

    def delete(self, queue: str) -> None:
        topology.check_name(queue)
        delays = [name for name in self._delays if name.startswith(topology.delay_of(queue, 0)[:-1])]
        for name in (queue, topology.dead_of(queue), *delays):
            self._ask("queue_delete", queue=name, made_by=queue)
            self._delays.pop(name, None)

    def health(self) -> Health:
        self.require_open()
        return self.timed(lambda: self._ask("basic_qos", prefetch_count=0))

    def _declare(self, name: str, arguments: dict[str, Any]) -> None:
        self._ask("queue_declare", queue=name, durable=True, arguments=arguments, made_by=name)

    # sending

    def send(self, queue: str, message: Outgoing) -> str:
        return self.send_batch(queue, (message,))[0]

    def send_batch(self, queue: str, messages: Sequence[Outgoing]) -> list[str]:
        self.require_open()
        topology.check_name(queue)
        self.check_send(queue, messages)
        for one in messages:
            checked(one)
        now, parcels = int(time.time()), []
        for one in messages:
            target = self._delayed(queue, one.delay) if one.delay else queue
            properties = properties_of(one, one.id or secrets.token_hex(16), now)
            parcels.append(Parcel(target, queue, properties, one.body))
        self._publish(parcels)
        return [str(parcel.properties.message_id) for parcel in parcels]

    def _publish(self, parcels: Sequence[Parcel]) -> None:
        publisher = self._connections.publisher() if parcels else None
        try:
            for some in _portions(parcels):
                assert publisher is not None
                publisher.publish(some)
        except QueueStoreMissingError:
            for parcel in parcels:
                self._delays.pop(parcel.queue, None)  # one that is gone is declared again
            raise

    def _delayed(self, queue: str, delay: float) -> str:
        """The name of the queue that holds a message for so long; it is there."""
        milliseconds = topology.rounded(delay)
        name = topology.delay_of(queue, milliseconds)
        since = self._delays.get(name)
        if since is None or time.monotonic() - since > topology.DECLARED_FOR:
            self._ask("queue_declare", queue=queue, passive=True, made_by=queue)  # else they would expire into nothing
            self._declare(name, topology.delay_arguments(queue, milliseconds, self._settings.queue_type))
            self._delays[name] = time.monotonic()
        return name

    # receiving

    def receive(self, queue: str, limit: int = 1, *, wait: float = 0.0, lease: float = 30.0) -> list[Delivery]:
        self.require_open()
        topology.check_name(queue)
        self.check_receive(limit, wait, lease)
        deadline = time.monotonic() + wait
        with self._connections.receiver(queue, made_by=queue) as receiver:
            found = receiver.take(limit)
            left = deadline - time.monotonic()
            if not found and left > 0 and not self._closed.is_set():
                first = receiver.await_one(left)
                found = [] if first is None else [first]
                if found and limit > 1:
                    found += receiver.take(limit - 1)
            return self._deliveries(queue, receiver, found)

    def dead_letters(self, queue: str, limit: int = 100) -> list[Delivery]:
        self.require_open()
        topology.check_name(queue)
        self.check_receive(limit, 0.0, 1.0)
        with self._connections.receiver(topology.dead_of(queue), made_by=queue) as receiver:
            return self._deliveries(queue, receiver, receiver.take(limit), is_dead=True)

    def _deliveries(
        self, queue: str, receiver: Receiver, found: Sequence[Arrival], *, is_dead: bool = False
    ) -> list[Delivery]:
        return [delivery_of(queue, receiver.lane, one, is_dead=is_dead) for one in found]

    def subscribe(self, queue: str, *, prefetch: int = 100, lease: float = 30.0) -> RabbitMQSubscription:
        topology.check_name(queue)
        check_prefetch(prefetch)
        return self._connections.subscribe(queue, prefetch)

    # settling

    def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        self.require_open()
        claimed = [one.receipt.lane.claim(one.receipt.tag) for one in deliveries]
        lost = self._ack([one for one, ours in zip(deliveries, claimed, strict=True) if ours])
        return [ours and one.receipt.lane not in lost for one, ours in zip(deliveries, claimed, strict=True)]

    def _ack(self, deliveries: Sequence[Delivery]) -> list[Lane]:
        """Ack what was claimed; the channels that are gone, so that it comes again."""
        lost = []
        for lane, tags in _by_lane(deliveries).items():
            try:
                lane.ack(tags)
            except QueueStoreUnavailableError:
                lost.append(lane)
        return lost

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
        if delay:
            self._check_delay(delay)  # which has an end here
        claimed = [one.receipt.lane.claim(one.receipt.tag) for one in deliveries]
        ours = [one for one, is_ours in zip(deliveries, claimed, strict=True) if is_ours]
        by_copy = dead or delay > 0 or self._settings.queue_type == "classic"
        copied = [one for one in ours if by_copy and not one.receipt.is_dead]
        try:
            self._publish([self._copy(one, delay, dead, error) for one in copied])
        except BaseException:
            for one in ours:
                one.receipt.lane.unclaim(one.receipt.tag)
            raise
        self._ack(copied)
        for lane, tags in _by_lane([one for one in ours if not by_copy or one.receipt.is_dead]).items():
            with suppress(QueueStoreUnavailableError):  # which gives them back just as well
                lane.give_back(tags)
        return claimed

    def _copy(self, one: Delivery, delay: float, dead: bool, error: Mapping[str, Any] | None) -> Parcel:
        """What takes the place of a delivery, which is acked when this is confirmed; it has its attempts counted."""
        added = {envelope.ATTEMPTS: str(one.attempts), **envelope.error_header(error)}
        if dead:
            target = topology.dead_of(one.queue)
        elif delay:
            target = self._delayed(one.queue, delay)
        else:
            target = one.queue
        return Parcel(target, one.queue, copy_of(one, **added), one.body)

    def extend(self, deliveries: Sequence[Delivery], seconds: float) -> list[float | None]:
        self.require_open()
        return [math.inf if one.receipt.lane.holds(one.receipt.tag) else None for one in deliveries]

    def close(self) -> None:
        super().close()
        self._connections.close()


def _portions(parcels: Sequence[Parcel]) -> Iterator[Sequence[Parcel]]:
    """Parts that are confirmed one after the other, so that no call waits for more than it can expect in time."""
    start = size = 0
    for position, parcel in enumerate(parcels):
        if position - start == _AT_ONCE or (size + len(parcel.body) > _BYTES_AT_ONCE and position > start):
            yield parcels[start:position]
            start, size = position, 0
        size += len(parcel.body)
    if start < len(parcels):
        yield parcels[start:]


def _by_lane(deliveries: Sequence[Delivery]) -> dict[Lane, list[int]]:
    found: dict[Lane, list[int]] = {}
    for one in deliveries:
        found.setdefault(one.receipt.lane, []).append(one.receipt.tag)
    return found
