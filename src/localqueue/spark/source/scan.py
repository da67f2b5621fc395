"""A part of a view through the store's port, for stores without tables: in pages, each of a moment of its own.

No message comes twice in a part. Those that left delivery are listed by the time they left it, so one that comes back
and leaves again while it is read could be met twice: it is shown as it was met first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa

from localqueue.events.journal import JournalEvent
from localqueue.spark.columns import RUN_COUNTS
from localqueue.spark.options import Options
from localqueue.spark.source.filters import Wanted
from localqueue.spark.source.plan import Entries, EntriesLost, Messages, Range, Runs
from localqueue.spark.source.rows import event_batch, message_batch, run_batch, stats_batch
from localqueue.stores.port import DEAD, STATES, QueueStore, StoredMessage

_PAGE = 2000
_ENDED = STATES[STATES.index(DEAD) :]


def scan_messages(
    store: QueueStore, part: Messages, states: frozenset[str] | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for one in part.ranges:
        for queue in one.queues:
            for page in _pages(store, queue, one, states):
                if page:
                    yield message_batch(page, schema)


def scan_events(
    store: QueueStore, part: Entries, options: Options, wanted: Wanted, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    only = part.queues[0] if part.queues is not None and len(part.queues) == 1 else None
    cursor = part.after
    while cursor < part.until:
        page = store.events(cursor, _PAGE, only)
        if part.whole and (not page or page[0].seq > cursor + 1):
            first, _ = store.journal_span()
            if first > cursor + 1:
                raise EntriesLost.between(cursor + 1, first)
        kept = [event for event in page if event.seq <= part.until and _is_wanted(event, part, options, wanted)]
        if kept:
            yield event_batch(kept, schema)
        if len(page) < _PAGE:
            return
        cursor = page[-1].seq


def scan_runs(store: QueueStore, part: Runs, wanted: Wanted, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    from localqueue.spark.source.runs import run_rows  # workflows are loaded by who reads runs

    rows = run_rows(store, part, wanted, counted=not RUN_COUNTS.keys().isdisjoint(schema.names))
    while page := list(islice(rows, _PAGE)):
        yield run_batch(page, schema)


def scan_stats(store: QueueStore, queues: tuple[str, ...], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    yield stats_batch([(name, store.stats(name)) for name in queues], schema)


def _pages(store: QueueStore, queue: str, one: Range, states: frozenset[str] | None) -> Iterator[list[StoredMessage]]:
    state = next(iter(states)) if states is not None and len(states) == 1 else None
    if state in _ENDED:
        yield from _ended(store, queue, one, state)
        return
    after = one.after
    while True:
        page = store.scan(queue, state=state, after=after, until=one.until, limit=_PAGE)
        yield page if states is None else [message for message in page if message.state in states]
        if len(page) < _PAGE:
            return
        after = page[-1].id


def _ended(store: QueueStore, queue: str, one: Range, state: str) -> Iterator[list[StoredMessage]]:
    seen: set[str] = set()
    after = None
    while True:
        page = store.scan(queue, state=state, after=after, limit=_PAGE)
        fresh = [
            message
            for message in page
            if message.id not in seen and message.id <= one.until and (one.after is None or message.id > one.after)
        ]
        seen.update(message.id for message in fresh)
        yield fresh
        if len(page) < _PAGE:
            return
        after = page[-1].id


def _is_wanted(event: JournalEvent, part: Entries, options: Options, wanted: Wanted) -> bool:
    return (
        (part.queues is None or event.queue in part.queues)
        and (wanted.types is None or event.type in wanted.types)
        and (options.starting_at is None or event.at >= options.starting_at)
        and (options.ending_at is None or event.at < options.ending_at)
    )
