"""New messages, in their order: those that differ in little go many rows a statement."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from localqueue.stores.engine.port import Insert
from localqueue.stores.engine.row import DEAD, DELAYED, READY
from localqueue.stores.sqlite import statements as sql

if TYPE_CHECKING:
    from localqueue.stores.sqlite.rows import Counts, Execute

_ROWS_A_STATEMENT = 500


@functools.lru_cache(maxsize=64)
def _new_rows(count: int) -> str:
    """All rows share the first eight values and have eight of their own."""
    rows = (f"?{n}, ?1, ?{n + 1}, ?2, ?3, ?4, ?5, ?6, ?7, ?8, " for n in range(9, 9 + 8 * count, 8))
    own = (", ".join(f"?{n}" for n in range(first + 2, first + 8)) for first in range(9, 9 + 8 * count, 8))
    return sql.INSERT_NEW + ", ".join(f"({shared}{rest})" for shared, rest in zip(rows, own, strict=True))


@functools.lru_cache(maxsize=64)
def _new_in_line(count: int) -> str:
    places = ", ".join(f"(?1, 2, ?2, ?3, ?{n}, 0, ?4)" for n in range(5, 5 + count))
    return f"INSERT INTO lq_line (queue, part, rank, position, key, count, until) VALUES {places}"


def insert(execute: Execute, inserts: Sequence[Insert], counts: Counts) -> None:
    for shape, group in groupby(inserts, _shape):
        alike = list(group)
        if shape is None:
            for one in alike:
                _insert_one(execute, one, counts)
            continue
        for start in range(0, len(alike), _ROWS_A_STATEMENT):
            _insert_alike(execute, shape, alike[start : start + _ROWS_A_STATEMENT], counts)


def _shape(one: Insert) -> tuple[Any, ...] | None:
    """What messages of one statement share; None for one that something has happened to before."""
    row, message = one
    if row.state >= DEAD or message.past is not None:
        return None
    queue, priority, at = row.queue, row.priority, row.available_at
    return queue, priority, row.created_at, at, message.codec, message.headers, row.run, row.expires_at


def _insert_alike(execute: Execute, shape: tuple[Any, ...], alike: Sequence[Insert], counts: Counts) -> None:
    queue, priority, _, available_at, _, _, _, expires_at = shape
    timer = available_at if expires_at is None else min(available_at, expires_at)
    own: list[Any] = []
    ready = []
    states = [0] * DEAD
    for row, message in alike:
        state = row.state
        due = timer if state == DELAYED else expires_at
        own += (
            row.key, state, message.payload, due, row.ordering_key, row.dedupe_key, row.waiting_on, row.dependents,
        )  # fmt: skip
        states[state] += 1
        if state == READY:
            ready.append(row.key)
    execute(_new_rows(len(alike)), (*shape, *own))
    if ready:
        execute(_new_in_line(len(ready)), (queue, -priority, available_at, expires_at, *ready))
    for state, count in enumerate(states):
        if count:
            counts.add(queue, state, count)
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
