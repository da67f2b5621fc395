"""What an operator does; each is one call of the library."""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.errors import DedupeKeyInUse
from localqueue.stores.redis import values
from localqueue.stores.redis.calling import Calls, Refused
from localqueue.stores.redis.names import digest
from localqueue.stores.redis.packing import count, flag


class Operates(Calls):
    def subscribe(self, topic: str, subscriber: str) -> bool:
        return bool(self._write("subscribe", self._queue(topic), subscriber.encode(), b"1")[1])

    def unsubscribe(self, topic: str, subscriber: str) -> bool:
        return bool(self._write("subscribe", self._digest(topic), subscriber.encode(), b"0")[1])

    def requeue(self, queue: str, ids: Sequence[str] | None = None, *, delay: float = 0.0) -> int:
        name = self._digest(queue)
        keys = [] if ids is None else [key for key in map(self._key, ids) if key]
        try:
            arguments = (name, values.number(delay), flag(ids is None), count(keys), *keys)
            _, requeued = self._write("requeue", *arguments, undo=True)
        except Refused as refused:
            key, dedupe_key = refused.details
            raise DedupeKeyInUse(
                f"message {self._id_of(key)} can not return to queue {queue!r}: a live message has its dedupe "
                f"key {dedupe_key.decode()!r}; settle that one first"
            ) from None
        self._touched(queue)
        return int(requeued)

    def prune(self, queue: str, *, state: str, older_than: float, dry_run: bool = False) -> int:
        arguments = (self._digest(queue), _ended(state), values.number(older_than))
        if dry_run:
            return int(self._read("prunable", *arguments)[1])
        return int(self._write("prune", *arguments)[1])

    def purge(self, queue: str) -> int:
        _, purged = self._write("purge", self._digest(queue))
        self._touched(queue)
        return int(purged)

    def cancel_run(self, run_id: str) -> int:
        run = digest(run_id)
        _, cancelled = self._write("cancel_run", run)
        self._wake.touched((run.decode(),))
        return int(cancelled)

    def pause(self, queue: str, *, worker: str | None = None) -> None:
        self._write("pause", self._queue(queue), values.optional(worker), b"1", again=True)

    def resume(self, queue: str, *, worker: str | None = None) -> None:
        self._write("pause", self._queue(queue), values.optional(worker), b"0", again=True)
        self._touched(queue)

    def heartbeat(self, queue: str, worker_id: str, *, leases: int = 0) -> None:
        name = self._queue(queue)
        self._write("heartbeat", name, worker_id.encode(), values.number(leases), again=not leases)

    def _touched(self, queue: str) -> None:
        self._wake.touched((self._digest(queue).decode(),))


def _ended(state: str) -> bytes:
    if state not in ("dead", "expired", "cancelled"):
        raise ValueError(f"only dead, expired or cancelled messages can be pruned, not {state!r}")
    return state.encode()
