"""A batch of messages that nothing but their keys and times decide about: column by column, in memory, over what was
looked up for all of them at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from localqueue._named_tuple import NamedTuple
from localqueue.errors import QueueFull
from localqueue.stores.engine.order import newer_keys
from localqueue.stores.engine.port import Batch, Graph, Key, KeyTaken, Wanted
from localqueue.stores.engine.row import BLOCKED, DELAYED, INFLIGHT, READY, WAITING, Row
from localqueue.stores.engine.timers import is_outlived
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import STATES, Changes, Enqueued, Limit, Page


class Landed(NamedTuple):
    """What became of a batch: the places of those that were stored, None for all of them, with their states and keys;
    whether the keys are newer than those they were given; and of each duplicate whose place is here the row that holds
    its key, or the place of the one before it that does."""

    kept: Sequence[int] | None
    states: Sequence[int]
    keys: Sequence[int]
    newer: bool
    duplicates: Mapping[int, Row | int]


def land(unit: Unit, changes: Changes) -> list[Enqueued] | None:
    """Decide about all messages of a commit and have them written; None, with nothing decided, when there is more to
    it: an overflow, a past, an upstream that is stored already, a life that is over, an unknown id."""
    messages = changes.enqueue
    if len(messages) < 2 or changes.settle or changes.edges or changes.lease or unit.noting:
        return None
    columns = list(zip(*messages, strict=True))
    keys = [key for key in unit.rows.ids.keys_of(columns[0]) if key is not None]
    if not _is_empty(columns[-1]) or len(keys) < len(messages):
        return None
    landed = _land(unit, columns, keys, changes.limits, keep=changes.keep_ids)
    return None if landed is None else _told(unit, landed, len(messages))


def land_page(unit: Unit, page: Page, limits: Mapping[str, Limit]) -> Landed | None:
    """The same of a page, under keys that are made here."""
    if unit.noting or page.past is not None:
        return None
    return _land(unit, page.columns(page.queues), None, limits)


def _land(
    unit: Unit,
    columns: Sequence[Sequence[Any]],
    given: Sequence[int] | None,
    limits: Mapping[str, Limit],
    *,
    keep: bool = False,
) -> Landed | None:
    rows = unit.rows
    ids, names, _, _, _, _, dedupe_keys, ordering_keys, lives, _, runs, afters, _ = columns
    if any(limit.overflow != "reject" for limit in limits.values()):
        return None
    if any(life is not None and life <= 0 for life in set(lives)):
        return None
    graph = None
    if not _is_empty(runs) or any(afters):
        plain = all(map(_is_empty, (dedupe_keys, ordering_keys, lives))) and not limits
        graph = _graph(ids, runs, afters) if plain and rows.writes_graphs else None
        if graph is None:
            return None
        graph = graph._replace(run=unit.run(runs[0]).id)
    queues = {name: rows.queue(name) for name in sorted(set(names))}
    numbers = list(map(queues.__getitem__, names))
    guarded = rows.guards_dedupe_keys and not limits  # a duplicate takes no room
    while True:
        if not guarded:
            unit.fetch(
                Wanted(
                    holders=set(_pairs(numbers, dedupe_keys)),
                    heads=set(_pairs(numbers, ordering_keys)),
                    newest=max(given or (0,)),
                )
            )
        duplicates = _duplicates(unit, numbers, dedupe_keys, guarded)
        if duplicates is None or (duplicates and given is not None and len(set(given)) < len(given)):
            return None
        kept = [n for n in range(len(names)) if n not in duplicates] if duplicates else None
        landed = _write(
            unit, _at(kept, columns), _at(kept, [numbers])[0], None if given is None else _at(kept, [given])[0],
            queues, graph, limits, keep,
        )  # fmt: skip
        if landed is not None:
            states, keys, newer = landed
            return Landed(kept, states, keys, newer, duplicates)
        if not guarded:
            return None
        guarded = False


def _write(
    unit: Unit,
    columns: Sequence[Sequence[Any]],
    numbers: Sequence[int],
    given: Sequence[int] | None,
    queues: Mapping[str, int],
    graph: Graph | None,
    limits: Mapping[str, Limit],
    keep: bool,
) -> tuple[Sequence[int], Sequence[int], bool] | None:
    """Have messages written of which none is a duplicate: their states and keys, and whether those are newer than what
    was given. None when somebody has one of their ids or dedupe keys."""
    rows, count = unit.rows, len(numbers)
    if not count:
        return [], [], False
    _, _, _, _, delays, _, _, ordering_keys, *_ = columns
    keys: Sequence[int] = given if given is not None else _fresh(unit, count)
    lines = _pairs(numbers, ordering_keys)
    if lines:
        unit.fetch(Wanted(heads=set(lines), newest=max(keys)))
    states = [DELAYED if delay > 0 else READY for delay in delays] if any(delays) else [READY] * count
    if graph is not None:
        states = [WAITING if above else state for above, state in zip(graph.waiting_on, states, strict=True)]
    if lines:
        states = _behind_heads(unit, list(zip(numbers, ordering_keys, strict=True)), states)
    came = _counted(numbers, states) if limits else {}
    for name, limit in limits.items():
        if name in queues and limit.maxsize > 0:
            _require_room(unit, name, queues[name], limit.maxsize, numbers, states)
    if given is None:
        newest = max(unit.newest, rows.newest(queues.values()))
        keys, newer = (keys if keys[0] > newest else _fresh(unit, count, newest)), False
    else:
        renewed = newer_keys(unit, keys, queues.values(), keep=keep)
        keys, newer = (keys, False) if renewed is None else (renewed, True)
    if graph is not None:
        graph = graph._replace(edges=[(keys[above], keys[below]) for above, below in graph.edges])
    try:
        rows.write_batch(Batch(keys, states, queues, unit.now, columns, graph))
    except KeyTaken:
        return None
    if graph is not None:
        unit.writes.run(graph.run).total += count
        unit.changed_runs.add(graph.run)
    unit.changed_queues.update(numbers)
    for queue, several in came.items():
        unit.room.grow(queue, several)
    return states, keys, newer


def _fresh(unit: Unit, count: int, above: int = 0) -> range:
    first = unit.rows.ids.reserve(count, above)
    return range(first, first + count)


def _duplicates(
    unit: Unit, numbers: Sequence[int], dedupe_keys: Sequence[str | None], guarded: bool
) -> dict[int, Row | int] | None:
    """Those whose dedupe key is held by one before them or, unless the store is about to find that out by itself, by a
    live message; None where one of these has outlived its time, and leaves."""
    wanted = _pairs(numbers, dedupe_keys)
    if not wanted:
        return {}
    different = set(wanted)
    if guarded:
        if len(different) == len(wanted):
            return {}
        holders: dict[Key, Row | None] = {}
    else:
        holders = unit.holders
        held = [row for key in different if (row := holders.get(key)) is not None]
        if any(is_outlived(unit, row) for row in held):
            return None
        if not held and len(different) == len(wanted):
            return {}
    found: dict[int, Row | int] = {}
    first: dict[Key, int] = {}
    for n, (queue, name) in enumerate(zip(numbers, dedupe_keys, strict=True)):
        if name is None:
            continue
        row = holders.get((queue, name))
        if row is not None:
            found[n] = row
        elif (place := first.setdefault((queue, name), n)) != n:
            found[n] = place
    return found


def _at(places: Sequence[int] | None, columns: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
    """The values at these places."""
    return columns if places is None else [[column[n] for n in places] for column in columns]


def _counted(numbers: Sequence[int], states: Sequence[int]) -> Mapping[int, int]:
    """How many of each queue count against its capacity."""
    return Counter(queue for queue, state in zip(numbers, states, strict=True) if state in (READY, BLOCKED))


def _require_room(
    unit: Unit, name: str, queue: int, maxsize: int, numbers: Sequence[int], states: Sequence[int]
) -> None:
    """Refuse a batch of which one message finds its queue full."""
    mine = [state for number, state in zip(numbers, states, strict=True) if number == queue]
    before_last = sum(state in (READY, BLOCKED) for state in mine[:-1])
    if mine and unit.room.load(queue, maxsize) + before_last >= maxsize:
        raise QueueFull(name, maxsize)


def _told(unit: Unit, landed: Landed, count: int) -> list[Enqueued]:
    """What a commit tells of each."""
    now, id_of = unit.now, unit.rows.ids.id_of
    usual = {state: Enqueued("stored", STATES[state], now) for state in set(landed.states)}
    stored = [usual[state] for state in landed.states]
    if landed.newer:
        stored = [one._replace(id=id_of(key)) for one, key in zip(stored, landed.keys, strict=True)]
    if landed.kept is None:
        return stored
    done = dict(zip(landed.kept, stored, strict=True))
    keys = dict(zip(landed.kept, landed.keys, strict=True))
    of = {n: keys[row] if isinstance(row, int) else row.key for n, row in landed.duplicates.items()}
    existing = unit.rows.stored(set(of.values()))
    for n, row in landed.duplicates.items():
        state = done[row].state if isinstance(row, int) else STATES[row.state]
        done[n] = Enqueued("duplicate", state, now, existing.get(of[n]))
    return [done[n] for n in range(count)]


def _graph(ids: Sequence[str], runs: Sequence[str | None], afters: Sequence[tuple[str, ...]]) -> Graph | None:
    """The messages as the beginning of one run, each behind those it comes after, with edges by their numbers; None
    for anything else: other runs, and upstreams that are stored already."""
    if runs[0] is None or runs.count(runs[0]) < len(runs):
        return None
    place: dict[str, int] = {}
    edges: list[tuple[int, int]] = []
    dependents = [0] * len(ids)
    waiting_on = []
    for n, (name, after) in enumerate(zip(ids, afters, strict=True)):
        upstreams = dict.fromkeys(after)
        for one in upstreams:
            above = place.get(one)
            if above is None:
                return None
            edges.append((above, n))
            dependents[above] += 1
        waiting_on.append(len(upstreams))
        place[name] = n
    return Graph(None, waiting_on, dependents, edges)


def _is_empty(column: Sequence[object]) -> bool:
    return column.count(None) == len(column)


def _pairs(numbers: Sequence[int], keys: Sequence[str | None]) -> list[Key]:
    """The keys of messages, each with its queue."""
    if _is_empty(keys):
        return []
    return [(queue, key) for queue, key in zip(numbers, keys, strict=True) if key is not None]


def _behind_heads(unit: Unit, lines: Sequence[tuple[int, str | None]], states: list[int]) -> list[int]:
    """The states of messages, all but the first of an ordering key blocked, and that as well where the key is busy."""
    first = dict(zip(reversed(lines), reversed(range(len(lines))), strict=True))
    found = [state if line[1] is None else BLOCKED for line, state in zip(lines, states, strict=True)]
    for (queue, key), n in first.items():
        if key is not None and ((head := unit.heads[queue, key]) is None or head.state > INFLIGHT):
            found[n] = states[n]
    return found
