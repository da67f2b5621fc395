"""Transactional outbox: success also stores an envelope, and a relay sends the envelopes on, in order.

In the queue's own store the outbox is itself a queue, `<queue>.outbox`, and the envelope is enqueued by the commit that
acks the message. Its messages share one ordering key, so the next is not delivered before the one ahead is acked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localqueue.policies import PerKeyFifoOrdering
from localqueue.policies.codec import JSON_CODEC
from localqueue.stores.port import NewMessage
from localqueue.workers.commits.local import Coordinator, envelope_key, envelope_of
from localqueue.workers.job import FollowUp, Job
from localqueue.workers.ledger import Kept
from localqueue.workers.outcome import Outcome, Steps

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

ORDERING_KEY = "outbox"
PREFIX = "outbox"


def outbox_queue(queue: PersistentQueue[Any]) -> PersistentQueue[Any]:
    """The queue that holds a queue's envelopes when its outbox lives in its own store."""
    return type(queue)(
        f"{queue.name}.outbox",
        store=queue.store,
        ordering_policy=PerKeyFifoOrdering(),
        lease_policy=queue.lease_policy,
    )


class Outbox(Coordinator):
    def __init__(self, queue: PersistentQueue[Any], policy: Any) -> None:
        self._queue = queue
        self._external = policy.outbox_store
        self._outbox = outbox_queue(queue) if self._external is None else None

    def succeeded(self, job: Job, kept: Kept, outcome: Outcome) -> Steps:
        envelope = envelope_of(job.message, result_key=kept.stored_under, result=kept.result)
        if self._outbox is None:
            self._external.save(envelope_key(PREFIX, job.message), {**envelope, "at": job.now})
            return
        (new_id,) = self._queue.store.mint()
        draft = NewMessage(new_id, self._outbox.name, JSON_CODEC.encode(envelope), ordering_key=ORDERING_KEY)
        outcome.follow_ups = [*outcome.follow_ups, FollowUp(self._outbox, draft, envelope)]
        yield from ()
