"""Asking what became of a message: how it stands, and the result of its handler."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from localqueue.errors import JobCancelled, JobExpired, JobFailed, ResultMissing, ResultTimeout
from localqueue.jobs import outcome, progress
from localqueue.jobs.outcome import JobOutcome
from localqueue.jobs.progress import LogLine, Progress, lines_of
from localqueue.jobs.status import JobStatus, status_of
from localqueue.message import QueueMessage, T
from localqueue.queue.core import QueueCore
from localqueue.queue.drafts import check_timeout, id_of
from localqueue.stores.port import DEAD, INFLIGHT, Payload, QueueStore, StoredMessage, Waiter

#: Reads the result of a message, which was encoded with the codec of that name.
ReadResult = Callable[[str, str | None, Payload], Any]

_LOOK_AGAIN = 1.0  # a store that buries the message of a dead worker tells nobody


class Results(QueueCore[T]):
    def status(self, message: QueueMessage[Any] | str) -> JobStatus | None:
        """How a message stands: from the message while it is stored, then from the outcome that was kept of it.

        None when nothing is known of it: it never was, or it is gone and no outcome of it is kept (any more).
        """
        return self._look(message, self.desk.payloads.show_result)

    def result(self, message: QueueMessage[Any] | str, timeout: float | None = None) -> Any:
        """Wait until a message is done and return what its handler returned.

        Raises `JobFailed` with the error of a message that became a dead letter, `JobCancelled`, `JobExpired`,
        `ResultTimeout` when it was not done within `timeout` seconds, and `ResultMissing` when the message is gone and
        its result was not kept: results are kept by queues that have `keep_results`.
        """
        check_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        read = self.desk.payloads.decode_result
        found = self._look(message, read)
        if found is not None and not found.finished:
            with self.listen_result(message) as waiter:
                while (found := self._look(message, read)) is not None and not found.finished:
                    remaining = _LOOK_AGAIN if deadline is None else deadline - time.monotonic()
                    if timeout is not None and remaining <= 0:
                        raise ResultTimeout(found.queue, found.id, timeout)
                    waiter.wait(min(remaining, _LOOK_AGAIN))
        if found is None:
            raise ResultMissing(
                f"nothing is known of message {id_of(message)} of queue {self._queue_of(message)!r}: it is gone, or "
                "never was, and no result of it is kept; have whoever settles it open the queue with "
                "keep_results=seconds, and ask within them"
            )
        return _result_of(found)

    def listen_result(self, message: QueueMessage[Any] | str) -> Waiter:
        """What `result` waits with: it wakes when there may be one."""
        return self._seen.listen_records(outcome.KIND, [id_of(message)])

    def _look(self, message: QueueMessage[Any] | str, read: ReadResult) -> JobStatus | None:
        """The message first: what it has left behind was written when it went."""
        message_id, queue, store = id_of(message), self._queue_of(message), self._seen
        stored = store.get(queue, message_id)
        if stored is not None:
            now = 0.0 if stored.expires_at is None else store.now()
            return status_of(stored, now, *_told_by(store, stored))
        record = store.record(outcome.KIND, message_id)
        if record is None:
            return None
        kept = JobOutcome.read(record)
        if kept.queue != queue or outcome.ends_at(record) <= store.now():
            return None
        return JobStatus(
            id=message_id,
            queue=queue,
            state=kept.state,
            attempts=kept.attempts,
            created_at=kept.created_at,
            started_at=kept.started_at,
            finished_at=record.updated_at,
            result=None if kept.result is None else read(message_id, kept.codec, kept.result),
            error=kept.error,
            log=lines_of(kept.log),
        )

    def _queue_of(self, message: QueueMessage[Any] | str) -> str:
        """A copy for a subscriber, or one that found the queue full, is in a queue of another name."""
        return message.queue if isinstance(message, QueueMessage) else self.name


def _result_of(status: JobStatus) -> Any:
    match status.state:
        case "failed":
            raise JobFailed(status.queue, status.id, status.error)
        case "cancelled":
            raise JobCancelled(status.queue, status.id)
        case "expired":
            raise JobExpired(status.queue, status.id)
    return status.result


def _told_by(store: QueueStore, stored: StoredMessage) -> tuple[Progress | None, tuple[LogLine, ...]]:
    """What the handler that has the message now has told, or what that of a dead letter had said."""
    if stored.state == INFLIGHT:
        record = store.record(progress.KIND, stored.id)
        if record is not None:
            _, attempt, told, log = progress.read(record)
            return (told, log) if attempt == stored.attempts else (None, ())
    elif stored.state == DEAD:
        record = store.record(outcome.KIND, stored.id)
        if record is not None:
            kept = JobOutcome.read(record)
            return None, lines_of(kept.log) if kept.attempts == stored.attempts else ()
    return None, ()
