"""The everyday calls of plain messages, each a function with as few commands as it can do with, in steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from localqueue.errors import IdTaken, QueueStoreUnavailableError
from localqueue.ids import IdRange
from localqueue.stores.port import (
    Changes,
    Committed,
    Enqueued,
    Lease,
    LeaseRequest,
    NewMessage,
    Payload,
    RecordWrite,
    Settle,
    StoredMessage,
)
from localqueue.stores.redis import rows
from localqueue.stores.redis.errors import Refused, explain
from localqueue.stores.redis.namespace import Namespace
from localqueue.stores.steps import Steps


class Fast(Namespace):
    @abstractmethod
    def commit(self, changes: Changes) -> Committed: ...

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        return self._run(self.putting_one(queue, payload, codec))

    def putting_one(self, queue: str, payload: Payload, codec: str | None) -> Steps[tuple[str, float]]:
        name = self._digests[queue] if queue in self._made else (yield from self._naming(queue))
        body = rows.tail(payload, codec)
        while True:
            key = self.ids.reserve()
            answer = yield self._call("put", self._time(), name, key.to_bytes(8), body, b"0")
            try:
                now, newer = self._stored(name, answer)
                break
            except Refused:  # another process minted the same key
                continue
        return self.ids.id_of(newer or key), now

    def _stored(self, queue: bytes, answer: Any) -> tuple[float, int | None]:
        """When a plain message was, and under which newer key if its queue has had one that is newer than its own."""
        answer = self._checked(answer)
        self._wake.touched((queue.decode(),))
        if type(answer) is not list:
            return float(answer), None
        return float(answer[0]), self._passed(answer[1])

    def _putting(self, message: NewMessage) -> Steps[Committed]:
        """A plain message with an id of its own."""
        (key,) = rows.own_keys(self.ids, (message.id,))
        body = rows.tail(message.payload, message.codec, message.priority, message.headers)
        name, score = (yield from self._naming(message.queue)), str(-message.priority).encode()
        answer = yield self._call("put", self._time(), name, key.to_bytes(8), body, score)
        now, newer = self._stored(name, answer)
        return Committed([Enqueued("stored", "ready", now, id=None if newer is None else self.ids.id_of(newer))])

    def putting_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None
    ) -> Steps[tuple[Sequence[str], float]]:
        first, count = self.ids.reserve(len(payloads)), len(payloads)
        try:
            keys, at = yield from self._storing_batch(queue, range(first, first + count), payloads, codec)
        except IdTaken:
            ids, at = yield lambda: self.put_batch(queue, payloads, codec)
            return ids, at
        return IdRange(self.ids, keys), at

    def _put_batch(
        self,
        queue: str,
        keys: range,
        payloads: Sequence[Payload],
        codec: str | None,
        records: Sequence[RecordWrite],
    ) -> tuple[range, float]:
        return self._run(self._storing_batch(queue, keys, payloads, codec, records))

    def _storing_batch(
        self,
        queue: str,
        keys: range,
        payloads: Sequence[Payload],
        codec: str | None,
        records: Sequence[RecordWrite] = (),
    ) -> Steps[tuple[range, float]]:
        name, bodies = (yield from self._naming(queue)), [rows.tail(payload, codec) for payload in payloads]
        (writes, _), told = rows.record_writes(self.ids, records), [*rows.told(records)]
        batch = {**rows.packed_keys(keys), "queues": [name], "bodies": bodies} if keys else None
        try:
            now, ((_, _, newer), *_) = yield from self._writing(
                "commit", batch=batch, records=writes, told=told or None, records_first=True
            )
        except Refused as refused:
            if refused.name == "IdTaken":
                raise IdTaken("a message id of this batch is in use") from None
            raise explain(refused, Changes(records=records), self._key, self._name_of) from None
        self._wake.touched((name.decode(),))
        self._record_wake.touched(map(bytes.decode, told))
        if newer is None:
            return keys, now
        first = self._passed(newer, len(keys))
        return range(first, first + len(keys)), now

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        if self._watched.seen is not None:  # what the ack sets free is told by the longer call only
            return self.commit(Changes(settle=[Settle(queue, message_id, "ack", token)], strict=False)).settled[0]
        return self._run(self.acking_one(queue, message_id, token))

    def acking_one(self, queue: str, message_id: str, token: int) -> Steps[bool]:
        name = self._digest(queue)
        ack = self._call("ack", self._time(), name, self._key(message_id), str(token).encode())
        try:
            acked = bool(self._checked((yield ack)))
        except QueueStoreUnavailableError:
            # Sent again, it tells what became of it only if it can still be done.
            if not self._checked((yield ack)):
                raise
            acked = True
        if acked:
            self._wake.touched((name.decode(),))
        return acked

    def _tell(self, changes: Changes) -> None:
        names = {message.queue for message in changes.enqueue}
        names.update(one.queue for one in changes.settle)
        if changes.lease is not None:
            names.add(changes.lease.queue)
        self._touched(*names)
        self._record_wake.touched(map(bytes.decode, rows.told(changes.records)))

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        return self._run(self.leasing(request))

    def leasing(self, request: LeaseRequest) -> Steps[list[StoredMessage]]:
        arguments = rows.lease(self._digest, request)
        while True:
            now, (found, again) = yield from self._writing("lease", **arguments)
            if not again:
                break
        if found:
            self._touched(request.queue)
        return self._leased(request, found, now)

    def renew(self, leases: Sequence[Lease], *, timeout: float) -> list[float | None]:
        return self._run(self.renewing(leases, timeout))

    def renewing(self, leases: Sequence[Lease], timeout: float) -> Steps[list[float | None]]:
        held = [(self._digest(queue), self._key(message_id), token) for queue, message_id, token in leases]
        _, (renewed, until) = yield from self._writing("renew", True, timeout=timeout, leases=held)
        return [float(until) if one else None for one in flags(renewed)]

    def _leased(self, request: LeaseRequest | None, found: list[Any], now: float) -> list[StoredMessage]:
        if request is None:
            return []
        queue, until, by, ids = request.queue, now + request.timeout, request.leased_by, self.ids
        messages = []
        for n in range(0, len(found), 4):
            key, body, extra, record = found[n : n + 4]
            message = rows.leased_message(ids, queue, key, body, extra, now, until, by)
            if record is not None:
                assert request.ledger is not None
                message = message._replace(record=rows.record(request.ledger, f"{queue}:{message.dedupe_key}", record))
            messages.append(message)
        return messages


def flags(text: bytes) -> list[bool]:
    return [one == 49 for one in text]
