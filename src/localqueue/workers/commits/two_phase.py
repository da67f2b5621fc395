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
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from localqueue.errors import LeaseLost, RecordConflict
from localqueue.stores.kept_error import shown
from localqueue.stores.port import INFLIGHT, Changes, Record, RecordWrite
from localqueue.workers.commits.local import Coordinator, envelope_key, envelope_of, records_of
from localqueue.workers.job import Job
from localqueue.workers.ledger import Kept
from localqueue.workers.outcome import Call, Outcome, Steps

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

log = logging.getLogger("localqueue.workers")

KIND = "two-phase"


class TwoPhase(Coordinator):
    needs_recovery = True

    def __init__(self, queue: PersistentQueue[Any], policy: Any) -> None:
        self._queue = queue
        self._store = queue.store
        self._participants = tuple(policy.participants)
        self._prepare_store = policy.prepare_store
        self._commit_store = policy.commit_store
        self._telling: set[str] = set()  # decided here, and here everybody is told: `recover` need not do it as well

    def begin(self, job: Job) -> Steps:
        """Roll back what an earlier delivery of this message left: we hold the lease, so it can not be decided."""
        if job.message.attempts > 1:
            for record in list(records_of(self._store, KIND, job.message.queue, job.message.id)):
                yield from self._resolve(record, owned=False)

    def succeeded(self, job: Job, kept: Kept, outcome: Outcome) -> Steps:
        message = job.message
        txid = f"{message.queue}:{message.id}:{message.attempts}"
        envelope = envelope_of(message, result_key=kept.stored_under, result=kept.result)
        if not self._participants and self._commit_store is None:
            self._save_prepared(job, envelope)
            return
        version = self._begin_log(txid, job)
        try:
            for participant in self._participants:
                yield Call(participant.prepare, (txid, envelope))
            self._save_prepared(job, envelope)
        except Exception:
            yield from self._roll_back_ours(txid, version)
            raise
        told = None
        if self._commit_store is not None:
            told = {"key": envelope_key("commit", message), "envelope": {**envelope, "phase": "commit"}}
        outcome.records.append(RecordWrite(KIND, txid, _entry("committed", told=told), version))
        self._telling.add(txid)
        outcome.committed = lambda: self._finish_ours(txid, told)
        outcome.rejected = lambda: self._roll_back_ours(txid, version)

    def _save_prepared(self, job: Job, envelope: dict[str, Any]) -> None:
        if self._prepare_store is not None:
            self._prepare_store.save(envelope_key("prepare", job.message), {**envelope, "phase": "prepare"})

    def _begin_log(self, txid: str, job: Job) -> int:
        """Write that the transaction begins, and the version of that."""
        try:
            return self._store.commit(Changes(records=[RecordWrite(KIND, txid, _entry("preparing"), 0)])).versions[0]
        except RecordConflict:  # recovered by somebody else: our lease must be gone
            raise LeaseLost(job.message.queue, job.message.id, job.message.attempts) from None

    def _finish_ours(self, txid: str, told: dict[str, Any] | None) -> Steps:
        try:
            yield from self._finish(txid, told)
        finally:
            self._telling.discard(txid)

    def _roll_back_ours(self, txid: str, version: int) -> Steps:
        self._telling.add(txid)
        try:
            yield from self._roll_back(txid, version)
        finally:
            self._telling.discard(txid)

    def _finish(self, txid: str, told: dict[str, Any] | None) -> Steps:
        """Tell everybody that it is decided. Whoever can not be told now is told by `recover`."""
        done = yield from self._tell([participant.commit for participant in self._participants], txid, "commit")
        if not done:
            return
        if self._commit_store is not None and told is not None:
            self._commit_store.save(told["key"], told["envelope"])
        self._forget(txid)

    def _roll_back(self, txid: str, version: int) -> Steps:
        """Decide that it does not happen, unless that is decided already, and tell everybody."""
        try:
            self._store.commit(Changes(records=[RecordWrite(KIND, txid, _entry("aborting"), version)]))
        except RecordConflict:
            record = self._store.record(KIND, txid)
            if record is not None and json.loads(record.value)["state"] == "committed":
                return
            # Rolled back by whoever found our lease lost, maybe before we prepared the last of them: tell them again.
        yield from self._tell_rollback(txid)

    def _tell_rollback(self, txid: str) -> Steps:
        rollbacks = [participant.rollback for participant in reversed(self._participants)]
        if (yield from self._tell(rollbacks, txid, "roll back")):
            self._forget(txid)

    def _tell(self, calls: list[Callable[[str], object]], txid: str, what: str) -> Steps:
        """Call everybody, also after one that failed; whether all have heard."""
        heard = True
        for call in calls:
            try:
                yield Call(call, (txid,))
            except Exception as error:
                heard = False
                log.warning(
                    "a participant of %s could not %s yet, it is asked again later: %s", txid, what, shown(error)
                )
        return heard

    def _forget(self, txid: str) -> None:
        self._store.commit(Changes(records=[RecordWrite(KIND, txid, None)]))

    def recover(self) -> Steps:
        for known in list(records_of(self._store, KIND, self._queue.name)):
            owned = self._is_owned(known)
            # Looked at in this order, what did not change is nobody's: the worker tells before it lets go.
            if known.key not in self._telling and self._store.record(KIND, known.key) == known:
                yield from self._resolve(known, owned=owned)

    def _resolve(self, record: Record, *, owned: bool) -> Steps:
        entry = json.loads(record.value)
        try:
            if entry["state"] == "committed":
                yield from self._finish(record.key, entry.get("told"))
            elif entry["state"] == "aborting":
                yield from self._tell_rollback(record.key)
            elif not owned:
                yield from self._roll_back(record.key, record.version)
        except Exception as error:  # of a store; the others need not wait for it
            log.warning("%s stays in doubt, it is looked at again later: %s", record.key, shown(error))

    def _is_owned(self, record: Record) -> bool:
        """Whether the worker that wrote it still has its lease. If it looks lost, writing `aborting` settles it."""
        _, message_id, token = record.key.rsplit(":", 2)
        message = self._store.get(self._queue.name, message_id)
        return message is not None and message.state == INFLIGHT and message.attempts == int(token)


def _entry(state: str, **fields: Any) -> bytes:
    return json.dumps({"state": state, **fields}).encode()
