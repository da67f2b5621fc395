"""Effectively-once: what a worker knows about a key, and what it writes when the work is done.

With the ledger in the queue's own store a success is one transaction: the result, the record and the ack. There a key
needs no mark while its work runs: a queue has one live message of a key, and its lease excludes everybody else. A
ledger elsewhere is that of `external_ledger.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from localqueue.idempotency import IdempotencyRecord, QueueIdempotencyStore
from localqueue.idempotency.stores import IDEMPOTENCY
from localqueue.message import QueueMessage
from localqueue.policies.codec import JSON_CODEC
from localqueue.results import QueueResultStore
from localqueue.stores.kept_error import describe_error
from localqueue.stores.port import StoredMessage
from localqueue.workers.outcome import Outcome

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue


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
    def succeeded(self, message: QueueMessage[Any], kept: Kept, outcome: Outcome, now: float) -> None:
        """`now` is by the clock of the queue's store, here and below."""

    def failed(self, message: QueueMessage[Any], outcome: Outcome, now: float) -> None: ...
    def renewed(self, message: QueueMessage[Any]) -> None: ...
    def forget(self, message: QueueMessage[Any]) -> None: ...


def ledger_for(queue: PersistentQueue[Any]) -> Ledger | None:
    policy = queue.delivery_policy
    if policy.guarantee != "effectively-once":
        return None
    given = getattr(policy, "idempotency_store", None)
    results = Results(queue, policy)
    if given is None:
        return _OwnLedger(queue, QueueIdempotencyStore(queue.store), results)
    if isinstance(given, QueueIdempotencyStore) and given.is_in(queue.store):
        return _OwnLedger(queue, given, results)
    from localqueue.workers.external_ledger import ExternalLedger

    return ExternalLedger(queue, given, results)


def work_key(message: QueueMessage[Any]) -> str:
    """What names the work: the dedupe key, or the message itself if a program of another policy put it without one."""
    return f"message:{message.id}" if message.dedupe_key is None else message.dedupe_key


def ledger_key(message: QueueMessage[Any]) -> str:
    """Keys of different queues never meet: a queue name has no colon."""
    return f"{message.queue}:{work_key(message)}"


class Results:
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
        if isinstance(self._external, QueueResultStore) and self._external.is_in(self._queue.store):
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


def finished(
    status: Any,
    message: QueueMessage[Any],
    known: IdempotencyRecord | None,
    result_key: str | None,
    extra: Any,
    now: float,
) -> IdempotencyRecord:
    return IdempotencyRecord(
        status=status,
        first_seen_at=now if known is None else known.first_seen_at,
        completed_at=now,
        result_key=result_key,
        metadata={"queue": message.queue, "message_id": message.id, **extra},
    )


def why(outcome: Outcome) -> dict[str, Any]:
    """The error the message is settled with: that of a saga is the one that began its compensations."""
    if outcome.settle is not None and outcome.settle.error is not None:
        return {"last_error": dict(outcome.settle.error)}
    return {"last_error": describe_error(outcome.error)}


class _OwnLedger:
    """Records in the queue's store, written by the commit that settles the message."""

    kind: str | None = IDEMPOTENCY.name

    def __init__(self, queue: PersistentQueue[Any], records: QueueIdempotencyStore, results: Results) -> None:
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

    def succeeded(self, message: QueueMessage[Any], kept: Kept, outcome: Outcome, now: float) -> None:
        self._write(message, outcome, "succeeded", kept.key, kept.extra, now)

    def failed(self, message: QueueMessage[Any], outcome: Outcome, now: float) -> None:
        self._write(message, outcome, "failed", None, why(outcome), now)

    def renewed(self, message: QueueMessage[Any]) -> None:
        """The lease is the mark."""

    def forget(self, message: QueueMessage[Any]) -> None:
        self._versions.pop(message.id, None)
        self._foreseen.pop(message.id, None)

    def _write(
        self, message: QueueMessage[Any], outcome: Outcome, status: Any, result_key: str | None, extra: Any, now: float
    ) -> None:
        known, version = self._versions.get(message.id, (None, None))
        record = finished(status, message, known, result_key, extra, now)
        outcome.records.append(self._records.write(ledger_key(message), record, expect=version))
