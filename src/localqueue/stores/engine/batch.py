"""A batch of messages that nothing but their keys and times decide about: one pass, in memory, over what was looked up
for all of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from localqueue.stores.engine.port import Batch, Key
from localqueue.stores.engine.row import BLOCKED, DELAYED, INFLIGHT, READY
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
    """Decide about all of them and have them written; None, with nothing decided, when one needs more than a look at
    its keys: a dedupe key that somebody holds, a life that is over, an id that is none."""
    key_of, holders, heads = unit.rows.ids.key_of, unit.holders, unit.heads
    keys, states = [], []
    taken: set[Key] = set()
    busy: set[Key] = set()
    for message in messages:
        key, queue, dedupe_key, ordering_key = key_of(message[0]), queues[message[1]], message[6], message[7]
        if key is None or (message[8] is not None and message[8] <= 0):
            return None
        if dedupe_key is not None:
            holder = (queue, dedupe_key)
            if holders[holder] is not None or holder in taken:
                return None
            taken.add(holder)
        state = DELAYED if message[4] > 0 else READY
        if ordering_key is not None:
            line = (queue, ordering_key)
            if line in busy or ((head := heads[line]) is not None and head.state <= INFLIGHT):
                state = BLOCKED
            else:
                busy.add(line)
        keys.append(key)
        states.append(state)
    unit.rows.write_batch(Batch(keys, states, messages, queues, unit.now))
    unit.changed_queues.update(queues.values())
    landed = {state: Enqueued("stored", STATES[state], unit.now) for state in (READY, DELAYED, BLOCKED)}
    return [landed[state] for state in states]
