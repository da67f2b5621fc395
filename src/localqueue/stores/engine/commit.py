"""What one commit does, in the order of the port: enqueue, edges, settle, records, lease."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from localqueue.stores.arguments import check_page
from localqueue.stores.engine import arrivals, batch, leases
from localqueue.stores.engine.dependencies import add_edges
from localqueue.stores.engine.order import tell_ids, with_newer_ids
from localqueue.stores.engine.port import Wanted
from localqueue.stores.engine.settlement import settle
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import Changes, Committed, Enqueued, Limit, Outcome, Page, Put, RecordWrite
from localqueue.stores.receipts import Placed, placed, written_receipt
from localqueue.stores.wiring import Wiring


def apply(unit: Unit, changes: Changes) -> Committed:
    """Everything but what is left to `Unit.finish`."""
    arrivals.check_topics(unit, changes)
    enqueued = batch.land(unit, changes)
    if enqueued is None:
        prefetch(unit, changes)
        if changes.enqueue and (newer := with_newer_ids(unit, changes)) is not changes:
            return tell_ids(_apply(unit, newer, None), newer)
    return _apply(unit, changes, enqueued)


def _apply(unit: Unit, changes: Changes, enqueued: list[Enqueued] | None) -> Committed:
    if enqueued is None:
        wiring = Wiring()
        enqueued = arrivals.enqueue(unit, changes, wiring)
        add_edges(unit, changes.edges, wiring)
    settled = settle(unit, changes.settle, strict=changes.strict) if changes.settle else []
    versions = unit.write_records(changes.records)
    leased = leases.lease(unit, changes.lease, settle_all=True) if changes.lease is not None else None
    return Committed(enqueued, settled, leased or [], versions)


def put_pages(
    unit: Unit,
    pages: Iterable[Page],
    records: Sequence[RecordWrite],
    limits: Mapping[str, Limit],
    topics: Mapping[str, int],
    receipt: tuple[str, str] | None,
    admit: Callable[[Unit, Page], None],
) -> Put:
    """Records first, so that what is refused costs little, and one page after the other."""
    arrivals.check_topics(unit, Changes(topics=topics))
    unit.write_records(records)
    stored = duplicates = dropped = 0
    places: list[Placed] = []
    for page in pages:
        check_page(page)
        if not page.payload:
            continue
        admit(unit, page)
        landed = batch.land_page(unit, page, limits)
        if landed is None:
            keys, found = _put_singly(unit, page, limits)
            stored += found["stored"] + found["diverted"]
            duplicates, dropped = duplicates + found["duplicate"], dropped + found["dropped"]
        else:
            keys = landed.keys
            stored, duplicates = stored + len(keys), duplicates + len(landed.duplicates)
        if receipt is not None and keys:
            places += placed(unit.rows.ids, page, limits, keys)
        unit.turn_page()
    if receipt is not None:
        unit.write_records([written_receipt(receipt, places)])
    return Put(unit.now, stored, duplicates, dropped)


def _put_singly(unit: Unit, page: Page, limits: Mapping[str, Limit]) -> tuple[Sequence[int], Counter[Outcome]]:
    """The keys of what was stored, and how often what became of the messages of a page."""
    ids = unit.rows.ids.take(len(page.payload))
    done = apply(unit, Changes(page.messages(ids), limits=limits)).enqueued
    stored = [one.id or given for one, given in zip(done, ids, strict=True) if one.outcome in ("stored", "diverted")]
    return [key for key in unit.rows.ids.keys_of(stored) if key is not None], Counter(one.outcome for one in done)


def prefetch(unit: Unit, changes: Changes) -> None:
    """Have everything at hand that the commit will surely need: one look at the store, and one more for what the
    messages that it settles hold."""
    key_of = unit.rows.ids.key_of
    queues = {name: unit.rows.queue(name) for name in {message.queue for message in changes.enqueue}}
    wanted = Wanted(
        newest=max((key_of(message.id) or 0 for message in changes.enqueue), default=0),
        keys={key_of(upstream) or 0 for message in changes.enqueue if message.after for upstream in message.after},
        holders={(queues[one.queue], one.dedupe_key) for one in changes.enqueue if one.dedupe_key is not None},
        heads={(queues[one.queue], one.ordering_key) for one in changes.enqueue if one.ordering_key is not None},
    )
    settled = {key for one in changes.settle if (key := key_of(one.id)) is not None}
    wanted.keys |= settled
    wanted.keys.discard(0)
    unit.fetch(wanted)
    if settled:
        found = [row for row in map(unit.row, settled) if row is not None]
        unit.look_behind([row for row in found if row.holds_key], [row.key for row in found if row.dependents])
