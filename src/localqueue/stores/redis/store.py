"""`RedisQueueStore`: the store port on a Redis server.

Every write is one call of a function on the server, which is one transaction there. This file is the three write verbs
and their short forms; `lua/` is what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from localqueue.errors import QueueStoreUnavailableError
from localqueue.ids import IdRange, Mint
from localqueue.stores import fork
from localqueue.stores.port import (
    Changes,
    Committed,
    Enqueued,
    Lease,
    LeaseRequest,
    Payload,
    RecordWrite,
    StoredMessage,
)
from localqueue.stores.redis import backup, opening, packing, values
from localqueue.stores.redis.calling import Refused
from localqueue.stores.redis.driver import without_password
from localqueue.stores.redis.journal import KeepsJournal
from localqueue.stores.redis.link import Link
from localqueue.stores.redis.listening import Ear, ListensToQueues
from localqueue.stores.redis.names import keys, root
from localqueue.stores.redis.operating import Operates
from localqueue.stores.redis.refusals import explain
from localqueue.stores.wiring import Wiring


class RedisQueueStore(ListensToQueues, KeepsJournal, Operates):
    """Redis-backed queue store, for a server of version 7.0 or newer or a cluster of them.

    The server must persist what it confirms (`appendonly yes`), or the store must be opened with `volatile=True`. With
    `durability="process"` what is confirmed survives the death of any process; how much a loss of power can take is the
    server's setting (`appendfsync everysec`: about the last second). `"power"` insists on `appendfsync always`.
    `timeout` is how long to wait for an answer. Safe to share between threads, and to carry over a fork.
    """

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "default",
        durability: str = "process",
        clock: Callable[[], float] | None = None,
        timeout: float = 15.0,
        volatile: bool = False,
    ) -> None:
        if durability not in ("process", "power"):
            raise ValueError(f"durability must be 'process' or 'power', not {durability!r}")
        if not namespace:
            raise ValueError("namespace cannot be empty")
        super().__init__()
        self.durability = durability
        self._url = url
        self._namespace = namespace
        self._clock = clock
        self._timeout = timeout
        self._root = root(namespace)
        self._closed = False
        self._connect()
        try:
            opening.check_server(self._link, durability=durability, volatile=volatile)
            self._keys = keys(self._root, cluster=self._link.is_cluster)
            secret = opening.open_namespace(self._link, self._root, namespace)
            self._proof = str(secret).encode()
            self.ids = Mint(secret)
        except BaseException:
            self._link.close()
            raise
        fork.track(self)

    def _connect(self) -> None:
        self._link = Link(self._url, timeout=self._timeout)
        self._ear = Ear(self._link, self._url, self._root)
        self._wake = self._ear.wake

    @property
    def namespace(self) -> str:
        return self._namespace

    @property
    def url(self) -> str:
        return without_password(self._url)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, namespace={self._namespace!r})"

    def now(self) -> float:
        if self._clock is not None:
            return self._clock()
        seconds, micros = self._link.command(b"TIME")
        return int(seconds) + int(micros) / 1e6

    def mint(self, count: int = 1) -> list[str]:
        return self.ids.take(count)

    # the three write verbs

    def commit(self, changes: Changes) -> Committed:
        enqueue = changes.enqueue
        try:
            if packing.is_step(changes):
                return self._step(changes)
            if len(enqueue) == 1 and self._is_put(changes):
                return self._put_plain(changes)
            return self._commit(changes)
        except Refused as refused:
            raise explain(refused, changes, self._key, self._name_of) from None

    def _is_put(self, changes: Changes) -> bool:
        return (
            not (changes.edges or changes.settle or changes.records or changes.limits or changes.topics)
            and changes.lease is None
            and packing.is_plain(changes.enqueue[0])
        )

    def _put_plain(self, changes: Changes) -> Committed:
        message = changes.enqueue[0]
        key = packing.own_key(self.ids, message.id)
        body = values.tail(message.payload, message.codec, message.priority, message.headers)
        queue = self._queue(message.queue)
        now = self._raw("put", self._time(), queue, key, body, values.number(-message.priority))
        self._wake.touched((queue.decode(),))
        return Committed([Enqueued("stored", "ready", float(now))])

    def _step(self, changes: Changes) -> Committed:
        arguments = packing.step(self.ids, self._digest, changes)
        now, (settled, leased) = self._write("step", *arguments)
        self._tell(changes)
        return Committed([], _flags(settled), self._leased(changes.lease, leased, now))

    def _commit(self, changes: Changes) -> Committed:
        wiring = Wiring()
        in_order = wiring.in_order(changes.enqueue)
        self._make(message.queue for message in in_order)
        self._make(limit.overflow_queue for limit in changes.limits.values() if limit.overflow_queue is not None)
        arguments = packing.commit(self.ids, self._digest, changes, in_order)
        undo = bool(changes.enqueue or changes.edges) or len(changes.settle) + len(changes.records) > 1
        now, (enqueued, settled, leased) = self._write("commit" if in_order else "settle", *arguments, undo=undo)
        self._tell(changes)
        outcomes = dict(zip((message.id for message in in_order), self._enqueued(enqueued, now), strict=True))
        return Committed(
            [outcomes[message.id] for message in changes.enqueue],
            _flags(settled),
            self._leased(changes.lease, leased, now),
        )

    def _enqueued(self, parts: list[Any], now: float) -> list[Enqueued]:
        outcomes, at = [], 0
        while at < len(parts):
            outcome = parts[at].decode()
            if outcome == "duplicate":
                (existing,) = self._messages(parts[at + 1 : at + 5])
                outcomes.append(Enqueued(outcome, existing.state, now, existing))
                at += 5
            elif outcome == "dropped":
                outcomes.append(Enqueued(outcome, outcome, now))
                at += 1
            else:
                outcomes.append(Enqueued(outcome, parts[at + 1].decode(), now))
                at += 2
        return outcomes

    def _tell(self, changes: Changes) -> None:
        """Have those in this process look who wait for what was changed; the server tells all others."""
        names = {message.queue for message in changes.enqueue}
        names.update(one.queue for one in changes.settle)
        if changes.lease is not None:
            names.add(changes.lease.queue)
        self._wake.touched([self._digest(name).decode() for name in names])

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        arguments = packing.lease(self._digest, request)
        while True:
            now, (found, again) = self._write("lease", *arguments)
            if not again:
                break
        if found:
            self._wake.touched((arguments[0].decode(),))
        return self._leased(request, found, now)

    def _leased(self, request: LeaseRequest | None, found: list[Any], now: float) -> list[StoredMessage]:
        if request is None:
            return []
        queue, until, by, ids = request.queue, now + request.timeout, request.leased_by, self.ids
        messages = []
        for n in range(0, len(found), 4):
            key, body, extra, record = found[n : n + 4]
            message = values.leased_message(ids, queue, key, body, extra, now, until, by)
            if record is not None:
                assert request.ledger is not None
                message = message._replace(
                    record=values.record(request.ledger, f"{queue}:{message.dedupe_key}", record)
                )
            messages.append(message)
        return messages

    def renew(self, leases: Sequence[Lease], *, timeout: float) -> list[float | None]:
        parts = [values.number(timeout), packing.count(leases)]
        for queue, message_id, token in leases:
            parts += (self._digest(queue), self._key(message_id), values.number(token))
        _, (renewed, until) = self._write("renew", *parts, again=True)
        return [float(until) if one else None for one in _flags(renewed)]

    # the same for plain messages

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        name, body = self._queue(queue), values.tail(payload, codec)
        while True:
            key = self.ids.reserve()
            try:
                now = self._raw("put", self._time(), name, key.to_bytes(8), body, b"0")
                break
            except Refused:  # another process minted the same key
                continue
        self._wake.touched((name.decode(),))
        return self.ids.id_of(key), float(now)

    def put_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None, *, records: Sequence[RecordWrite] = ()
    ) -> tuple[Sequence[str], float]:
        name, bodies = self._queue(queue), [values.tail(payload, codec) for payload in payloads]
        if records:
            bodies += packing.records(self.ids, records)
        while True:
            first = self.ids.reserve(len(payloads))
            keys = range(first, first + len(payloads))
            try:
                now, _ = self._write("put_batch", name, b"".join(key.to_bytes(8) for key in keys), *bodies)
                break
            except Refused as refused:
                if refused.name != "IdTaken":
                    raise explain(refused, Changes(records=records), self._key, self._name_of) from None
        self._wake.touched((name.decode(),))
        return IdRange(self.ids, keys), now

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        name = self._digest(queue)
        arguments = (self._time(), name, self._key(message_id), str(token).encode())
        try:
            acked = bool(self._raw("ack", *arguments))
        except QueueStoreUnavailableError:
            # Sent again, it tells what became of it only if it can still be done.
            if not self._raw("ack", *arguments):
                raise
            acked = True
        if acked:
            self._wake.touched((name.decode(),))
        return acked

    # life

    def backup(self, path: str) -> None:
        backup.write(self, path)

    def close(self) -> None:
        """Close the connections. Closing twice is harmless; any other call after it raises `QueueStoreClosedError`."""
        if self._closed:
            return
        self._closed = True
        fork.forget(self)
        self._link.close()
        self._wake.stir()
        self._ear.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # fork: a connection is the parent's; the child lets go of it without a word and makes its own.

    def hold_for_fork(self) -> None: ...

    def go_on_after_fork(self) -> None: ...

    def close_in_child(self) -> None:
        self._link.abandon()
        self._ear.abandon()

    def reopen_in_child(self) -> None:
        before = self._link
        self._connect()
        self._link.adopt(before)
        self.ids = Mint(int(self._proof))  # its lock may have been held when the process forked


def _flags(text: bytes) -> list[bool]:
    return [one == 49 for one in text]
