"""Order is the order of the commits: no message gets a key that is not newer than what its queue has had.

Keys are minted by clients, by their clocks and before their commit has its turn. One that comes too late is replaced
here, where nobody else can commit meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from localqueue._dataclass import replace
from localqueue.errors import IdTaken
from localqueue.stores.engine.port import Wanted
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import Changes, Committed, Edge


def newer_keys(unit: Unit, keys: Sequence[int], queues: Iterable[int], *, keep: bool) -> range | None:
    """Keys to replace these, where one of them comes too late. What the unit knows of ordering keys was fetched."""
    newest = max(unit.newest, unit.rows.newest(queues))
    if not keys or min(keys) > newest:
        return None
    unit.fetch(Wanted(keys=set(keys)))
    if keep or any(unit.row(key) for key in keys):
        unit.rows.ids.overtake(newest)
        raise IdTaken(f"message id {unit.rows.ids.id_of(min(keys))} is in use, or its queue has had a newer one")
    first = unit.rows.ids.reserve(len(keys), above=newest)
    return range(first, first + len(keys))


def with_newer_ids(unit: Unit, changes: Changes) -> Changes:
    """The same changes, with new ids for all their messages if one of them comes too late."""
    ids = unit.rows.ids
    given = [message.id for message in changes.enqueue]
    keys = [key for key in ids.keys_of(given) if key is not None]
    if not keys or len(set(keys)) < len(given):  # which is refused in its turn
        return changes
    names = {message.queue for message in changes.enqueue}
    spare = {limit.overflow_queue for limit in changes.limits.values() if limit.overflow_queue is not None}
    queues = {queue for name in names | spare if (queue := unit.rows.find_queue(name)) is not None}
    newer = newer_keys(unit, keys, queues, keep=changes.keep_ids)
    if newer is None:
        return changes
    renamed = dict(zip(given, map(ids.id_of, newer), strict=True))
    return replace(
        changes,
        enqueue=[
            one._replace(id=renamed[one.id], after=tuple(renamed.get(upstream, upstream) for upstream in one.after))
            for one in changes.enqueue
        ],
        edges=[Edge(*(renamed.get(one, one) for one in edge)) for edge in changes.edges],
        settle=[one._replace(id=renamed.get(one.id, one.id)) for one in changes.settle],
    )


def tell_ids(committed: Committed, changes: Changes) -> Committed:
    """Have the result say under which ids the messages of these changes were stored."""
    committed.enqueued = [
        done._replace(id=message.id) for message, done in zip(changes.enqueue, committed.enqueued, strict=True)
    ]
    return committed
