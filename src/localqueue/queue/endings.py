"""What is written about a message by the commit that settles it: its outcome, and the end of what it had told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from localqueue.errors import PayloadError
from localqueue.jobs import cancellation, progress
from localqueue.jobs.outcome import JobOutcome, end_of, success_writer
from localqueue.jobs.progress import LogLine
from localqueue.jobs.status import started_at
from localqueue.message import QueueMessage
from localqueue.queue.payloads import Payloads
from localqueue.queue.tenancy import Tenancy
from localqueue.stores import rules
from localqueue.stores.port import Payload, RecordWrite, Settle, StoredMessage


class Endings:
    """The records of one queue's settles. `keep` is for how many seconds outcomes are kept, None for not at all."""

    def __init__(self, queue: str, payloads: Payloads, keep: float | None, tenancy: Tenancy) -> None:
        self.keep = keep
        self._queue = queue
        self._payloads = payloads
        self._tenancy = tenancy
        self._success = None if keep is None else success_writer(keep, queue, payloads.codec_name)

    def given(self, result: Any) -> Payload | None:
        """A result that somebody wants kept, or the reason why it can not be."""
        if result is not None and self.keep is None:
            raise ValueError(
                f"queue {self._queue!r} keeps no results, so this one would be lost; open it with "
                "keep_results=seconds, or leave out the result"
            )
        return self.encoded(result)

    def encoded(self, result: Any) -> Payload | None:
        """A result as it is kept, None for None; one that the codec can not carry is an error that says so."""
        if self.keep is None or result is None:
            return None
        try:
            return self._payloads.encode(result)
        except PayloadError as error:
            raise PayloadError(
                f"the result can not be kept, though the queue has keep_results={self.keep}: {error}"
            ) from error

    def of(self, settle: Settle, message: QueueMessage[Any] | str, result: Payload | None = None) -> list[RecordWrite]:
        """The records of a settle that no worker makes; for an operator's override the store says what is known."""
        if settle.token is not None and isinstance(message, QueueMessage):
            return self.records(settle, message, result=result, progressed=message.attempts > 1)
        return self.records(settle, self._tenancy.store.get(self._queue, settle.id), result=result)

    def success(self, message: QueueMessage[Any], result: Payload | None) -> list[RecordWrite]:
        """The same for a message that succeeded and whose handler has told nothing."""
        return [] if self._success is None else [self._success(message, started_at(message.attempt_history), result)]

    def records(
        self,
        settle: Settle,
        message: QueueMessage[Any] | StoredMessage | None,
        *,
        result: Payload | None = None,
        progressed: bool = True,
        log: Sequence[LogLine] = (),
    ) -> list[RecordWrite]:
        """What belongs into the commit of a settle. `message` is what is known of it, `progressed` whether it may have
        told how far it has come, and `log` what its handler has said."""
        tries = 0 if message is None else message.attempts - message.forgiven
        end = end_of(settle, tries)
        if end is None:
            return []
        writes = [progress.deleted(settle.id)] if progressed else []
        if end == "cancelled":
            writes.append(cancellation.told(settle.queue))
        if self.keep is not None:
            error = _why(settle, message, tries) if end == "failed" else None
            kept = result if end == "succeeded" else None
            outcome = JobOutcome(
                keep=self.keep,
                queue=settle.queue,
                state=end,
                attempts=0 if message is None else message.attempts,
                created_at=None if message is None else message.created_at,
                started_at=None if message is None else _started(message),
                error=error,
                log=log or None,
                codec=self._payloads.codec_name,
                result=kept,
            )
            writes.append(outcome.write(settle.id))
        return writes


def _why(settle: Settle, message: QueueMessage[Any] | StoredMessage | None, tries: int) -> dict[str, Any] | None:
    if settle.error is not None:
        return dict(settle.error)
    if settle.action == "release":
        return rules.attempts_exhausted(tries, "it was released")
    return None if message is None else message.last_error


def _started(message: QueueMessage[Any] | StoredMessage) -> float | None:
    return started_at(message.history if isinstance(message, StoredMessage) else message.attempt_history)
