"""A batch of messages that nothing but their keys and times decide about: one pass, in memory, over what was looked up
for all of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from localqueue.stores.engine.port import Insert
from localqueue.stores.engine.row import BLOCKED, DELAYED, INFLIGHT, READY, Row
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import STATES, Changes, Enqueued, NewMessage


def is_simple(unit: Unit, changes: Changes) -> bool:
    """Whether there is nothing but new messages, and no limit, run, upstream or past among them."""
    return (
        not (changes.settle or changes.edges or changes.limits or changes.lease or unit.noting)
        and len(changes.enqueue) > 1
        and all(not one.after and one.run_id is None and one.past is None for one in changes.enqueue)
    )


def land(unit: Unit, messages: Sequence[NewMessage], queues: Mapping[str, int]) -> list[Enqueued] | None:
    """Decide about all of them; None, with nothing decided, when one needs more than a look at its keys: a dedupe key
    that somebody holds, a life that is over, an id that is none."""
    now, key_of = unit.now, unit.rows.ids.key_of
    holders, heads, inserts = unit.holders, unit.heads, []
    landed = {state: Enqueued("stored", STATES[state], now) for state in (READY, DELAYED, BLOCKED)}
    done = []
    taken: set[tuple[int, str]] = set()
    busy: set[tuple[int, str]] = set()
    for message in messages:
        (message_id, name, _, _, delay, priority, dedupe_key, ordering_key, ttl, *_) = message
        key, queue = key_of(message_id), queues[name]
        if key is None or (ttl is not None and ttl <= 0):
            return None
        if dedupe_key is not None:
            if (queue, dedupe_key) in taken or holders[queue, dedupe_key] is not None:
                return None
            taken.add((queue, dedupe_key))
        state = DELAYED if delay > 0 else READY
        if ordering_key is not None:
            line = (queue, ordering_key)
            head = heads[line]
            if line in busy or (head is not None and head.state <= INFLIGHT):
                state = BLOCKED
            busy.add(line)
        row = Row(key, queue, state, priority, now, now + delay, 0, None if ttl is None else now + ttl)
        row.ordering_key, row.dedupe_key = ordering_key, dedupe_key
        inserts.append(Insert(row, message))
        done.append(landed[state])
    unit.writes.inserts += inserts
    unit.changed_queues.update(queues.values())
    return done
