"""`PGMQBroker`: messages in the queues of PGMQ, by its own SQL."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from localqueue.brokers import envelope
from localqueue.brokers.base import BrokerBase
from localqueue.brokers.capabilities import capabilities_of
from localqueue.brokers.pgmq import letter
from localqueue.brokers.pgmq.backlog import Backlog
from localqueue.brokers.pgmq.outbox import Outbox
from localqueue.brokers.pgmq.server import Server
from localqueue.brokers.pgmq.table import DEAD, Table, These, require_name
from localqueue.brokers.port import NO_HEADERS, BrokerStats, Delivery, Health, Outgoing
from localqueue.brokers.store import StoreSubscription
from localqueue.errors import QueueStoreMissingError
from localqueue.stores import rules
from localqueue.stores.postgres.libpq import Quick, float8, int4, int8
from localqueue.stores.wake import StoreWaiter

_MOST = 2_147_483_647  # of an integer of the server

_READ = (
    "SELECT msg_id, read_ct, date_part('epoch', enqueued_at), date_part('epoch', vt), message::text, {} "
    "FROM pgmq.read($1::text, $2::int4, $3::int4)"
)


class PGMQBroker(BrokerBase):
    """Queues of PGMQ in a PostgreSQL database, beside any other program that uses them.

    `url` is `pgmq://user:password@host:5432/database`; PGMQ must be installed there. Times are the server's. Leases are
    whole seconds, rounded up, and so are delays with a PGMQ before 1.5. `ensure` makes the queue, the queue
    `<queue>_dead`, and a trigger that tells of inserts on PGMQ's own channel, unless its `enable_notify_insert` does so
    already. `timeout`, `pooled`, `listen_url` and `connections` are those of `PostgresQueueStore`. Safe to share
    between threads and to carry over a fork.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 15.0,
        pooled: bool = False,
        listen_url: str | None = None,
        connections: int = 10,
    ) -> None:
        self._server = Server(url, timeout=timeout, pooled=pooled, listen_url=listen_url, connections=connections)
        super().__init__(capabilities_of("pgmq"), self._server.url)
        self._lock = threading.Lock()
        self._waiting: set[StoreWaiter] = set()
        self._reads: Counter[str] = Counter()
        self._outbox = Outbox(self._server)
        self._purge = self._server.prepare("SELECT pgmq.purge_queue($1::text)")
        self._reading: Quick | None = None

    def ensure(self, queue: str) -> None:
        self.require_open()
        self._server.make(require_name(queue))

    def send(self, queue: str, message: Outgoing) -> str:
        self._check(queue, (message,))
        return self._outbox.send(queue, message)

    def send_batch(self, queue: str, messages: Sequence[Outgoing]) -> list[str]:
        self._check(queue, messages)
        return self._outbox.send_batch(queue, messages) if messages else []

    def _check(self, queue: str, messages: Sequence[Outgoing]) -> None:
        self.require_open()
        require_name(queue)
        self.check_send(queue, messages)

    # deliveries

    def receive(self, queue: str, limit: int = 1, *, wait: float = 0.0, lease: float = 30.0) -> list[Delivery]:
        self.require_open()
        self.check_receive(limit, wait, lease)
        require_name(queue)
        found = self._read(queue, limit, lease)
        if not found and wait > 0:
            found = self._wait_for(queue, wait, lambda: self._read(queue, limit, lease))
        return found

    def _read(self, queue: str, limit: int, lease: float) -> list[Delivery]:
        if self._reading is None:
            headers = "headers::text" if self._server.offer().headers else "NULL::text"
            self._reading = self._server.prepare(_READ.format(headers))
        values = (queue.encode(), int4(min(math.ceil(lease), _MOST)), int4(min(limit, _MOST)))
        rows = self._server.rows(queue, self._reading, values)
        if not rows:
            return []
        self._reads[queue] += 1
        rows.sort()  # PGMQ reads the oldest, and returns them in any order
        return [
            letter.delivery(queue, msg_id, reads, sent_at, until, message, headers)
            for msg_id, reads, sent_at, until, message, headers in rows
        ]

    def _wait_for(self, queue: str, wait: float, read: Callable[[], list[Delivery]]) -> list[Delivery]:
        deadline = time.monotonic() + wait
        with self._listen(queue) as waiter:
            with self._lock:
                self._waiting.add(waiter)
            try:
                while (left := deadline - time.monotonic()) > 0 and not self._closed.is_set() and waiter.heard(left):
                    if self._closed.is_set():
                        break
                    if found := read():
                        return found
            finally:
                with self._lock:
                    self._waiting.discard(waiter)
        return []

    def _listen(self, queue: str) -> StoreWaiter:
        return StoreWaiter(self._server.ear(queue).open(), (queue,), Backlog(queue, self._due, self._reads).look)

    def _due(self, queue: str) -> float:
        if self._closed.is_set():
            return rules.NEVER
        ((seconds,),) = self._server.rows(queue, self._server.table(queue).due, (), again=True)
        return rules.NEVER if seconds is None else float(seconds)

    def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        def remove(table: Table, dead: bool, these: These) -> set[int]:
            statement = table.remove_unread if dead else table.remove
            return {row[0] for row in self._server.rows(table.queue, statement, these.values)}

        return self._settle(deliveries, remove)

    def nack(
        self,
        deliveries: Sequence[Delivery],
        *,
        delay: float = 0.0,
        dead: bool = False,
        error: Mapping[str, Any] | None = None,
    ) -> list[bool]:
        def give_back(table: Table, buried: bool, these: These) -> set[int]:
            if buried:  # a dead letter stays where it is
                return set(these.msg_ids)
            if dead:
                return self._bury(table, these, envelope.error_header(error))
            rows = self._server.rows(table.queue, table.give_back, (*these.values, float8(delay)))
            return {row[0] for row in rows}

        if delay:
            self._check_delay(delay)
        return self._settle(deliveries, give_back)

    def _bury(self, table: Table, these: These, why: Mapping[str, str]) -> set[int]:
        queue = table.queue

        def move(connection: Any) -> set[int]:
            rows = table.bury.rows(connection, these.values)
            if rows:
                dead = [letter.dead_letter(row, why) for row in sorted(rows)]
                self._outbox.send_within(connection, queue + DEAD, dead)
            return {row[0] for row in rows}

        try:
            return self._server.together(queue, move)
        except QueueStoreMissingError:
            self.stats(queue)  # raises if it is the queue itself that is not there, which another program may have made
            self._server.make(queue, dead_only=True)
            return self._server.together(queue, move)

    def extend(self, deliveries: Sequence[Delivery], seconds: float) -> list[float | None]:
        if not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
            raise ValueError(f"seconds must be a number greater than zero, not {seconds!r}")
        until: dict[tuple[str, int], float] = {}

        def hold(table: Table, dead: bool, these: These) -> set[int]:
            rows = [] if dead else self._server.rows(table.queue, table.hold, (*these.values, float8(seconds)))
            until.update({(table.queue, msg_id): float(held) for msg_id, held in rows})
            return {row[0] for row in rows}

        held = self._settle(deliveries, hold)
        return [
            until[one.queue, one.receipt.msg_id] if done else None for one, done in zip(deliveries, held, strict=True)
        ]

    def written(self, delivery: Delivery) -> str:
        return json.dumps(delivery.receipt)

    def resumed(self, queue: str, message_id: str, receipt: str) -> Delivery:
        return Delivery(queue, message_id, b"", NO_HEADERS, 1, letter.Receipt(*json.loads(receipt)))

    def _settle(self, deliveries: Sequence[Delivery], settle: Callable[[Table, bool, These], set[int]]) -> list[bool]:
        """Settle deliveries that were read as often in one statement, which are nearly always all of a queue."""
        self.require_open()
        alike: dict[tuple[str, int, bool], list[int]] = {}
        for position, one in enumerate(deliveries):
            alike.setdefault((one.queue, one.receipt.reads, one.receipt.dead), []).append(position)
        answers = [False] * len(deliveries)
        for (queue, reads, dead), positions in alike.items():
            table = self._server.table(require_name(queue) + DEAD if dead else require_name(queue))
            msg_ids = [deliveries[position].receipt.msg_id for position in positions]
            done = settle(table, dead, These(msg_ids, reads))
            for position, msg_id in zip(positions, msg_ids, strict=True):
                answers[position] = msg_id in done
                done.discard(msg_id)
        return answers

    def dead_letters(self, queue: str, limit: int = 100) -> list[Delivery]:
        """The oldest dead letters. They are not hidden from others meanwhile: an `ack` says who was first."""
        self.require_open()
        self.check_receive(limit, 0.0, 1.0)
        table = self._server.table(require_name(queue) + DEAD)
        try:
            rows = self._server.rows(table.queue, table.first, (int8(limit),), again=True)
        except QueueStoreMissingError:
            self.stats(queue)
            return []
        return [
            letter.delivery(queue, msg_id, reads, sent_at, None, message, headers, dead=True)
            for msg_id, reads, sent_at, message, headers in rows
        ]

    # looks

    def stats(self, queue: str) -> BrokerStats:
        self.require_open()
        ready, inflight, delayed = self._counts(require_name(queue))
        try:
            dead = sum(self._counts(queue + DEAD))
        except QueueStoreMissingError:
            dead = 0
        return BrokerStats(ready, inflight, delayed, dead)

    def _counts(self, queue: str) -> tuple[int, int, int]:
        ((ready, inflight, delayed),) = self._server.rows(queue, self._server.table(queue).counts, (), again=True)
        return ready, inflight, delayed

    def purge(self, queue: str) -> int | None:
        """By PGMQ's own function: those that are being handled are removed too."""
        self.require_open()
        self._server.offer()
        return int(self._server.rows(queue, self._purge, (require_name(queue).encode(),))[0][0])

    def delete(self, queue: str) -> None:
        self.require_open()
        self._server.drop(require_name(queue))

    def health(self) -> Health:
        self.require_open()
        return self.timed(self._server.look)

    def subscribe(self, queue: str, *, prefetch: int = 100, lease: float = 30.0) -> StoreSubscription:
        """Told of what can be received. A signal holds nothing, so `prefetch` and `lease` have no part in it."""
        self.require_open()
        self._due(require_name(queue))  # raises where there is no such queue
        return StoreSubscription(self._listen(queue), queue)

    def close(self) -> None:
        super().close()
        with self._lock:
            waiting = list(self._waiting)
        for waiter in waiting:
            waiter.interrupt()
        self._server.close()
