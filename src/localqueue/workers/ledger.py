"""Effectively-once: what a worker knows about a key, and what it writes when the work is done.

With the ledger in the queue's own store a success is one transaction: the result, the record and the ack. There a key
needs no mark while its work runs: a queue has one live message of a key, and its lease excludes everybody else. An
external ledger marks the key as pending, with an owner and an end, and is written before the ack: a crash in between
is found as a success when the message comes back.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from localqueue.idempotency import IdempotencyRecord, QueueIdempotencyStore
from localqueue.message import QueueMessage
from localqueue.policies.codec import JSON_CODEC
from localqueue.policies.delivery import EffectivelyOnceDelivery
from localqueue.policies.results import ReturnStoredResult
from localqueue.results import QueueResultStore
from localqueue.stores.rules import describe_error
from localqueue.workers.outcome import Outcome

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

_LOOK_AGAIN = 1.0


class Standing(NamedTuple):
    """Why a handler need not, or may not, run now."""

    done: bool
    result: Any = None
    delay: float = 0.0


class Ledger(Protocol):
    def begin(self, message: QueueMessage[Any]) -> Standing | None: ...
    def succeeded(self, message: QueueMessage[Any], result: Any, outcome: Outcome) -> None: ...
    def failed(self, message: QueueMessage[Any], error: BaseException, outcome: Outcome) -> None: ...
    def renewed(self, message: QueueMessage[Any]) -> None: ...


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
    return _ExternalLedger(queue, given, results)


def ledger_key(queue: str, dedupe_key: str | None) -> str:
    """Keys of different queues never meet: a queue name has no colon."""
    return f"{queue}:{dedupe_key}"


class _Results:
    """Where results go by the queue's result policy."""

    def __init__(self, queue: PersistentQueue[Any], policy: Any) -> None:
        chosen = policy.result_policy if isinstance(policy, EffectivelyOnceDelivery) else None
        self._stores = chosen is not None and chosen.stores_result
        self._returns = chosen is not None and chosen.returns_cached_result
        self._external = chosen.result_store if isinstance(chosen, ReturnStoredResult) else None
        self._queue = queue

    def key(self, message: QueueMessage[Any]) -> str:
        return f"dedupe:{self._queue.name}:{message.dedupe_key}"

    def keep(self, message: QueueMessage[Any], result: Any, outcome: Outcome) -> tuple[str | None, dict[str, Any]]:
        """Store a result; what the ledger has to remember of it: the result's key and extra metadata."""
        if not self._stores:
            return None, {}
        JSON_CODEC.encode(result)  # a result that can not be kept is a failure of the handler, with a clear reason
        if self._external is None:
            return "inline", {"result": result}
        key = self.key(message)
        if isinstance(self._external, QueueResultStore) and self._external.store is self._queue.store:
            outcome.records.append(self._external.write(key, result))
        else:
            self._external.save(key, result)
        return key, {}

    def stored(self, record: IdempotencyRecord) -> Any:
        if not self._returns or record.result_key is None:
            return None
        if record.result_key == "inline":
            return record.metadata.get("result")
        return None if self._external is None else self._external.load(record.result_key)


class _OwnLedger:
    """Records in the queue's store, written by the commit that settles the message."""

    def __init__(self, queue: PersistentQueue[Any], records: QueueIdempotencyStore, results: _Results) -> None:
        self._queue = queue
        self._records = records
        self._results = results
        self._versions: dict[str, tuple[IdempotencyRecord | None, int]] = {}

    def begin(self, message: QueueMessage[Any]) -> Standing | None:
        known, version = self._records.versioned(ledger_key(self._queue.name, message.dedupe_key))
        if known is not None and known.status == "succeeded":
            return Standing(True, self._results.stored(known))
        self._versions[message.id] = known, version
        return None

    def succeeded(self, message: QueueMessage[Any], result: Any, outcome: Outcome) -> None:
        result_key, extra = self._results.keep(message, result, outcome)
        self._write(message, outcome, "succeeded", result_key, extra)

    def failed(self, message: QueueMessage[Any], error: BaseException, outcome: Outcome) -> None:
        self._write(message, outcome, "failed", None, {"last_error": describe_error(error)})

    def renewed(self, message: QueueMessage[Any]) -> None:
        """The lease is the mark."""

    def _write(
        self, message: QueueMessage[Any], outcome: Outcome, status: Any, result_key: str | None, extra: dict[str, Any]
    ) -> None:
        known, version = self._versions.pop(message.id, (None, None))
        now = time.time()
        record = IdempotencyRecord(
            status=status,
            first_seen_at=now if known is None else known.first_seen_at,
            completed_at=now,
            result_key=result_key,
            metadata={"queue": self._queue.name, "message_id": message.id, **extra},
        )
        key = ledger_key(self._queue.name, message.dedupe_key)
        outcome.records.append(self._records.write(key, record, expect=version))


def _owner(message: QueueMessage[Any]) -> str:
    return f"{message.id}:{message.attempts}"


class _ExternalLedger:
    """A ledger of its own, shared with other queues and programs."""

    def __init__(self, queue: PersistentQueue[Any], store: Any, results: _Results) -> None:
        self._queue = queue
        self._store = store
        self._results = results

    def begin(self, message: QueueMessage[Any]) -> Standing | None:
        key = ledger_key(self._queue.name, message.dedupe_key)
        now = time.time()
        known = self._store.load(key)
        if known is not None and known.status == "succeeded":
            return Standing(True, self._results.stored(known))
        pending = self._record(message, "pending", known, completed_at=None, extra={
            "owner": _owner(message), "until": now + self._queue.lease_timeout,
        })  # fmt: skip
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
        return Standing(False, delay=max(0.05, min(until - now, _LOOK_AGAIN)))

    def succeeded(self, message: QueueMessage[Any], result: Any, outcome: Outcome) -> None:
        result_key, extra = self._results.keep(message, result, outcome)
        self._save(message, "succeeded", result_key, extra)

    def failed(self, message: QueueMessage[Any], error: BaseException, outcome: Outcome) -> None:
        known = self._store.load(ledger_key(self._queue.name, message.dedupe_key))
        if known is None or known.status != "succeeded":  # by whoever took the message over
            self._save(message, "failed", None, {"last_error": describe_error(error)})

    def renewed(self, message: QueueMessage[Any]) -> None:
        key = ledger_key(self._queue.name, message.dedupe_key)
        known = self._store.load(key)
        if known is not None and known.status == "pending" and known.metadata.get("owner") == _owner(message):
            until = time.time() + self._queue.lease_timeout
            self._store.save(key, replace(known, metadata={**known.metadata, "until": until}))

    def _save(self, message: QueueMessage[Any], status: Any, result_key: str | None, extra: dict[str, Any]) -> None:
        key = ledger_key(self._queue.name, message.dedupe_key)
        record = self._record(
            message, status, self._store.load(key), completed_at=time.time(), extra=extra, result_key=result_key
        )
        self._store.save(key, record)

    def _record(
        self,
        message: QueueMessage[Any],
        status: Any,
        known: IdempotencyRecord | None,
        *,
        completed_at: float | None,
        extra: dict[str, Any],
        result_key: str | None = None,
    ) -> IdempotencyRecord:
        return IdempotencyRecord(
            status=status,
            first_seen_at=time.time() if known is None else known.first_seen_at,
            completed_at=completed_at,
            result_key=result_key,
            metadata={"queue": self._queue.name, "message_id": message.id, **extra},
        )
