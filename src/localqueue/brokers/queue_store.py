"""A broker as the store of a `PersistentQueue`: puts, claims, settles and waits, and a plain refusal of all else.

A broker has no commit. So nothing here happens together with anything else: a put is a send, a settle an ack or a nack,
and a change that would need both at once is refused. Which queues can be had at all, `brokers/fit.py` decides when they
are made.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn, Self

from localqueue.brokers import envelope
from localqueue.brokers.intake import Intake, IntakeWaiter
from localqueue.brokers.port import Broker, Delivery, Outgoing
from localqueue.errors import LeaseLost, QueueStoreMissingError, UnsupportedByBroker
from localqueue.ids import Mint, new_secret
from localqueue.message import QueueStats
from localqueue.stores import rules
from localqueue.stores.port import (
    DEAD,
    DELAYED,
    READY,
    Changes,
    CheckReport,
    Committed,
    Compacted,
    Enqueued,
    Lease,
    LeaseRequest,
    NewMessage,
    Payload,
    RecordWrite,
    Settle,
    StoredMessage,
    Subscriptions,
    Transition,
    Waiter,
)

_MOST_DEAD = 10_000

#: What a store does and a broker does not, and how the refusal calls it.
_REFUSED = {
    "splits": "split a queue into ranges",
    "events": "keep a journal",
    "journal_span": "keep a journal",
    "enable_journal": "keep a journal",
    "disable_journal": "keep a journal",
    "prune_events": "keep a journal",
    "subscribe": "keep subscriptions",
    "unsubscribe": "keep subscriptions",
    "prune": "say how old a dead letter is",
    "cancel_run": "cancel a run",
    "listen_run": "know of runs",
    "run_messages": "know of runs",
    "pause": "pause a queue for everybody",
    "resume": "pause a queue for everybody",
    "backup": "be copied",
}


class BrokerQueueStore:
    """What `Broker.as_store()` returns. It belongs to its broker and is closed with it."""

    calls_at_once = 8

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.capabilities = broker.capabilities
        self.namespace = "default"
        self.url = broker.url
        self._mint = Mint(new_secret())
        self._lock = threading.Lock()
        self._ensured: set[str] = set()
        self._intakes: dict[str, Intake] = {}
        self._held: dict[tuple[str, str, int], Delivery] = {}
        self._pid = os.getpid()

    def __getattr__(self, name: str) -> Any:
        if name in _REFUSED:
            return lambda *_args, **_options: self._refuse(_REFUSED[name])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def mint(self, count: int = 1) -> list[str]:
        return self._mint.take(count)

    def now(self) -> float:
        return time.time()

    # puts

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        self._ensure(queue)
        at = time.time()
        return self.broker.send(queue, envelope.plain(self._mint.take(1)[0], payload, codec, at)), at

    def put_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None, *, records: Sequence[RecordWrite] = ()
    ) -> tuple[Sequence[str], float]:
        self._refuse_records(records)
        self._ensure(queue)
        at = time.time()
        ids = self._mint.take(len(payloads))
        messages = [envelope.plain(*one, codec, at) for one in zip(ids, payloads, strict=True)]
        return self.broker.send_batch(queue, messages), at

    def commit(self, changes: Changes) -> Committed:
        self._refuse_records(changes.records)
        if changes.enqueue and changes.settle:
            self._refuse("put a message in the step that settles another; put it before, by itself")
        if changes.edges or changes.topics or changes.limits:
            self._refuse("make a put depend on anything")
        committed = Committed(versions=[0] * len(changes.records))
        if changes.enqueue:
            committed.enqueued = self._enqueue(changes.enqueue)
        if changes.settle:
            committed.settled = self._settle(changes.settle, strict=changes.strict)
        if changes.lease is not None:
            committed.leased = self.lease(changes.lease)
        return committed

    def _enqueue(self, drafts: Sequence[NewMessage]) -> list[Enqueued]:
        queues: dict[str, list[Outgoing]] = {}
        for one in drafts:
            if one.after or one.run_id is not None:
                self._refuse("have a message wait for others, or belong to a run")
            if one.ttl is not None:
                self._refuse("take a time to live; have the handler look at the message's age")
            if one.past is not None:
                self._refuse("take a message with its history")
            queues.setdefault(one.queue, []).append(envelope.outgoing(one))
        if len(queues) > 1:
            self._refuse("put into several queues together")
        at = time.time()
        for queue, messages in queues.items():
            self._ensure(queue)
            ids = self.broker.send_batch(queue, messages)
        return [
            Enqueued("stored", DELAYED if one.delay else READY, at, id=message_id)
            for one, message_id in zip(drafts, ids, strict=True)
        ]

    # claims

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        self._ensure(request.queue)
        found = self._intake(request.queue).take(request.limit, request.timeout)
        if request.max_attempts is not None:
            found = self._bury_exhausted(found, request.max_attempts)
        if request.consume:
            acked = self.broker.ack(found) if found else []
            found = [one for one, done in zip(found, acked, strict=True) if done]
        else:
            for one in found:
                self._held[one.queue, one.id, one.attempts] = one
        return [envelope.stored(one, request.leased_by) for one in found]

    def _bury_exhausted(self, found: list[Delivery], most: int) -> list[Delivery]:
        for one in found:
            if one.attempts > most:
                error = rules.attempts_exhausted(one.attempts - 1, "its worker was gone")
                self.broker.nack([one], dead=True, error=error)
        return [one for one in found if one.attempts <= most]

    def renew(self, leases: Sequence[Lease], *, timeout: float) -> list[float | None]:
        held = [self._held.get((one.queue, one.id, one.token)) for one in leases]
        known = [one for one in held if one is not None]
        answers = iter(self.broker.extend(known, timeout) if known else [])
        renewed = [None if one is None else next(answers) for one in held]
        for lease, until in zip(leases, renewed, strict=True):
            if until is None:
                self._held.pop((lease.queue, lease.id, lease.token), None)
        return renewed

    # settles

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        delivery = self._held.pop((queue, message_id, token), None)
        return delivery is not None and self.broker.ack([delivery])[0]

    def _settle(self, settles: Sequence[Settle], *, strict: bool) -> list[bool]:
        held = [self._delivery_of(one) for one in settles]
        for one, delivery in zip(settles, held, strict=True):
            if delivery is None and strict:
                raise LeaseLost(one.queue, one.id, one.token)
        done = [False] * len(settles)
        together: dict[tuple[Any, ...], list[int]] = {}
        for position, (one, delivery) in enumerate(zip(settles, held, strict=True)):
            if delivery is not None:
                together.setdefault(_way(position, one, delivery), []).append(position)
        for positions in together.values():
            found = [delivery for position in positions if (delivery := held[position]) is not None]
            for position, settled in zip(positions, self._settle_alike(settles[positions[0]], found), strict=True):
                done[position] = settled
                self._held.pop((settles[position].queue, settles[position].id, settles[position].token or 0), None)
        return done

    def _settle_alike(self, one: Settle, found: list[Delivery]) -> list[bool]:
        if one.action == "ack":
            return self.broker.ack(found)
        if one.action == "release" and not _is_spent(one, found[0]):
            return self.broker.nack(found, delay=one.delay)
        error = one.error
        if error is None and one.action == "release":
            error = rules.attempts_exhausted(found[0].attempts, "it was released")
        return self.broker.nack(found, dead=True, error=error)

    def _delivery_of(self, one: Settle) -> Delivery | None:
        if one.action == "cancel":
            self._refuse("cancel a message")
        if one.token is None:
            self._refuse("settle a message that is not leased here; receive it first")
        return self._held.get((one.queue, one.id, one.token))

    # looks

    def get(self, queue: str, message_id: str) -> StoredMessage | None:
        """A message that is leased here; of others a broker tells nothing."""
        for (name, found, _), delivery in list(self._held.items()):
            if (name, found) == (queue, message_id):
                return envelope.stored(delivery)
        return None

    def stats(self, queue: str) -> QueueStats:
        try:
            found = self.broker.stats(queue)
        except QueueStoreMissingError:
            return QueueStats()
        ready, inflight, delayed, dead = (number or 0 for number in found)
        return QueueStats(ready, delayed, inflight, dead, ready + delayed + inflight + dead)

    def qsize(self, queue: str) -> int:
        return self.stats(queue).ready

    load = qsize

    def scan(
        self,
        queue: str,
        *,
        state: str | None = None,
        after: str | None = None,
        until: str | None = None,
        limit: int | None = None,
    ) -> list[StoredMessage]:
        """Dead letters, which are taken and left where they are. Other messages can not be looked at."""
        if state != DEAD or after is not None or until is not None:
            self._refuse("show messages that wait; only dead letters")
        try:
            found = self.broker.dead_letters(queue, _MOST_DEAD if limit is None else limit)
        except QueueStoreMissingError:
            return []
        self.broker.nack(found)
        return [envelope.stored(one)._replace(state=DEAD, leased_until=None) for one in found]

    def requeue(self, queue: str, ids: Sequence[str] | None = None, *, delay: float = 0.0) -> int:
        """Send dead letters again, and remove them where they were: one that is cut off may be in both places."""
        wanted = None if ids is None else set(ids)
        returned = 0
        found = self.broker.dead_letters(queue, _MOST_DEAD)
        for one in found:
            if wanted is not None and one.id not in wanted:
                continue
            drop = (envelope.ERROR, envelope.ATTEMPTS)
            headers = {name: value for name, value in one.headers.items() if name not in drop}
            self.broker.send(queue, Outgoing(one.body, headers, one.id, one.key, delay, one.priority))
            returned += self.broker.ack([one])[0]
        self.broker.nack([one for one in found if wanted is not None and one.id not in wanted])
        return returned

    def queues(self) -> list[str]:
        """Those that were used through this object: a broker is not asked for all it has."""
        return sorted(self._ensured)

    def runs(self, *, after: str = "", limit: int | None = None) -> list[str]:
        return []

    def run(self, run_id: str) -> None:
        return None

    def upstream(self, queue: str, message_id: str) -> list[str]:
        return []

    def record(self, kind: str, key: str) -> None:
        return None

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Any]:
        return []

    def subscriptions(self, topic: str) -> Subscriptions:
        return Subscriptions(0, ())

    def journal_enabled(self) -> bool:
        return False

    def paused(self, queue: str, *, worker: str | None = None) -> bool:
        return False

    @contextmanager
    def observe(self) -> Iterator[list[Transition]]:
        yield []

    # operations

    def purge(self, queue: str) -> int:
        return self.broker.purge(queue) or 0

    def heartbeat(self, queue: str, worker_id: str, *, leases: int = 0) -> None:
        """A broker knows its consumers by their connections."""

    def compact(self) -> Compacted:
        return Compacted()

    def check(self) -> CheckReport:
        health = self.broker.health()
        return CheckReport(() if health.ok else (health.detail,))

    # waits

    def listen(self, queues: Sequence[str], *, worker: str | None = None) -> Waiter:
        if len(queues) != 1:
            self._refuse("be waited for at several queues at once; wait at each of them")
        self._ensure(queues[0])
        return IntakeWaiter(self._intake(queues[0]))

    def listen_capacity(self, limits: Mapping[str, int]) -> Waiter:
        self._refuse("be waited for until it has room")

    def listen_records(self, kind: str, keys: Sequence[str]) -> Waiter:
        """Nothing is ever recorded, so this only waits."""
        return Silence()

    def close(self) -> None:
        """Give back what was received and not taken. The broker stays its owner's."""
        with self._lock:
            intakes, self._intakes = list(self._intakes.values()), {}
        for intake in intakes:
            intake.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ensure(self, queue: str) -> None:
        if queue not in self._ensured:
            self.broker.ensure(queue)
            self._ensured.add(queue)

    def _intake(self, queue: str) -> Intake:
        if self._pid != os.getpid():  # a child of a fork has received nothing yet
            self._lock, self._intakes, self._held, self._pid = threading.Lock(), {}, {}, os.getpid()
        found = self._intakes.get(queue)
        if found is None:
            with self._lock:
                found = self._intakes.setdefault(queue, Intake(self.broker, queue))
        return found

    def _refuse_records(self, records: Sequence[RecordWrite]) -> None:
        if any(one.value is not None for one in records):
            self._refuse("keep records: results, progress, limits and ledgers need a store")

    def _refuse(self, what: str) -> NoReturn:
        raise UnsupportedByBroker(f"{self.capabilities.name} can not {what}")


class Silence:
    """A waiter for what never happens."""

    def __init__(self) -> None:
        self._ended = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self._ended.wait(timeout)
        self._ended.clear()
        return False

    heard = wait

    def interrupt(self) -> None:
        self._ended.set()

    def close(self) -> None:
        self._ended.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _way(position: int, one: Settle, delivery: Delivery) -> tuple[Any, ...]:
    """What settles that can be one call to the broker have in common; a dead letter has an error of its own."""
    if one.action == "ack":
        return ("ack",)
    if one.action == "release" and not _is_spent(one, delivery):
        return ("release", one.delay)
    return ("dead-letter", position)


def _is_spent(one: Settle, delivery: Delivery) -> bool:
    return one.max_attempts is not None and delivery.attempts >= one.max_attempts
