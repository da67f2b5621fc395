"""The relay of a transactional outbox: sends envelopes on, in order, at least once, and goes on where it stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from localqueue.errors import QueueError
from localqueue.policies.codec import JSON_CODEC
from localqueue.retry.plan import is_permanent
from localqueue.stores.kept_error import shown
from localqueue.workers.commits.outbox import PREFIX, outbox_queue
from localqueue.workers.counts import WorkerCounts
from localqueue.workers.job import current_job
from localqueue.workers.signals import StopFlag
from localqueue.workers.worker import Worker

if TYPE_CHECKING:
    from localqueue.brokers.port import Broker
    from localqueue.brokers.senders import Sender
    from localqueue.queue import PersistentQueue

log = logging.getLogger("localqueue.workers")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
_LOOK = 0.5


class OutboxRelay:
    """Drains the outbox of a queue whose commit policy is `TransactionalOutboxCommit`.

    `target` is a callable that gets each envelope, another queue, where it is put, or a broker (open, or its address),
    whose queue `to` it is sent to, confirmed, under the envelope's id. An envelope that could not be
    sent is tried again, with growing pauses, before the next one: order is kept, and a target that is down holds up
    the rest. The target may see an envelope twice when the relay dies right after sending it; into a queue of the same
    store it is moved in one transaction, so there it arrives once.
    """

    def __init__(
        self,
        queue: PersistentQueue[Any],
        target: Callable[[dict[str, Any]], object] | PersistentQueue[Any] | Broker | str,
        *,
        to: str | None = None,
        worker_id: str | None = None,
    ) -> None:
        policy = getattr(queue.delivery_policy, "commit_policy", None)
        if getattr(policy, "mode", None) != "transactional-outbox":
            raise ValueError(
                f"queue {queue.name!r} has no outbox; use "
                "EffectivelyOnceDelivery(commit_policy=TransactionalOutboxCommit())"
            )
        self._queue = queue
        self._target: Any = target
        self._sender = self._sender_to(target, to)
        self._external: Any = getattr(policy, "outbox_store", None)
        if self._external is not None and not hasattr(self._external, "keys"):
            raise TypeError(f"a relay needs an outbox_store with keys(prefix); {self._external!r} has none")
        self._worker_id = worker_id
        self._stopping = StopFlag()
        self._worker: Worker | None = None

    def run(self, *, signals: bool = True) -> WorkerCounts:
        """Relay until stopped."""
        if self._external is not None:
            return self._drain_external(until_empty=False)
        return self._new_worker().run(signals=signals)

    def run_until_empty(self, *, signals: bool = True) -> WorkerCounts:
        """Relay what is in the outbox now, waiting for a target that is down."""
        if self._external is not None:
            return self._drain_external(until_empty=True)
        return self._new_worker().run_until_empty(wait_for_delayed=True, signals=signals)

    def stop(self) -> None:
        self._stopping.set()
        if self._worker is not None:
            self._worker.stop()

    def pending(self) -> int:
        """How many envelopes wait to be sent."""
        if self._external is not None:
            return len(self._keys())
        stats = outbox_queue(self._queue).stats()
        return stats.total - stats.dead

    def close(self) -> None:
        """Stop, and close a broker that was opened by its address."""
        self.stop()
        if self._sender is not None:
            self._sender.close()

    def _sender_to(self, target: Any, to: str | None) -> Sender | None:
        is_broker = isinstance(target, str) or hasattr(target, "receive")
        if is_broker is (to is None):
            raise ValueError(
                "a broker is told which of its queues envelopes go to: pass to="
                if is_broker
                else f"to= names a queue of a broker, and the target is {target!r}"
            )
        if to is None:
            return None
        from localqueue.brokers.senders import sender_to

        return sender_to(target, to, source=f"{self._queue.store.url}#{self._queue.name}.outbox")

    def _new_worker(self) -> Worker:
        from tenacity import stop_never, wait_exponential

        self._worker = Worker(
            outbox_queue(self._queue),
            self._forward,
            worker_id=self._worker_id,
            stop=stop_never,
            wait=wait_exponential(multiplier=_FIRST_PAUSE, max=_LONGEST_PAUSE),
        )
        return self._worker

    def _forward(self, envelope: dict[str, Any]) -> None:
        message, target = current_job().message, self._target
        try:
            if (
                self._sender is not None
                or callable(target)
                or target.routing_policy.fanout
                or target.store is not self._queue.store
            ):
                self._send(message.id, envelope)
            else:
                current_job().put(envelope, to=target, **_key(target, message.id))
        except Exception as error:
            if is_permanent(error):  # a worker would bury it, and the next envelope would overtake it
                raise QueueError(f"the target can not take envelopes yet: {shown(error)}") from error
            raise

    # an outbox in a result store

    def _drain_external(self, *, until_empty: bool) -> WorkerCounts:
        sent, pause = 0, _FIRST_PAUSE
        self._stopping.clear()
        while not self._stopping.is_set():
            keys = self._keys()
            if not keys and until_empty:
                break
            for key in keys:
                if self._stopping.is_set():
                    break
                envelope = self._external.load(key)
                if envelope is None:
                    continue
                try:
                    self._send(key, {name: value for name, value in envelope.items() if name != "at"})
                except Exception:
                    log.exception("envelope %s could not be sent, trying again", key)
                    self._stopping.wait(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)
                    break
                self._external.delete(key)
                sent, pause = sent + 1, _FIRST_PAUSE
            else:
                if not until_empty:
                    self._stopping.wait(_LOOK)
        return WorkerCounts(acked=sent)

    def _send(self, key: str, envelope: dict[str, Any]) -> None:
        if self._sender is not None:
            from localqueue.brokers.port import Outgoing
            from localqueue.brokers.senders import Parcel

            headers = {"message-id": str(envelope["message_id"]), "dedupe-key": str(envelope["dedupe_key"])}
            self._sender.send([Parcel(key, Outgoing(JSON_CODEC.encode(envelope).encode(), headers))])
        elif callable(self._target):
            self._target(envelope)
        else:
            self._target.put(envelope, **_key(self._target, key))

    def _keys(self) -> list[str]:
        prefix = f"{PREFIX}:dedupe:{self._queue.name}:"
        keys = self._external.keys(prefix)
        return sorted(keys, key=lambda key: ((self._external.load(key) or {}).get("at", 0.0), key))


def _key(target: PersistentQueue[Any], key: str) -> Any:
    return {"dedupe_key": key} if target.deduplication_policy.accepts_dedupe_key else {}
