"""Locks of what is put, which are taken before those of queues and held until the commit.

The lock of a queue excludes all who decide about it, claims that settle timers too, so it is held for moments only. A
transaction of the user may last, and others must still not put with a key that it has put with, or into the room that
it has counted, nor cancel a run or change the subscribers of a topic that it has put into. These locks are for that,
and nobody who only consumes takes one. They are numbers that names are mapped to; two names with the same number wait
for each other without need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from zlib import crc32

from localqueue.stores.port import Changes, Limit, Page

#: In the order in which all take them, and whether others may share each.
Locks = Sequence[tuple[int, bool]]

#: Keys of one queue; where a commit has more, all who put with keys into it wait for each other.
MANY = 32

#: Of the keys of one queue. A server has room for some thousands of locks, and a transaction may put any number of
#: keys.
_NUMBERS = 1024


def locks_of(namespace: int, changes: Changes) -> Locks:
    """The locks that a commit takes."""
    return _in_order(_wanted(namespace, changes))


def guest_locks_of(namespace: int, changes: Changes) -> Locks:
    """The locks that a commit in a transaction of the user takes. Any other one locks runs and topics themselves."""
    wanted = _wanted(namespace, changes)
    wanted.update((run_lock(namespace, one.run_id), True) for one in changes.enqueue if one.run_id is not None)
    wanted.update((topic_lock(namespace, topic), True) for topic in changes.topics)
    return _in_order(wanted)


def page_locks(namespace: int, page: Page, limits: Mapping[str, Limit]) -> list[int]:
    """The locks that a page of messages takes, none of them shared."""
    spare = [limit.overflow_queue for limit in limits.values() if limit.overflow_queue is not None]
    names = {page.queue} if isinstance(page.queue, str) else set(page.queue)
    keyed = [] if page.dedupe_key is None and page.ordering_key is None else [*names, *spare]
    return sorted(
        {_number(namespace, "keys", queue) for queue in keyed} | {_number(namespace, "room", one) for one in limits}
    )


def run_lock(namespace: int, name: str) -> int:
    return _number(namespace, "run", name)


def topic_lock(namespace: int, name: str) -> int:
    return _number(namespace, "topic", name)


def _wanted(namespace: int, changes: Changes) -> dict[int, bool]:
    wanted: dict[int, bool] = {}
    for queue, keys in _keys_of(changes).items():
        all_keys = _number(namespace, "keys", queue)
        wanted[all_keys] = len(keys) <= MANY
        if len(keys) <= MANY:
            wanted.update((_number(namespace, "key", queue, key), False) for key in keys)
    wanted.update((_number(namespace, "room", queue), False) for queue in changes.limits)
    return wanted


def _keys_of(changes: Changes) -> Mapping[str, set[int]]:
    """The dedupe and ordering keys, as numbers, for each queue that a commit puts into, or may put into; of more than
    `MANY` not all."""
    found: dict[str, set[int]] = {}
    for one in changes.enqueue:
        if one.dedupe_key is None and one.ordering_key is None:
            continue
        limit = changes.limits.get(one.queue)
        for queue in (one.queue, None if limit is None else limit.overflow_queue):
            if queue is None or len(keys := found.setdefault(queue, set())) > MANY:
                continue
            for kind, key in (("dedupe", one.dedupe_key), ("ordering", one.ordering_key)):
                if key is not None:
                    keys.add(_hash(kind, key) % _NUMBERS)
    return found


def _in_order(wanted: Mapping[int, bool]) -> Locks:
    return sorted(wanted.items())


def _number(*name: object) -> int:
    return _hash(*name) - 2**31


def _hash(*name: object) -> int:
    return crc32(repr(name).encode())
