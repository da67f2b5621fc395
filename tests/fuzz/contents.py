"""A store with something of everything in it, and everything that can be asked of a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from localqueue.contracts import FakeClock
from localqueue.errors import QueueError, QueueStoreCorruptError, QueueStoreError, QueueStoreVersionError
from localqueue.stores.port import Changes, Lease, LeaseRequest, NewMessage, RecordWrite, Settle
from tests.unit.test_sqlite_archive import fill

QUEUE = "jobs"

READS: dict[str, Callable[[Any], object]] = {
    "scan": lambda store: [store.scan(queue) for queue in ("jobs", "other", "topic")],
    "scan dead": lambda store: [store.scan(QUEUE, state=state) for state in ("dead", "expired", "cancelled")],
    "stats": lambda store: [store.stats(queue) for queue in store.queues()],
    "qsize": lambda store: (store.qsize(QUEUE), store.load(QUEUE), store.splits(QUEUE, 3)),
    "runs": lambda store: [(store.run(run), store.run_messages(run)) for run in store.runs()],
    "upstream": lambda store: [store.upstream(QUEUE, message.id) for message in store.scan(QUEUE)],
    "records": lambda store: (store.records("result"), store.record("idempotency", "x")),
    "subscriptions": lambda store: (store.subscriptions("topic"), store.paused(QUEUE), store.paused(QUEUE, worker="w")),
    "events": lambda store: (store.journal_enabled(), store.journal_span(), store.events()),
    "check": lambda store: store.check(),
    "prunable": lambda store: store.prune(QUEUE, state="dead", older_than=0, dry_run=True),
}
WRITES: dict[str, Callable[[Any], object]] = {
    "put one": lambda store: store.put_one(QUEUE, "1", None),
    "put batch": lambda store: store.put_batch(QUEUE, ["1", "2"], None),
    "put after": lambda store: _put(store, after=tuple(message.id for message in store.scan(QUEUE, limit=2))),
    "put with options": lambda store: _put(store, priority=3, dedupe_key="d", ttl=5.0, headers='{"a":"b"}', run_id="r"),
    "put in order": lambda store: _put(store, ordering_key="k"),
    "lease one": lambda store: store.lease(LeaseRequest(QUEUE)),
    "lease many": lambda store: store.lease(LeaseRequest(QUEUE, 100, 1.0, "w", 3)),
    "step": lambda store: _step(store),
    "renew": lambda store: store.renew([Lease(QUEUE, one.id, one.attempts) for one in store.scan(QUEUE)], timeout=9.0),
    "requeue": lambda store: store.requeue(QUEUE),
    "requeue some": lambda store: store.requeue(QUEUE, [one.id for one in store.scan(QUEUE, state="dead")]),
    "set records": lambda store: store.commit(
        Changes(records=[RecordWrite("result", "x", b"1"), RecordWrite("a", "b", None)])
    ),
    "cancel run": lambda store: store.cancel_run("r"),
    "pause": lambda store: (store.pause(QUEUE, worker="w"), store.pause("other"), store.resume("other")),
    "subscribe": lambda store: (store.subscribe("topic", "z"), store.unsubscribe("topic", "a")),
    "heartbeat": lambda store: store.heartbeat(QUEUE, "w", leases=2),
    "journal": lambda store: (store.enable_journal(keep_events=5), store.prune_events(older_than=0.0)),
    "prune": lambda store: store.prune(QUEUE, state="dead", older_than=0.0),
    "purge": lambda store: store.purge("other"),
}


def make(open_store: Callable[..., Any]) -> None:
    """Fill the store that this opens."""
    clock = FakeClock()
    with open_store(clock=clock) as store:
        fill(store, clock)
        for n in range(40):
            store.put_one(QUEUE, f'"{n} {"x" * 50}"', None)


def ask(store: Any, names: list[str]) -> None:
    """Ask a store all of this. It answers, or says that it is damaged, which the check finds too."""
    for name in names:
        try:
            (READS | WRITES)[name](store)
        except (QueueStoreCorruptError, QueueStoreVersionError) as error:
            assert name == "check" or _problems(store), f"{name}: {error}"
        except QueueStoreError:
            raise
        except QueueError as error:  # such as that a run was cancelled
            assert str(error)


def _problems(store: Any) -> tuple[str, ...]:
    try:
        return tuple(store.check().problems)
    except (QueueStoreCorruptError, QueueStoreVersionError) as error:
        return (str(error),)


def _put(store: Any, **options: Any) -> None:
    store.commit(Changes(enqueue=[NewMessage(store.mint()[0], QUEUE, '"late"', **options)]))


def _step(store: Any) -> None:
    """What a worker does: settle what it has, and take the next."""
    held = store.lease(LeaseRequest(QUEUE, 3, leased_by="w"))
    actions = ("ack", "release", "dead-letter")
    settles = [Settle(QUEUE, one.id, action, one.attempts) for one, action in zip(held, actions, strict=False)]
    store.commit(Changes(settle=settles, lease=LeaseRequest(QUEUE, 2), strict=False))
