"""New messages, in their order, many rows a statement."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import compress, repeat
from operator import neg
from typing import TYPE_CHECKING, Any

from localqueue.stores import rules
from localqueue.stores.engine.port import Batch, Insert
from localqueue.stores.engine.row import READY
from localqueue.stores.port import STATES, Payload
from localqueue.stores.sqlite import statements as sql

if TYPE_CHECKING:
    from localqueue.stores.sqlite.rows import Counts, Execute

_ROWS_A_STATEMENT = 500


@functools.lru_cache(maxsize=64)
def _insert(table: str, shared: tuple[str, ...], counted: frozenset[str], own: tuple[str, ...], count: int) -> str:
    """Parameters are the values that all rows share, or count up from, and then those that each row has of its own."""
    values = [f"?{n} + %d" if name in counted else f"?{n}" for n, name in enumerate(shared, 1)] + ["?"] * len(own)
    row = f"({', '.join(values)})"
    rows = [row % n for n in range(count)] if counted else [row] * count
    return f"INSERT INTO {table} ({', '.join(shared + own)}) VALUES {', '.join(rows)}"


def _insert_rows(execute: Execute, table: str, count: int, columns: dict[str, Any]) -> None:
    """Rows by their columns: a list or a range has a value for each, anything else is the value of all of them."""
    own = {name: column for name, column in columns.items() if isinstance(column, list)}
    shared = {name: column for name, column in columns.items() if name not in own}
    counted = frozenset(name for name, column in shared.items() if isinstance(column, range))
    for start in range(0, count, _ROWS_A_STATEMENT):
        rows = min(_ROWS_A_STATEMENT, count - start)
        values = [column[start] if name in counted else column for name, column in shared.items()]
        rest = [None] * (rows * len(own))
        for n, column in enumerate(own.values()):
            rest[n :: len(own)] = column[start : start + rows]
        execute(_insert(table, tuple(shared), counted, tuple(own), rows), values + rest)


def insert_plain(
    execute: Execute,
    now: float,
    queue: int,
    payloads: Sequence[Payload],
    codec: str | None,
    keys: range,
    counts: Counts,
) -> None:
    """Messages of one queue that have no options."""
    columns = {"key": keys, "queue": queue, "state": READY, "priority": 0, "created_at": now, "codec": codec}
    _insert_rows(execute, "lq_messages", len(keys), columns | {"payload": list(payloads)})
    counts.newest(queue, keys[-1])
    _enter_line(execute, keys, queue, 0, counts.position(queue, now), None)
    counts.add(queue, READY, len(keys))


def insert_batch(execute: Execute, batch: Batch, counts: Counts) -> None:
    """Messages that nothing has happened to, with no upstream but each other."""
    now, count = batch.now, len(batch.keys)
    _, names, payload, codec, delays, priority, dedupe_key, ordering_key, lives, headers, *_ = map(
        _one_if_alike, batch.columns
    )
    state = _one_if_alike(batch.states)
    key: Any = batch.keys
    if not isinstance(key, range):
        keys = range(key[0], key[0] + count)
        key = keys if [*keys] == [*key] else [*key]
    queue = _derived(count, batch.queues.__getitem__, names)
    plain = state == READY and delays == 0 and ordering_key is None
    available_at = None if plain else _derived(count, lambda delay: now + delay, delays)
    expires_at = _derived(count, lambda life: None if life is None else now + life, lives)
    due_at = _derived(count, _due_at, state, available_at, expires_at)
    columns = {
        "key": key,
        "queue": queue,
        "state": state,
        "priority": priority,
        "created_at": now,
        "available_at": available_at,
        "payload": payload,
        "codec": codec,
        "headers": headers,
        "due_at": due_at,
        "ordering_key": ordering_key,
        "dedupe_key": dedupe_key,
        "expires_at": expires_at,
    }
    graph = batch.graph
    if graph is not None:
        columns |= {"run": graph.run, "waiting_on": graph.waiting_on, "dependents": graph.dependents}
    _insert_rows(execute, "lq_messages", count, columns)
    if graph is not None and graph.edges:
        above, below = map(list, zip(*graph.edges, strict=True))
        _insert_rows(execute, "lq_dependencies", len(above), {"upstream": above, "dependent": below})
    for one, last in _newest(queue, batch.keys).items():
        counts.newest(one, last)
    position = _derived(
        count, {one: counts.position(one, now) for one in set(batch.queues.values())}.__getitem__, queue
    )
    place = [key, queue, _derived(count, neg, priority), position, expires_at]
    if isinstance(state, list):
        ready = [one == READY for one in state]
        place = [list(compress(one, ready)) if isinstance(one, (list, range)) else one for one in place]
    if state == READY or isinstance(state, list):
        _enter_line(execute, *place)
    _count(counts, count, queue, state, due_at)


def _newest(queue: Any, keys: Sequence[int]) -> dict[int, int]:
    """The greatest key of each queue."""
    if not isinstance(queue, list):
        return {queue: keys[-1] if isinstance(keys, range) else max(keys)}
    newest: dict[int, int] = {}
    for one, key in zip(queue, keys, strict=True):
        newest[one] = max(key, newest.get(one, 0))
    return newest


def _count(counts: Counts, count: int, queue: Any, state: Any, due_at: Any) -> None:
    one = (queue, state, due_at)
    alike = not any(isinstance(column, list) for column in one)
    tally = {one: count} if alike else Counter(zip(*(_spread(column, count) for column in one), strict=True))
    for (number, into, due), several in tally.items():
        counts.add(number, into, several)
        if due is not None:
            counts.due(number, due)


def _enter_line(execute: Execute, key: Any, queue: Any, rank: Any, position: Any, until: Any) -> None:
    """Apart from the messages: taking turns would be slower."""
    columns = {"queue": queue, "part": 2, "rank": rank, "position": position, "key": key, "count": 0, "until": until}
    _insert_rows(execute, "lq_line", len(key), columns)


def _due_at(state: int, available_at: float, expires_at: float | None) -> float | None:
    return rules.due_at(STATES[state], available_at=available_at, expires_at=expires_at)


def _one_if_alike(column: Sequence[Any]) -> Any:
    """The value of all rows, or else the list of their values."""
    return column[0] if column.count(column[0]) == len(column) else list(column)


def _derived(count: int, of: Callable[..., Any], *columns: Any) -> Any:
    """What each row has, or all of them, by what they have in other columns."""
    if not any(isinstance(column, list) for column in columns):
        return of(*columns)
    return _one_if_alike(list(map(of, *(_spread(column, count) for column in columns))))


def _spread(column: Any, count: int) -> Iterable[Any]:
    return column if isinstance(column, list) else repeat(column, count)


def insert(execute: Execute, one: Insert, counts: Counts) -> None:
    """Any message."""
    row, message = one
    due = row.due_at
    execute(
        sql.INSERT_MESSAGE,
        (
            row.key, row.queue, row.state, row.priority, row.attempts, row.created_at, row.available_at,
            message.payload, message.codec, message.headers, due, row.forgiven, row.history, row.dependents,
            row.waiting_on, row.run, row.ordering_key, row.dedupe_key, row.expires_at, row.last_error, row.failed_at,
            row.ended_at,
        ),
    )  # fmt: skip
    counts.newest(row.queue, row.key)
    if row.state == READY:
        position = row.available_at if message.past is not None else counts.position(row.queue, row.available_at)
        place = (row.queue, -row.priority, position, row.key, row.attempts, row.expires_at)
        execute(sql.ENTER_LINE, place)
    counts.add(row.queue, row.state, 1)
    if due is not None:
        counts.due(row.queue, due)
