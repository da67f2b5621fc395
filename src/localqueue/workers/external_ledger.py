"""Effectively-once with a ledger outside of the queue's store.

It marks the key as pending, with an owner and an end. Work that leaves nothing else in the store is recorded before the
ack: a crash in between is found as a success when the message comes back. Work with follow-ups or other records must
not be found like that, they would be missing. There the commit that acks the message also says so in the queue's store,
and that is copied to the ledger afterwards: by recovery, if the worker died in between.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from localqueue.idempotency import IdempotencyRecord
from localqueue.idempotency.stores import IDEMPOTENCY
from localqueue.message import QueueMessage
from localqueue.stores.keyvalue.queue import QueueRecords
from localqueue.stores.keyvalue.store import now_of
from localqueue.stores.port import Changes, StoredMessage
from localqueue.workers.ledger import Kept, Results, Standing, finished, ledger_key, why
from localqueue.workers.outcome import Outcome, Steps

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

log = logging.getLogger("localqueue.workers")

_LOOK_AGAIN = 1.0
_UNCOPIED = replace(IDEMPOTENCY, name="idempotency-uncopied")


def _owner(message: QueueMessage[Any]) -> str:
    return f"{message.id}:{message.attempts}"


class ExternalLedger:
    """A ledger of its own, shared with other queues and programs."""

    kind: str | None = None

    def __init__(self, queue: PersistentQueue[Any], store: Any, results: Results) -> None:
        self._queue = queue
        self._store = store
        self._results = results
        self._uncopied: QueueRecords[IdempotencyRecord] = QueueRecords(_UNCOPIED, queue.store)
        self.keep = results.keep

    def foresee(self, stored: StoredMessage) -> None:
        """The queue's store does not know."""

    def begin(self, message: QueueMessage[Any]) -> Standing | None:
        key = ledger_key(message)
        now = now_of(self._store)
        known = self._store.load(key)
        if known is None or known.status != "succeeded":
            known = self._copied(key) or known
        if known is not None and known.status == "succeeded":
            return Standing(True, self._results.stored(known))
        pending = IdempotencyRecord.pending(
            first_seen_at=now if known is None else known.first_seen_at,
            metadata={
                "queue": message.queue, "message_id": message.id,
                "owner": _owner(message), "until": now + self._queue.lease_timeout,
            },
        )  # fmt: skip
        if not hasattr(self._store, "begin"):
            self._store.save(key, pending)
            return None
        if known is not None and known.metadata.get("message_id") == message.id:
            self._store.save(key, pending)  # our lease is proof that the earlier owner lost the message
            return None
        standing = self._store.begin(key, pending, now=now)
        if standing is None:
            return None
        if standing.status == "succeeded":
            return Standing(True, self._results.stored(standing))
        until = standing.metadata.get("until", now)
        return Standing(False, delay=max(0.05, min(until - now, max(_LOOK_AGAIN, self._queue.lease_timeout / 3))))

    def succeeded(self, message: QueueMessage[Any], kept: Kept, outcome: Outcome, now: float) -> None:
        key = ledger_key(message)
        known = self._store.load(key)
        record = finished("succeeded", message, known, kept.key, kept.extra, now_of(self._store))
        if outcome.is_plain:
            if self._is_ours(known, message):
                self._store.save(key, record)
            return
        outcome.records.append(self._uncopied.write(key, record))
        others = outcome.committed

        def copy() -> Steps:
            if others is not None:
                yield from others()
            self._copied(key)

        outcome.committed = copy

    def failed(self, message: QueueMessage[Any], outcome: Outcome, now: float) -> None:
        known = self._store.load(ledger_key(message))
        if self._is_ours(known, message):
            record = finished("failed", message, known, None, why(outcome), now_of(self._store))
            self._store.save(ledger_key(message), record)

    def renewed(self, message: QueueMessage[Any]) -> None:
        key = ledger_key(message)
        try:
            known = self._store.load(key)
            if known is not None and known.status == "pending" and self._is_ours(known, message):
                until = now_of(self._store) + self._queue.lease_timeout
                self._store.save(key, replace(known, metadata={**known.metadata, "until": until}))
        except Exception as error:  # tried again at the next renewal: the mark lasts longer than that
            log.warning("could not renew the mark of %s in the ledger: %r", key, error)

    def forget(self, message: QueueMessage[Any]) -> None:
        """Nothing is kept here."""

    def copy_all(self) -> None:
        """Copy what workers that died have left of this queue."""
        for key in self._uncopied.keys(f"{self._queue.name}:"):
            self._copied(key)

    def _copied(self, key: str) -> IdempotencyRecord | None:
        """Copy to the ledger what a commit left for it, if anything."""
        record = self._uncopied.find(key)[0]
        if record is not None:
            self._store.save(key, record)
            self._queue.store.commit(Changes(records=[self._uncopied.erase(key)]))
        return record

    def _is_ours(self, known: IdempotencyRecord | None, message: QueueMessage[Any]) -> bool:
        """Whether nobody took the message over and wrote about it."""
        return known is None or (known.status == "pending" and known.metadata.get("owner") == _owner(message))
