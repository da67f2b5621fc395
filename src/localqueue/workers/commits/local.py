"""The plain case: the store's own transaction is all there is to coordinate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from localqueue.message import QueueMessage
from localqueue.stores.port import QueueStore, Record
from localqueue.workers.job import Job
from localqueue.workers.ledger import Kept, work_key
from localqueue.workers.outcome import Outcome, Steps


class Coordinator:
    """What a commit policy adds to the life of a message. The steps yield the user's calls."""

    needs_recovery = False

    def begin(self, job: Job) -> Steps:
        """Before the handler runs; what it raises is a failure of the message."""
        yield from ()

    def succeeded(self, job: Job, kept: Kept, outcome: Outcome) -> Steps:
        """After the handler; adds to the outcome. What it raises turns the success into a failure."""
        yield from ()

    def failed(self, job: Job, error: BaseException, outcome: Outcome) -> Steps:
        """After a failure; may change the outcome."""
        yield from ()

    def recover(self) -> Steps:
        """Finish what workers that died have left; called when a worker starts and from time to time."""
        yield from ()


class LocalAtomic(Coordinator):
    """Result, ledger record, follow-ups and ack are one commit of the store; nothing else is needed."""


def records_of(store: QueueStore, kind: str, *names: str) -> Iterator[Record]:
    """The records whose key begins with these names: of a queue, or of a queue and a message."""
    after = prefix = ":".join((*names, ""))
    while True:
        page = store.records(kind, after=after, limit=100)
        for record in page:
            if not record.key.startswith(prefix):
                return
            yield record
        if len(page) < 100:
            return
        after = page[-1].key


def envelope_of(message: QueueMessage[Any], **fields: Any) -> dict[str, Any]:
    """What other systems are told about a message."""
    return {"queue": message.queue, "message_id": message.id, "dedupe_key": message.dedupe_key, **fields}


def envelope_key(prefix: str, message: QueueMessage[Any]) -> str:
    return f"{prefix}:dedupe:{message.queue}:{work_key(message)}"
