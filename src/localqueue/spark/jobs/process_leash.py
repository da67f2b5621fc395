"""How the driver of `process` holds its tasks: a record in the queue's own store that it keeps fresh.

Spark does not end a Python task when its job is cancelled: the task has to notice by itself. So a task goes on only
while the record of its job is there and fresh. When it is gone, or nobody has touched it for a while because the driver
is gone, the task finishes what it runs; when it says so, the task ends at once.
"""

from __future__ import annotations

from localqueue.stores.port import Changes, QueueStore, RecordWrite

KIND = "spark-process"
GO_ON = b"go on"
END_AT_ONCE = b"end at once"

BEAT = 5.0
PATIENCE = 60.0
_KEPT = 3600.0


def hold(store: QueueStore, job: str) -> None:
    """Let the tasks of a job go on, for a minute at least."""
    store.commit(Changes(records=[RecordWrite(KIND, job, GO_ON)]))


def let_go(store: QueueStore, job: str) -> None:
    """Have the tasks finish what they run."""
    store.commit(Changes(records=[RecordWrite(KIND, job, None)]))


def cut(store: QueueStore, job: str) -> None:
    """Have the tasks end at once. The record stays for those that have not looked yet."""
    store.commit(Changes(records=[RecordWrite(KIND, job, END_AT_ONCE)]))


def sweep(store: QueueStore) -> None:
    """Remove what drivers that were killed have left."""
    before = store.now() - _KEPT
    old = [RecordWrite(KIND, one.key, None, one.version) for one in store.records(KIND) if one.updated_at < before]
    for write in old:
        store.commit(Changes(records=[write]))


def word(store: QueueStore, job: str) -> bytes | None:
    """What a task is told: to go on, to end at once, or with None to finish."""
    record = store.record(KIND, job)
    if record is None or record.value == END_AT_ONCE:
        return None if record is None else END_AT_ONCE
    return GO_ON if store.now() - record.updated_at < PATIENCE else None
