"""What a blocked caller waits for: a message to lease, room to put one, a change of a run or of records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from localqueue.stores import rules
from localqueue.stores.engine.row import READY
from localqueue.stores.lmdb.reads import Reads
from localqueue.stores.lmdb.schema import QueueRow
from localqueue.stores.wake import RecordName, StoreWaiter, change_of

if TYPE_CHECKING:
    from localqueue.stores.lmdb.store import LMDBQueueStore


def for_messages(store: LMDBQueueStore, queues: Sequence[str], worker: str | None) -> StoreWaiter:
    def look(reads: Reads, queue: int) -> QueueRow | None:
        return None if reads.paused(queue, worker) else reads.queue_row(queue)

    def check() -> tuple[bool, float]:
        now, next_due = store.now(), rules.NEVER
        for name in queues:
            row = store._read_queue(name, look, None)
            if row is None:
                continue
            if row.counts[READY] or row.due <= now:
                return True, 0.0
            next_due = min(next_due, row.due)
        return False, next_due - now

    return _waiter(store, queues, check)


def for_capacity(store: LMDBQueueStore, limits: Mapping[str, int]) -> StoreWaiter:
    """A message whose life ends makes room too, so a full queue is looked at again when the next one ends."""

    def look(reads: Reads, queue: int) -> tuple[int, float]:
        return reads.load(queue), reads.next_expiry(queue) - reads.now

    def check() -> tuple[bool, float]:
        for name, maxsize in limits.items():
            load, next_expiry = store._read_queue(name, look, (0, rules.NEVER))
            if load >= maxsize:
                return False, next_expiry
        return True, rules.NEVER

    return _waiter(store, tuple(limits), check)


def for_run(store: LMDBQueueStore, run_id: str) -> StoreWaiter:
    return _waiter(store, store.queues(), change_of(lambda: store.run(run_id)))


def for_records(store: LMDBQueueStore, kind: str, keys: Sequence[str]) -> StoreWaiter:
    names = [RecordName(kind, key) for key in dict.fromkeys(keys)]

    def look(reads: Reads) -> list[int]:
        """In which version each record is; a version is never used again."""
        return [0 if (found := reads.record(*name)) is None else found.version for name in names]

    return _waiter(store, names, change_of(lambda: store._read(look)))


def _waiter(store: LMDBQueueStore, names: Sequence[Hashable], check: Callable[[], tuple[bool, float]]) -> StoreWaiter:
    watched = tuple((store.namespace_id, name) for name in names)
    return StoreWaiter(store._environment.wake, watched, check)
