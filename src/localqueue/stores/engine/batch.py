"""A batch of messages that nothing but their keys and times decide about: column by column, in memory, over what was
looked up for all of them at once."""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.stores.engine.order import newer_keys
from localqueue.stores.engine.port import Batch, Graph, Key, KeyTaken, Wanted
from localqueue.stores.engine.row import BLOCKED, DELAYED, INFLIGHT, READY, WAITING
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import STATES, Changes, Enqueued


def land(unit: Unit, changes: Changes) -> list[Enqueued] | None:
    """Decide about all messages of a commit and have them written; None, with nothing decided, when there is more to
    it: a limit, a past, an upstream that is stored already, a dedupe key that somebody holds, a life that is over, an
    unknown id."""
    messages, rows = changes.enqueue, unit.rows
    if len(messages) < 2 or changes.settle or changes.edges or changes.limits or changes.lease or unit.noting:
        return None
    columns = list(zip(*messages, strict=True))
    ids, names, _, _, delays, _, dedupe_keys, ordering_keys, lives, _, runs, afters, pasts = columns
    if not _is_empty(pasts):
        return None
    graph = None
    if any(afters) or not _is_empty(runs):
        plain = all(map(_is_empty, (dedupe_keys, ordering_keys, lives)))
        graph = _graph(ids, runs, afters) if plain and rows.writes_graphs else None
        if graph is None:
            return None
    keys = [key for key in rows.ids.keys_of(ids) if key is not None]
    if len(keys) < len(ids) or any(life is not None and life <= 0 for life in set(lives)):
        return None
    queues = {name: rows.queue(name) for name in dict.fromkeys(names)}
    numbers = list(map(queues.__getitem__, names))
    holders = [] if rows.guards_dedupe_keys else _pairs(numbers, dedupe_keys)
    lines = _pairs(numbers, ordering_keys)
    unit.fetch(Wanted(holders=set(holders), heads=set(lines), newest=max(keys)))
    if any(unit.holders[key] is not None for key in holders) or len(set(holders)) < len(holders):
        return None
    states = [DELAYED if delay > 0 else READY for delay in delays]
    if graph is not None:
        states = [WAITING if count else state for count, state in zip(graph.waiting_on, states, strict=True)]
        graph = graph._replace(run=unit.run(runs[0]).id)
    if lines:
        states = _behind_heads(unit, list(zip(numbers, ordering_keys, strict=True)), states)
    newer = newer_keys(unit, keys, queues.values(), keep=changes.keep_ids)
    keys = keys if newer is None else list(newer)
    if graph is not None:
        graph = graph._replace(edges=[(keys[above], keys[below]) for above, below in graph.edges])
    try:
        rows.write_batch(Batch(keys, states, messages, queues, unit.now, columns, graph))
    except KeyTaken:
        return None
    if graph is not None:
        unit.writes.run(graph.run).total += len(keys)
        unit.changed_runs.add(graph.run)
    unit.changed_queues.update(numbers)
    landed = {state: Enqueued("stored", STATES[state], unit.now) for state in (READY, DELAYED, WAITING, BLOCKED)}
    done = [landed[state] for state in states]
    if newer is None:
        return done
    return [one._replace(id=rows.ids.id_of(key)) for one, key in zip(done, newer, strict=True)]


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
