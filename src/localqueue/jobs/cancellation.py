"""Telling workers that a message they may be running was cancelled.

Whoever cancels writes one record, of the queue or of all queues; workers that run something listen for both, and look
at their leases when it changed. So the record has no meaning but that it was written.
"""

from __future__ import annotations

from localqueue.stores.port import RecordWrite

KIND = "cancel"
_ALL = ":all"  # no queue has a colon in its name


def told(queue: str | None) -> RecordWrite:
    """Something of this queue, or of any queue, was cancelled."""
    return RecordWrite(KIND, _ALL if queue is None else queue, b"", tell=True)


def keys(queue: str) -> tuple[str, str]:
    """The records that concern a worker of the queue."""
    return queue, _ALL
