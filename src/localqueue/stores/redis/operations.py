"""What an operator does; each is one call of the library."""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.stores import refusals, rules
from localqueue.stores.redis.errors import Refused
from localqueue.stores.redis.namespace import Namespace
from localqueue.stores.redis.schema import digest


class Operations(Namespace):
    def _set_subscription(self, topic: str, subscriber: str, wanted: bool) -> bool:
        queue = self._queue(topic) if wanted else self._digest(topic)
        return bool(self._write("subscribe", queue=queue, subscriber=subscriber, on=wanted)[1])

    def _set_paused(self, queue: str, worker: str | None, paused: bool) -> None:
        self._write("pause", again=True, queue=self._queue(queue), worker=worker, on=paused)
        if not paused:
            self._touched(queue)

    def requeue(self, queue: str, ids: Sequence[str] | None = None, *, delay: float = 0.0) -> int:
        keys = None if ids is None else [key for key in map(self._key, ids) if key]
        try:
            _, requeued = self._write("requeue", queue=self._digest(queue), keys=keys, delay=delay)
        except Refused as refused:
            key, dedupe_key = refused.details
            raise refusals.dedupe_key_in_use(self._id_of(key), queue, dedupe_key.decode()) from None
        self._touched(queue)
        return int(requeued)

    def prune(self, queue: str, *, state: str, older_than: float, dry_run: bool = False) -> int:
        rules.check_ended(state)
        name = self._digest(queue)
        if dry_run:
            return int(self._read("prunable", queue=name, state=state, older_than=older_than)[1])
        return int(self._write("prune", queue=name, state=state, older_than=older_than)[1])

    def purge(self, queue: str) -> int:
        _, purged = self._write("purge", queue=self._digest(queue))
        self._touched(queue)
        return int(purged)

    def cancel_run(self, run_id: str) -> int:
        run = digest(run_id)
        _, cancelled = self._write("cancel_run", run=run)
        self._wake.touched((run.decode(),))
        return int(cancelled)

    def heartbeat(self, queue: str, worker_id: str, *, leases: int = 0) -> None:
        self._write(
            "heartbeat", again=not leases, queue=self._queue(queue), worker=worker_id, leases=leases, known=rules.KNOWN
        )
