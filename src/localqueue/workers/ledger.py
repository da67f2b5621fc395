"""Effectively-once: what a worker knows about a key, and what it writes when the work is done.

With the ledger in the queue's own store a success is one transaction: the result, the record and the ack. There a key
needs no mark while its work runs: a queue has one live message of a key, and its lease excludes everybody else.

An external ledger marks the key as pending, with an owner and an end. Work that leaves nothing else in the store is
recorded before the ack: a crash in between is found as a success when the message comes back. Work with follow-ups or
other records must not be found like that, they would be missing. There the commit that acks the message also says so
in the queue's store, and that is copied to the ledger afterwards: by recovery, if the worker died in between.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from localqueue.idempotency import IdempotencyRecord, QueueIdempotencyStore
from localqueue.idempotency.stores import IDEMPOTENCY
from localqueue.message import QueueMessage
from localqueue.policies.codec import JSON_CODEC
from localqueue.results import QueueResultStore
from localqueue.stores.keyvalue.queue import QueueRecords
from localqueue.stores.port import Changes, StoredMessage
from localqueue.stores.rules import describe_error
from localqueue.workers.outcome import Outcome, Steps

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

log = logging.getLogger("localqueue.workers")

_LOOK_AGAIN = 1.0
_UNCOPIED = replace(IDEMPOTENCY, name="idempotency-uncopied")


class Kept(NamedTuple):
    """A result, and what the ledger has to remember of it: where it is, and extra metadata."""

    result: Any
    key: str | None = None
    extra: Mapping[str, Any] = {}

    @property
    def stored_under(self) -> str | None:
        """The key in an attached result store."""
        return None if self.key == "inline" else self.key


class Standing(NamedTuple):
    """Why a handler need not, or may not, run now."""

    done: bool
    result: Any = None
    delay: float = 0.0


class Ledger(Protocol):
    @property
    def kind(self) -> str | None:
        """The kind of record to lease messages with, if the ledger is in the queue's store."""

    def foresee(self, stored: StoredMessage) -> None:
        """A message was leased with its record: `begin` need not look."""

    def begin(self, message: QueueMessage[Any]) -> Standing | None: ...
    def keep(self, message: QueueMessage[Any], result: Any, outcome: Outcome) -> Kept: ...
    def succeeded(self, message: QueueMessage[Any], kept: Kept, outcome: Outcome) -> None: ...
    def failed(self, message: QueueMessage[Any], outcome: Outcome) -> None: ...
    def renewed(self, message: QueueMessage[Any]) -> None: ...
    def forget(self, message: QueueMessage[Any]) -> None: ...


def ledger_for(queue: PersistentQueue[Any]) -> Ledger | None:
    policy = queue.delivery_policy
    if policy.guarantee != "effectively-once":
        return None
    given = getattr(policy, "idempotency_store", None)
    results = _Results(queue, policy)
    if given is None:
        return _OwnLedger(queue, QueueIdempotencyStore(queue.store), results)
    if isinstance(given, QueueIdempotencyStore) and given.store is queue.store:
        return _OwnLedger(queue, given, results)
    return ExternalLedger(queue, given, results)


def work_key(message: QueueMessage[Any]) -> str:
    """What names the work: the dedupe key, or the message itself if a program of another policy put it without one."""
    return f"message:{message.id}" if message.dedupe_key is None else message.dedupe_key


def ledger_key(message: QueueMessage[Any]) -> str:
    """Keys of different queues never meet: a queue name has no colon."""
    return f"{message.queue}:{work_key(message)}"


class _Results:
    """Where results go by the queue's result policy."""

    def __init__(self, queue: PersistentQueue[Any], policy: Any) -> None:
        chosen = getattr(policy, "result_policy", None)
        self._stores = chosen is not None and chosen.stores_result
        self._returns = chosen is not None and chosen.returns_cached_result
        self._external: Any = getattr(chosen, "result_store", None)
        self._queue = queue

    def keep(self, message: QueueMessage[Any], result: Any, outcome: Outcome) -> Kept:
        """Store a result, in the commit of the outcome where that can be."""
        if not self._stores:
            return Kept(result)
        JSON_CODEC.encode(result)  # a result that can not be kept is a failure of the handler, with a clear reason
        if self._external is None:
            return Kept(result, "inline", {"result": result})
        key = f"dedupe:{message.queue}:{work_key(message)}"
        if isinstance(self._external, QueueResultStore) and self._external.store is self._queue.store:
            outcome.records.append(self._external.write(key, result))
        else:
            self._external.save(key, result)
        return Kept(result, key)

    def stored(self, record: IdempotencyRecord) -> Any:
        if not self._returns or record.result_key is None:
            return None
        if record.result_key == "inline":
            return record.metadata.get("result")
        return None if self._external is None else self._external.load(record.result_key)


def _finished(
    status: Any, message: QueueMessage[Any], known: IdempotencyRecord | None, result_key: str | None, extra: Any
) -> IdempotencyRecord:
    now = time.time()
    return IdempotencyRecord(
        status=status,
        first_seen_at=now if known is None else known.first_seen_at,
        completed_at=now,
        result_key=result_key,
        metadata={"queue": message.queue, "message_id": message.id, **extra},
    )


def _why(outcome: Outcome) -> dict[str, Any]:
    """The error the message is settled with: that of a saga is the one that began its compensations."""
    if outcome.settle is not None and outcome.settle.error is not None:
        return {"last_error": dict(outcome.settle.error)}
    return {"last_error": describe_error(outcome.error)}


class _OwnLedger:
    """Records in the queue's store, written by the commit that settles the message."""

    kind: str | None = IDEMPOTENCY.name

    def __init__(self, queue: PersistentQueue[Any], records: QueueIdempotencyStore, results: _Results) -> None:
        self._records = records
        self._results = results
        self._versions: dict[str, tuple[IdempotencyRecord | None, int]] = {}
        self._foreseen: dict[str, tuple[IdempotencyRecord | None, int]] = {}
        self.keep = results.keep

    def foresee(self, stored: StoredMessage) -> None:
        if stored.dedupe_key is not None:  # without one the record has another key
            self._foreseen[stored.id] = self._records.read(stored.record)

    def begin(self, message: QueueMessage[Any]) -> Standing | None:
        if message.id in self._foreseen:
            known, version = self._foreseen.pop(message.id)
        else:
            known, version = self._records.versioned(ledger_key(message))
        if known is not None and known.status == "succeeded":
            return Standing(True, self._results.stored(known))
        self._versions[message.id] = known, version
        return None

    def succeeded(self, message: QueueMessage[Any], kept: Kept, outcome: Outcome) -> None:
        self._write(message, outcome, "succeeded", kept.key, kept.extra)

    def failed(self, message: QueueMessage[Any], outcome: Outcome) -> None:
        self._write(message, outcome, "failed", None, _why(outcome))

    def renewed(self, message: QueueMessage[Any]) -> None:
        """The lease is the mark."""

    def forget(self, message: QueueMessage[Any]) -> None:
        self._versions.pop(message.id, None)
        self._foreseen.pop(message.id, None)

    def _write(
        self, message: QueueMessage[Any], outcome: Outcome, status: Any, result_key: str | None, extra: Any
    ) -> None:
        known, version = self._versions.get(message.id, (None, None))
        record = _finished(status, message, known, result_key, extra)
        outcome.records.append(self._records.write(ledger_key(message), record, expect=version))


def _owner(message: QueueMessage[Any]) -> str:
    return f"{message.id}:{message.attempts}"


class ExternalLedger:
    """A ledger of its own, shared with other queues and programs."""

    kind: str | None = None

    def __init__(self, queue: PersistentQueue[Any], store: Any, results: _Results) -> None:
        self._queue = queue
        self._store = store
        self._results = results
        self._uncopied: QueueRecords[IdempotencyRecord] = QueueRecords(_UNCOPIED, queue.store)
        self.keep = results.keep

    def foresee(self, stored: StoredMessage) -> None:
        """The queue's store does not know."""

    def begin(self, message: QueueMessage[Any]) -> Standing | None:
        key = ledger_key(message)
        now = time.time()
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

    def succeeded(self, message: QueueMessage[Any], kept: Kept, outcome: Outcome) -> None:
        key = ledger_key(message)
        known = self._store.load(key)
        record = _finished("succeeded", message, known, kept.key, kept.extra)
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

    def failed(self, message: QueueMessage[Any], outcome: Outcome) -> None:
        known = self._store.load(ledger_key(message))
        if self._is_ours(known, message):
            self._store.save(ledger_key(message), _finished("failed", message, known, None, _why(outcome)))

    def renewed(self, message: QueueMessage[Any]) -> None:
        key = ledger_key(message)
        try:
            known = self._store.load(key)
            if known is not None and known.status == "pending" and self._is_ours(known, message):
                until = time.time() + self._queue.lease_timeout
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
        record = self._uncopied.versioned(key)[0]
        if record is not None:
            self._store.save(key, record)
            self._queue.store.commit(Changes(records=[self._uncopied.write(key, None)]))
        return record

    def _is_ours(self, known: IdempotencyRecord | None, message: QueueMessage[Any]) -> bool:
        """Whether nobody took the message over and wrote about it."""
        return known is None or (known.status == "pending" and known.metadata.get("owner") == _owner(message))
