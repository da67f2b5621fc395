"""A queue of a broker as `Claims` wants it: messages from the broker, records in a store of their own.

A broker has no records, and no commit that a record and an ack could share. So the order decides, and what a death cuts
off is made up for when the message comes again, as it must, for it is not acked:

1. receive messages;
2. write them as claim n in the claim store, with the names they are known by;
3. Spark reads them from there, runs the batch and commits it to its log;
4. note in the claim store that n is settled;
5. ack them at the broker.

A message that comes again is looked up by its name. In a claim that is not settled, it is held for that claim and acked
with it; in one that is, it is acked there and then; in neither, it is new, whoever had it before. A message that has no
name (RabbitMQ, if its sender gave it no `message_id`) is always new: it may become a row more than once.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from localqueue.brokers import envelope
from localqueue.brokers.port import Broker, Delivery
from localqueue.errors import QueueError
from localqueue.message import QueueStats
from localqueue.spark.streams.broker_debt import Debt
from localqueue.spark.streams.broker_holdings import Holding, Holdings
from localqueue.spark.streams.consumer_record import CLAIMS, CONSUMERS, ORIGINS, Consumer, consumer_key
from localqueue.spark.streams.inbox import Inbox
from localqueue.spark.streams.origin import Origin, decode, encode, name_of
from localqueue.stores import rules
from localqueue.stores.port import (
    Changes,
    Committed,
    Lease,
    LeaseRequest,
    QueueStore,
    Record,
    RecordWrite,
    Settle,
    StoredMessage,
    Waiter,
)

_PAGE = 1_000
_LONG_WAIT = 1.0  # seconds: a broker that is only found empty by waiting is waited for so long
_log = logging.getLogger(__name__)


class Due(NamedTuple):
    """What the broker is to be told of a delivery: that it is done, or why it is a dead letter."""

    delivery: Delivery
    name: str | None
    error: Mapping[str, Any] | None


class BrokerQueue:
    """As much of a store as a consumer needs. Its claims call the queue by `name`; closing it closes both places."""

    def __init__(
        self, broker: Broker, queue: str, store: QueueStore, *, name: str, consumer: str, lease: float
    ) -> None:
        self.url = broker.url
        self._broker = broker
        self._queue = queue
        self._store = store
        self._key = consumer_key(name, consumer)
        self._inbox = Inbox(broker, queue, lease)
        self._lock = threading.RLock()
        self._fresh: deque[Delivery] = deque()  # received and not leased yet
        self._held = Holdings(broker)
        self._debt = Debt(broker.capabilities)
        self._owned = False

    # records

    def record(self, kind: str, key: str) -> Record | None:
        return self._store.record(kind, key)

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Record]:
        return self._store.records(kind, after=after, limit=limit)

    def now(self) -> float:
        return self._store.now()

    def commit(self, changes: Changes) -> Committed:
        """Write the records, and with them what was claimed and settled; then settle at the broker.

        Every settle counts as done: what the broker did not hear of is made up for when the message comes again.
        """
        with self._lock:
            chunks = {one.key: one.value for one in changes.records if one.kind == CLAIMS and one.value is not None}
            made = {key: origins for key, chunk in chunks.items() if (origins := self._held.origins(chunk))}
            ended = [(one, held) for one in changes.settle if (held := self._held.get(one.id, one.token)) is not None]
            released = {held.chunk for one, held in ended if one.action == "release"}
            writes = [RecordWrite(ORIGINS, key, encode(origins)) for key, origins in made.items()]
            writes += self._debt.writes(_errors(ended), released)
            committed = self._store.commit(Changes(records=[*changes.records, *writes]))
            self._debt.written()
            for key, origins in made.items():
                self._debt.claimed(key, origins)
                for one in origins:
                    if (held := self._held.get(one.id, one.token)) is not None:
                        held.chunk = key
            if changes.records and not self._owned:
                self._take_over()
            due = self._end(ended)
        back = [held.delivery for one, held in ended if one.action == "release" and held.delivery is not None]
        if back:
            self._ask(lambda: self._broker.nack(back))
        self._pay(due)
        committed.versions = committed.versions[: len(changes.records)]
        committed.settled = [True] * len(changes.settle)
        return committed

    def _take_over(self) -> None:
        """Whoever had the consumer can write no more: what is known of his claims is all there is."""
        self._owned = True
        record = self._store.record(CONSUMERS, self._key)
        settled = 0 if record is None else Consumer.of(record.value).settled
        unpaid: list[Due] = []
        for chunk, claim, origins in self._origins():
            self._debt.claimed(chunk, origins)
            for one in origins:
                delivery = self._held.resumed(self._queue, one)
                if claim > settled:
                    self._held.add((one.id, one.token), Holding(one.name, delivery, chunk))
                    continue
                error = None if one.error is None else json.loads(one.error)
                self._debt.owe(one.name, chunk, error)
                if delivery is not None and claim == settled:  # it is not known whether the last ones were acked
                    unpaid.append(Due(delivery, one.name, error))
        self._pay(unpaid)

    def _origins(self) -> Iterator[tuple[str, int, list[Origin]]]:
        after = f"{self._key}:"
        while page := self._store.records(ORIGINS, after=after, limit=20):
            for record in page:
                if not record.key.startswith(f"{self._key}:"):
                    return
                yield record.key, int(record.key.split(":")[2]), decode(record.value)
            after = page[-1].key

    # leases

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        """Messages that are new. Those that came again are settled, or held for the claim that has them."""
        wait = 0.0 if self._inbox.used or self._broker.capabilities.long_wait is None else _LONG_WAIT
        self._fresh.extend(self._inbox.take())
        leased: list[StoredMessage] = []
        again: list[Due] = []
        while True:
            while self._fresh and len(leased) < request.limit:
                leased += self._admitted(self._fresh.popleft(), request, again)
            wanted = min(request.limit - len(leased), _PAGE)
            if wanted == 0 or self._inbox.listens:
                break
            found = self._broker.receive(self._queue, wanted, wait=wait, lease=request.timeout)
            if not found:
                break
            wait = 0.0
            self._fresh.extend(found)
        self._pay(again)
        return leased

    def _admitted(self, one: Delivery, request: LeaseRequest, again: list[Due]) -> list[StoredMessage]:
        name = name_of(one)
        with self._lock:
            if name is not None and one.redelivered:
                if (held := self._held.named(name)) is not None:
                    held.delivery = one
                    return []
                if name in self._debt:
                    again.append(Due(one, name, self._debt.error(name)))
                    return []
            if request.max_attempts is not None and one.attempts > request.max_attempts:
                again.append(Due(one, None, rules.attempts_exhausted(one.attempts - 1, "its worker was gone")))
                return []
            message_id = self._held.own_id(one.id)
            self._held.add((message_id, one.attempts), Holding(name, one))
        return [envelope.stored(one, request.leased_by)._replace(id=message_id)]

    def renew(self, leases: Sequence[Lease], *, timeout: float) -> list[float | None]:
        """Until when each is ours. One that has a name is ours in any case: it comes again, and is known."""
        with self._lock:
            found = [self._held.get(one.id, one.token) for one in leases]
            held = [(one, one.delivery) for one in found if one is not None and one.delivery is not None]
        answers = self._broker.extend([delivery for _, delivery in held], timeout) if held else []
        with self._lock:
            for (one, delivery), until in zip(held, answers, strict=True):
                if until is None and one.delivery is delivery:
                    one.delivery = None
        until = time.time() + timeout
        return [None if one is None or (one.delivery is None and one.name is None) else until for one in found]

    # settles

    def _end(self, ended: Sequence[tuple[Settle, Holding]]) -> list[Due]:
        """Hold these no more; what the broker is to be told of them."""
        due = []
        for one, held in ended:
            self._held.remove(one.id, one.token)
            if one.action == "release":
                continue
            if held.name is not None and held.chunk is not None:
                self._debt.owe(held.name, held.chunk, one.error)
            if held.delivery is not None:
                due.append(Due(held.delivery, held.name, one.error))
        return due

    def _pay(self, due: Sequence[Due]) -> None:
        """Tell the broker of what is settled in the claim store."""
        done = [one for one in due if one.error is None]
        acked = self._ask(lambda: self._broker.ack([one.delivery for one in done])) if done else []
        paid = [one.name for one, accepted in zip(done, acked, strict=False) if accepted]
        buried = [one.name for one in due if one.error is not None and self._bury(one)]
        with self._lock:
            self._debt.paid([name for name in paid if name is not None], [name for name in buried if name is not None])

    def _bury(self, one: Due) -> bool:
        return self._ask(lambda: self._broker.nack([one.delivery], dead=True, error=one.error)) == [True]

    def _ask(self, ask: Callable[[], list[bool]]) -> list[bool]:
        try:
            return ask()
        except QueueError as error:
            _log.warning("%s: messages of queue %r are settled when they come again: %s", self.url, self._queue, error)
            return []

    # looks

    def scan(self, queue: str, **_: Any) -> list[StoredMessage]:
        """Nothing: a broker shows no messages, and what a driver that died had received comes again by itself."""
        return []

    def stats(self, queue: str) -> QueueStats:
        found = self._broker.stats(self._queue)
        ready, inflight, delayed, dead = (number or 0 for number in found)
        with self._lock:
            ready += len(self._fresh)
            if not self._broker.capabilities.single_acks:  # it counts whatever is not acked
                ready -= len(self._fresh) + sum(one.delivery is not None for one in self._held)
        ready = max(ready, 0)
        return QueueStats(ready, delayed, inflight, dead, ready + delayed + inflight + dead)

    def listen(self, queues: Sequence[str], *, worker: str | None = None) -> Waiter:
        return self._inbox

    def close(self) -> None:
        """Give back what was received and not claimed, and leave the claims as they are."""
        with self._lock:
            back = list(self._fresh)
            self._fresh.clear()
        try:
            if not self._inbox.listens:
                back += self._inbox.take()
            if back:
                self._broker.nack(back)
        except QueueError:
            pass  # they come again without that, a little later
        self._inbox.close()
        self._broker.close()
        self._store.close()


def _errors(ended: Sequence[tuple[Settle, Holding]]) -> dict[str, dict[str, Any]]:
    """By chunk and name, why messages of claims become dead letters."""
    found: dict[str, dict[str, Any]] = {}
    for one, held in ended:
        if one.action == "dead-letter" and held.chunk is not None and held.name is not None:
            found.setdefault(held.chunk, {})[held.name] = one.error
    return found
