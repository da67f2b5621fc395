"""A batch of messages that nothing but their keys and times decide about: one pass, in memory, over what was looked up
for all of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from localqueue.stores.engine.port import Batch, Key, KeyTaken, Wanted
from localqueue.stores.engine.row import BLOCKED, DELAYED, INFLIGHT, READY
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import STATES, Changes, Enqueued


def land(unit: Unit, changes: Changes) -> list[Enqueued] | None:
    """Decide about all messages of a commit and have them written; None, with nothing decided, when there is more to
    it: a limit, a run, an upstream or a past, a dedupe key that somebody holds, a life that is over, an unknown id."""
    messages, rows = changes.enqueue, unit.rows
    if len(messages) < 2 or changes.settle or changes.edges or changes.limits or changes.lease or unit.noting:
        return None
    ids, names, _, _, delays, _, dedupe_keys, ordering_keys, lives, _, runs, afters, pasts = zip(*messages, strict=True)
    if any(afters) or not _is_empty(runs) or not _is_empty(pasts):
        return None
    keys = [key for key in rows.ids.keys_of(ids) if key is not None]
    if len(keys) < len(ids) or any(life is not None and life <= 0 for life in set(lives)):
        return None
    queues = {name: rows.queue(name) for name in dict.fromkeys(names)}
    wanted = [] if rows.guards_dedupe_keys else _by_queue(queues, names, dedupe_keys)
    lines = _by_queue(queues, names, ordering_keys)
    holders = {key for key in wanted if key is not None}
    unit.fetch(Wanted(holders=holders, heads={key for key in lines if key is not None}))
    if any(unit.holders[key] is not None for key in holders) or len(holders) < len(wanted) - wanted.count(None):
        return None
    states = [DELAYED if delay > 0 else READY for delay in delays]
    _line_up(unit, lines, states)
    try:
        rows.write_batch(Batch(keys, states, messages, queues, unit.now))
    except KeyTaken:
        return None
    unit.changed_queues.update(queues.values())
    landed = {state: Enqueued("stored", STATES[state], unit.now) for state in (READY, DELAYED, BLOCKED)}
    return [landed[state] for state in states]


def _is_empty(column: Sequence[object]) -> bool:
    return column.count(None) == len(column)


def _by_queue(queues: Mapping[str, int], names: Sequence[str], keys: Sequence[str | None]) -> Sequence[Key | None]:
    """The key of each message in its queue; none at all where no message has one."""
    if _is_empty(keys):
        return ()
    return [None if key is None else (queues[name], key) for name, key in zip(names, keys, strict=True)]


def _line_up(unit: Unit, lines: Sequence[Key | None], states: list[int]) -> None:
    """Block those that come behind another message of their ordering key."""
    busy = {line for line in set(lines) if line and (head := unit.heads[line]) is not None and head.state <= INFLIGHT}
    for n, line in enumerate(lines):
        if line in busy:
            states[n] = BLOCKED
        elif line is not None:
            busy.add(line)
