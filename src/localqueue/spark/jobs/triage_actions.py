"""Replaying and discarding dead letters, page by page, as an audit entry says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from localqueue.errors import DedupeKeyInUse
from localqueue.spark.jobs import triage_audit as audit
from localqueue.spark.jobs.triage_audit import AuditEntry
from localqueue.stores.port import DEAD, Changes, NewMessage, QueueStore, Settle, StoredMessage

Progress = Callable[[int, int], object]

REPLAY = "replay"
DISCARD = "discard"


def carry_out(store: QueueStore, entry: AuditEntry, progress: Progress | None, *, again: bool = False) -> AuditEntry:
    """Do what is left of an entry. `again` when an earlier job began it: it may have done a page without noting it."""
    while entry.state == audit.RUNNING:
        ids = audit.ids_of(store, entry.id, entry.pages_done)
        if entry.action == DISCARD or entry.to is not None:
            entry = _take_out(store, entry, ids, again)
        else:
            entry = _requeue(store, entry, ids, again)
        if progress is not None:
            progress(entry.done + entry.gone + entry.in_use, entry.selected)
    return entry


def _requeue(store: QueueStore, entry: AuditEntry, ids: Sequence[str], again: bool) -> AuditEntry:
    """Back into its own queue. The store does that in a transaction of its own, so the note follows."""
    wanted = [one.id for one in _dead(store, entry, ids, again)] if again else ids
    done, in_use = _returned(store, entry.queue, wanted, entry.delay)
    after = entry.after_page(done=done, gone=len(ids) - done - in_use, in_use=in_use, now=store.now())
    return replace(after, version=store.commit(Changes(records=[after.write()])).versions[0])


def _returned(store: QueueStore, queue: str, ids: Sequence[str], delay: float) -> tuple[int, int]:
    """How many went back, and how many could not because a live message has their dedupe key."""
    if not ids:
        return 0, 0
    try:
        return store.requeue(queue, ids, delay=delay), 0
    except DedupeKeyInUse:
        if len(ids) == 1:
            return 0, 1
    middle = len(ids) // 2
    first, second = (_returned(store, queue, part, delay) for part in (ids[:middle], ids[middle:]))
    return first[0] + second[0], first[1] + second[1]


def _take_out(store: QueueStore, entry: AuditEntry, ids: Sequence[str], again: bool) -> AuditEntry:
    """Out of the queue, and with `to` into another one: in one commit with the note of it."""
    found = _dead(store, entry, ids, again)
    settles = [Settle(entry.queue, one.id, "ack") for one in found]
    copies = [] if entry.to is None else _copies(store, found, entry.to, entry.delay)
    after = entry.after_page(done=len(found), gone=len(ids) - len(found), in_use=0, now=store.now())
    committed = store.commit(Changes(enqueue=copies, settle=settles, records=[after.write()]))
    return replace(after, version=committed.versions[0])


def _copies(store: QueueStore, messages: Sequence[StoredMessage], to: str, delay: float) -> list[NewMessage]:
    minted = store.mint(len(messages)) if messages else []
    return [
        NewMessage(
            id=new,
            queue=to,
            payload=one.payload,
            codec=one.codec,
            delay=delay,
            priority=one.priority,
            dedupe_key=one.dedupe_key,
            ordering_key=one.ordering_key,
            headers=one.headers,
            run_id=one.run_id,
        )
        for new, one in zip(minted, messages, strict=True)
    ]


def _dead(store: QueueStore, entry: AuditEntry, ids: Sequence[str], again: bool) -> list[StoredMessage]:
    """Those that are dead. What is done later leaves out those that have died again since: they were not meant."""
    found = [one for one in (store.get(entry.queue, one) for one in ids) if one is not None and one.state == DEAD]
    return [one for one in found if (one.failed_at or 0.0) <= entry.at] if again else found
