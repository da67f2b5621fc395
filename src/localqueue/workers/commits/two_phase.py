"""Two-phase commit with the queue's store as the coordinator's log.

    preparing   written before any participant is asked; without more, the answer is abort
    committed   written by the transaction that acks the message: the decision
    aborting    written before anybody is rolled back, so that a late coordinator can not decide otherwise

Participants are called again after a crash, so `commit` and `rollback` must be safe to repeat. A log entry is deleted
when every participant was told.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from localqueue.errors import LeaseLost, RecordConflict
from localqueue.message import QueueMessage
from localqueue.stores.port import INFLIGHT, Changes, Record, RecordWrite
from localqueue.workers.commits.local import Coordinator, envelope_key, envelope_of, records_of
from localqueue.workers.outcome import Call, Outcome, Steps

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

log = logging.getLogger("localqueue.workers")

KIND = "two-phase"


class TwoPhase(Coordinator):
    needs_recovery = True

    def __init__(self, queue: PersistentQueue[Any], policy: Any) -> None:
        self._queue = queue
        self._participants = tuple(policy.participants)
        self._prepare_store = policy.prepare_store
        self._commit_store = policy.commit_store

    def succeeded(self, message: QueueMessage[Any], result: Any, outcome: Outcome) -> Steps:
        txid = f"{self._queue.name}:{message.id}:{message.attempts}"
        envelope = envelope_of(self._queue, message, result_key=None, result=result)
        self._write(txid, "preparing", message, expect=0)
        version = self._version(txid)
        try:
            for participant in self._participants:
                yield Call(participant.prepare, (txid, envelope))
        except (Exception, SystemExit):
            yield from self._roll_back(txid, version)
            raise
        if self._prepare_store is not None:
            self._prepare_store.save(envelope_key("prepare", self._queue, message), {**envelope, "phase": "prepare"})
        outcome.records.append(RecordWrite(KIND, txid, _entry("committed", message), version))
        outcome.committed = lambda: self._finish(txid, message, envelope)
        outcome.rejected = lambda: self._roll_back(txid, version)

    def _finish(self, txid: str, message: QueueMessage[Any] | None, envelope: dict[str, Any]) -> Steps:
        """Tell everybody that it is decided. Whoever can not be told now is told by `recover`."""
        try:
            for participant in self._participants:
                yield Call(participant.commit, (txid,))
        except (Exception, SystemExit) as error:
            log.warning("participant of %s could not commit yet, it is asked again later: %r", txid, error)
            return
        if self._commit_store is not None and message is not None:
            self._commit_store.save(envelope_key("commit", self._queue, message), {**envelope, "phase": "commit"})
        self._queue.store.commit(Changes(records=[RecordWrite(KIND, txid, None)]))

    def _roll_back(self, txid: str, version: int) -> Steps:
        try:
            self._queue.store.commit(
                Changes(records=[RecordWrite(KIND, txid, json.dumps({"state": "aborting"}).encode(), version)])
            )
        except RecordConflict:  # somebody else decided; their entry stands
            return
        yield from self._tell_rollback(txid)

    def _tell_rollback(self, txid: str) -> Steps:
        try:
            for participant in reversed(self._participants):
                yield Call(participant.rollback, (txid,))
        except (Exception, SystemExit) as error:
            log.warning("participant of %s could not roll back yet, it is asked again later: %r", txid, error)
            return
        self._queue.store.commit(Changes(records=[RecordWrite(KIND, txid, None)]))

    def recover(self) -> Steps:
        for record in list(records_of(self._queue.store, KIND, self._queue.name)):
            entry = json.loads(record.value)
            if entry["state"] == "committed":
                yield from self._finish(record.key, None, {})
            elif entry["state"] == "aborting":
                yield from self._tell_rollback(record.key)
            elif not self._is_owned(record):
                yield from self._roll_back(record.key, record.version)

    def _is_owned(self, record: Record) -> bool:
        """Whether the worker that wrote it still has its lease. If it looks lost, writing `aborting` settles it."""
        _, message_id, token = record.key.rsplit(":", 2)
        message = self._queue.store.get(self._queue.name, message_id)
        return message is not None and message.state == INFLIGHT and message.attempts == int(token)

    def _version(self, txid: str) -> int:
        record = self._queue.store.record(KIND, txid)
        if record is None:  # recovered by somebody else: our lease must be gone
            raise LeaseLost(self._queue.name, txid, None)
        return record.version

    def _write(self, txid: str, state: str, message: QueueMessage[Any], *, expect: int | None) -> None:
        self._queue.store.commit(Changes(records=[RecordWrite(KIND, txid, _entry(state, message), expect)]))


def _entry(state: str, message: QueueMessage[Any]) -> bytes:
    return json.dumps({"state": state, "message_id": message.id, "dedupe_key": message.dedupe_key}).encode()
