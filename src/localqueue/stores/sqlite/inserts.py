"""New messages, in their order: those that differ in little go many rows a statement."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from localqueue.stores.engine.port import Batch, Insert
from localqueue.stores.engine.row import DELAYED, READY
from localqueue.stores.port import NewMessage
from localqueue.stores.sqlite import statements as sql

if TYPE_CHECKING:
    from localqueue.stores.sqlite.rows import Counts, Execute

_ROWS_A_STATEMENT = 500
_ALIKE = attrgetter("queue", "codec", "delay", "priority", "ttl", "headers")  # what messages of a statement share


@functools.lru_cache(maxsize=64)
def _new_rows(count: int) -> str:
    """All rows share the first eight values and have six of their own."""
    rows = ", ".join(
        f"(?{n}, ?1, ?{n + 1}, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?{n + 2}, ?{n + 3}, ?{n + 4}, ?{n + 5})"
        for n in range(9, 9 + 6 * count, 6)
    )
    return sql.INSERT_NEW + rows


@functools.lru_cache(maxsize=64)
def _new_in_line(count: int) -> str:
    places = ", ".join(f"(?1, 2, ?2, ?3, ?{n}, 0, ?4)" for n in range(5, 5 + count))
    return f"INSERT INTO lq_line (queue, part, rank, position, key, count, until) VALUES {places}"


def insert_batch(execute: Execute, batch: Batch, counts: Counts) -> None:
    """Messages that nothing has happened to, with no run and no upstream."""
    start = 0
    keys, states, messages, queues, now = batch
    for alike, group in groupby(messages, _ALIKE):
        name, codec, delay, priority, ttl, headers = alike
        shape = (queues[name], priority, now, now + delay, codec, headers, None, None if ttl is None else now + ttl)
        rest = list(group)
        for at in range(0, len(rest), _ROWS_A_STATEMENT):
            part = rest[at : at + _ROWS_A_STATEMENT]
            end = start + len(part)
            _insert_alike(execute, shape, keys[start:end], states[start:end], part, counts)
            start = end


def insert(execute: Execute, inserts: Sequence[Insert], counts: Counts) -> None:
    """Any messages, in their order."""
    for one in inserts:
        _insert_one(execute, one, counts)


def _insert_alike(
    execute: Execute,
    shape: tuple[Any, ...],
    keys: Sequence[int],
    states: Sequence[int],
    messages: Sequence[NewMessage],
    counts: Counts,
) -> None:
    queue, priority, _, available_at, _, _, _, expires_at = shape
    timer = available_at if expires_at is None else min(available_at, expires_at)
    own: list[Any] = []
    for key, state, one in zip(keys, states, messages, strict=True):
        own += (key, state, one[2], timer if state == DELAYED else expires_at, one[7], one[6])
    execute(_new_rows(len(keys)), (*shape, *own))
    ready = [key for key, state in zip(keys, states, strict=True) if state == READY]
    if ready:
        execute(_new_in_line(len(ready)), (queue, -priority, available_at, expires_at, *ready))
    for state in set(states):
        counts.add(queue, state, states.count(state))
        if state == DELAYED or expires_at is not None:
            counts.due(queue, timer if state == DELAYED else expires_at)


def _insert_one(execute: Execute, one: Insert, counts: Counts) -> None:
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
    if row.state == READY:
        place = (row.queue, -row.priority, row.available_at, row.key, row.attempts, row.expires_at)
        execute(sql.ENTER_LINE, place)
    counts.add(row.queue, row.state, 1)
    if due is not None:
        counts.due(row.queue, due)
