"""The everyday calls of plain messages, each a function with as few commands as it can do with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from localqueue.errors import IdTaken, QueueStoreUnavailableError
from localqueue.stores.port import (
    Changes,
    Committed,
    Enqueued,
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


class Fast(Namespace):
    @abstractmethod
    def commit(self, changes: Changes) -> Committed: ...

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        name, body = self._queue(queue), rows.tail(payload, codec)
        while True:
            key = self.ids.reserve()
            try:
                now, newer = self._store(name, key, body, b"0")
                break
            except Refused:  # another process minted the same key
                continue
        return self.ids.id_of(newer or key), now

    def _store(self, queue: bytes, key: int, body: bytes, score: bytes) -> tuple[float, int | None]:
        """Store a plain message; when, and under which newer key if its queue has had one that is newer than this."""
        answer = self._raw("put", self._time(), queue, key.to_bytes(8), body, score)
        self._wake.touched((queue.decode(),))
        if type(answer) is not list:
            return float(answer), None
        return float(answer[0]), self._passed(answer[1])

    def _put(self, message: NewMessage) -> Committed:
        """A plain message with an id of its own."""
        (key,) = rows.own_keys(self.ids, (message.id,))
        body = rows.tail(message.payload, message.codec, message.priority, message.headers)
        now, newer = self._store(self._queue(message.queue), key, body, str(-message.priority).encode())
        return Committed([Enqueued("stored", "ready", now, id=None if newer is None else self.ids.id_of(newer))])

    def _put_batch(
        self,
        queue: str,
        keys: range,
        payloads: Sequence[Payload],
        codec: str | None,
        records: Sequence[RecordWrite],
    ) -> tuple[range, float]:
        name, bodies = self._queue(queue), [rows.tail(payload, codec) for payload in payloads]
        writes, _ = rows.record_writes(self.ids, records)
        batch = {**rows.packed_keys(keys), "queues": [name], "bodies": bodies} if keys else None
        try:
            now, ((_, _, newer), *_) = self._write("commit", batch=batch, records=writes, records_first=True)
        except Refused as refused:
            if refused.name == "IdTaken":
                raise IdTaken("a message id of this batch is in use") from None
            raise explain(refused, Changes(records=records), self._key, self._name_of) from None
        self._wake.touched((name.decode(),))
        if newer is None:
            return keys, now
        first = self._passed(newer, len(keys))
        return range(first, first + len(keys)), now

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        if self._watched.seen is not None:  # what the ack sets free is told by the longer call only
            return self.commit(Changes(settle=[Settle(queue, message_id, "ack", token)], strict=False)).settled[0]
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

    def _tell(self, changes: Changes) -> None:
        names = {message.queue for message in changes.enqueue}
        names.update(one.queue for one in changes.settle)
        if changes.lease is not None:
            names.add(changes.lease.queue)
        self._touched(*names)

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        arguments = rows.lease(self._digest, request)
        while True:
            now, (found, again) = self._write("lease", **arguments)
            if not again:
                break
        if found:
            self._touched(request.queue)
        return self._leased(request, found, now)

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
