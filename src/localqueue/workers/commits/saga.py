"""Sagas: steps that are remembered, and compensations that run in reverse order when the message finally fails.

The log of a saga is one record in the queue's store. A step is written before it runs and again when it is done, so
after a crash a finished step is not run again and one that was cut off is known. The log is deleted by the commit that
acks the message, or by the one that buries it after its last compensation. Each compensation is written when it is
done: a crash repeats at most the one that was running, so compensations must be safe to repeat. A step whose outcome is
not known is compensated, too, with None as its result.
"""

from __future__ import annotations

import base64
import json
import logging
from typing import TYPE_CHECKING, Any

from localqueue.errors import LeaseLost, QueueError, RecordConflict
from localqueue.policies.codec import JSON_CODEC
from localqueue.stores.kept_error import describe_error, shown
from localqueue.stores.port import Changes, Lease, RecordWrite, StoredMessage
from localqueue.workers.commits.local import Coordinator, envelope_key, envelope_of, records_of
from localqueue.workers.job import Job
from localqueue.workers.ledger import Kept
from localqueue.workers.outcome import Call, Outcome, Steps, cause_of

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

log = logging.getLogger("localqueue.workers")

KIND = "saga"
_TRY_AGAIN = 5.0
_RECOVERY = 60.0
_LIVE = ("ready", "delayed", "inflight", "waiting", "blocked")


class SagaLog:
    """The durable log of one message's saga. A stale worker's write is refused by the record's version."""

    def __init__(self, queue: PersistentQueue[Any], known: frozenset[str], message_id: str, token: int | None) -> None:
        self._store = queue.store
        self._queue = queue.name
        self._known = known
        self._message_id = message_id
        self._token = token
        self.key = f"{queue.name}:{message_id}"
        record = self._store.record(KIND, self.key)
        self.version = 0 if record is None else record.version
        self.entry: dict[str, Any] = {"state": "forward", "steps": []} if record is None else json.loads(record.value)

    @property
    def exists(self) -> bool:
        return self.version != 0

    @property
    def compensating(self) -> bool:
        return bool(self.entry["state"] == "compensating")

    def begin(self, name: str) -> tuple[bool, Any]:
        """Whether a step is already done, with its result; otherwise it is noted as started."""
        if name not in self._known:
            raise ValueError(f"step {name!r} has no compensation; SagaCommit knows {', '.join(sorted(self._known))}")
        for step in self.entry["steps"]:
            if step["name"] == name:
                return step["state"] == "done", step["result"]
        self.entry["steps"].append({"name": name, "state": "started", "result": None})
        self.save()
        return False, None

    def finish(self, name: str, result: Any) -> None:
        JSON_CODEC.encode(result)
        for step in self.entry["steps"]:
            if step["name"] == name:
                step.update(state="done", result=result)
        self.save()

    def save(self) -> None:
        write = RecordWrite(KIND, self.key, json.dumps(self.entry).encode(), self.version)
        try:
            (self.version,) = self._store.commit(Changes(records=[write])).versions
        except RecordConflict:
            raise LeaseLost(self._queue, self._message_id, self._token) from None

    def deletion(self) -> RecordWrite:
        return RecordWrite(KIND, self.key, None, self.version)


class Saga(Coordinator):
    needs_recovery = True

    def __init__(self, queue: PersistentQueue[Any], policy: Any) -> None:
        self._queue = queue
        self._compensations = dict(policy.compensations)
        self._known = frozenset(self._compensations)
        self._store = policy.saga_store

    def begin(self, job: Job) -> Steps:
        message = job.message
        job.saga = saga = SagaLog(self._queue, self._known, message.id, message.attempts)
        if not saga.exists:
            payload = self._queue.codec.encode(message.value)
            text = payload if isinstance(payload, str) else base64.b64encode(payload).decode()
            saga.entry.update(payload=text, binary=isinstance(payload, bytes))
            saga.entry["told"] = {"key": envelope_key("saga:compensate", message), "envelope": envelope_of(message)}
        if saga.compensating:
            raise QueueError(f"message {message.id} failed earlier and its compensations are not finished")
        yield from ()

    def succeeded(self, job: Job, kept: Kept, outcome: Outcome) -> Steps:
        if self._store is not None:
            envelope = envelope_of(job.message, phase="forward", result=kept.result)
            self._store.save(envelope_key("saga:forward", job.message), envelope)
        if job.saga is not None and job.saga.exists:
            outcome.records.append(job.saga.deletion())
        yield from ()

    def failed(self, job: Job, error: BaseException, outcome: Outcome) -> Steps:
        saga = job.saga
        if saga is None or outcome.settle is None:
            return
        if not saga.compensating and not outcome.final:  # the next delivery goes on where this one stopped
            return
        if job.lost or not self._is_held(job):  # whoever has the message now may be going forward
            return
        if not saga.compensating:
            saga.entry.update(state="compensating", error=describe_error(error), ends=outcome.settle.action)
            saga.entry["delay"] = outcome.settle.delay
            if not saga.entry["steps"]:
                return self._tell(saga)
            saga.save()
        problem = yield from self._compensate(saga)
        if problem is not None:
            outcome.state = "released"
            outcome.settle = outcome.settle._replace(
                action="release", delay=_TRY_AGAIN, error=describe_error(problem), max_attempts=None
            )
            return
        entry = saga.entry
        outcome.state = "released" if entry["ends"] == "release" else "dead-lettered"
        outcome.settle = outcome.settle._replace(action=entry["ends"], delay=entry["delay"], error=entry["error"])
        outcome.records.append(saga.deletion())
        self._tell(saga)

    def _is_held(self, job: Job) -> bool:
        lease = Lease(job.message.queue, job.message.id, job.message.attempts)
        return self._queue.store.renew([lease], timeout=self._queue.lease_timeout)[0] is not None

    def _tell(self, saga: SagaLog) -> None:
        if self._store is not None:
            told = saga.entry["told"]
            error = saga.entry.get("error")
            self._store.save(told["key"], {**told["envelope"], "phase": "compensate", "error": error})

    def _compensate(self, saga: SagaLog) -> Steps:
        """Run what is left, last step first; the error that stopped it, or None."""
        entry = saga.entry
        payload = base64.b64decode(entry["payload"]) if entry["binary"] else entry["payload"]
        value = self._queue.codec.decode(payload)
        for step in reversed(entry["steps"]):
            if step["state"] == "compensated":
                continue
            try:
                compensation = self._compensations[step["name"]]
                yield Call(compensation, (value, step["result"]))
            except Exception as failure:
                error = cause_of(failure)
                log.warning("compensation %r of %s failed, it is tried again: %s", step["name"], saga.key, shown(error))
                return error
            step["state"] = "compensated"
            saga.save()
        return None

    def recover(self) -> Steps:
        """Compensate for messages that the store itself took out of delivery because their workers died."""
        store = self._queue.store
        for record in list(records_of(store, KIND, self._queue.name)):
            message_id = record.key.rsplit(":", 1)[1]
            message = store.get(self._queue.name, message_id)
            if message is not None and message.state in _LIVE:
                continue
            saga = SagaLog(self._queue, self._known, message_id, None)
            if not saga.exists or saga.entry.get("recovered_until", 0.0) > store.now():
                continue
            try:
                yield from self._recover(saga, message)
            except (LeaseLost, RecordConflict):  # another worker recovers it
                continue
            except Exception as error:  # the others need not wait for it
                log.warning(
                    "the saga %s is not compensated yet, it is looked at again later: %s", record.key, shown(error)
                )

    def _recover(self, saga: SagaLog, message: StoredMessage | None) -> Steps:
        if message is not None or saga.compensating:
            saga.entry.update(state="compensating", recovered_until=self._queue.store.now() + _RECOVERY)
            if message is not None:
                saga.entry.setdefault("error", message.last_error)
            saga.save()
            problem = yield from self._compensate(saga)
            if problem is not None:
                return
            self._tell(saga)
        self._queue.store.commit(Changes(records=[saga.deletion()]))
