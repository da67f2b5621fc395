"""What is wanted, as conditions in the SQL of a store's tables."""

from __future__ import annotations

import re
from collections.abc import Collection

from localqueue.events.journal import JOURNAL_CODES
from localqueue.ids import Mint
from localqueue.spark.source.filters import Condition, Wanted
from localqueue.spark.source.tables import KINDS, SQLITE, Tables
from localqueue.stores.port import DEAD, INFLIGHT, READY, STATES

_ID = re.compile(r"[0-9a-f]{32}\Z")
_NEVER = "1 = 0"
_MARGIN = 2e-6  # seconds: Spark's microseconds are rounded, so the ends of a range may be a little outside it


def conditions(tables: Tables, view: str, wanted: Wanted, ids: Mint, queues: Collection[int]) -> list[str]:
    """The conditions of a read of these queues; ranges of ids and numbers are the reader's own."""
    alias = "e" if view == "events" else "m"
    found = [_one_of(f"{alias}.queue", [str(queue) for queue in sorted(queues)])]
    if wanted.states is not None:
        found += _states(tables, wanted.states)
    if wanted.types is not None:
        found.append(_one_of("e.type", [str(JOURNAL_CODES[name]) for name in sorted(wanted.types)]))
    for condition in wanted.conditions:
        found += _condition(tables, view, condition, ids)
    return found


def key_of(message_id: str) -> int:
    """The row key of an id, whoever made it: ids ascend with their keys."""
    return int(message_id[:16], 16)


def _states(tables: Tables, states: frozenset[str]) -> list[str]:
    codes = [str(STATES.index(state)) for state in sorted(states)]
    if states and all(STATES.index(state) >= STATES.index(DEAD) for state in states):
        return [_one_of("m.state", codes), "m.ended_at IS NOT NULL"]  # so that an index finds them
    if tables is SQLITE and states == {INFLIGHT}:
        return ["l.key IS NOT NULL"]
    if tables is SQLITE and states == {READY}:
        return ["m.state = 0", "l.key IS NULL"]
    return [_one_of(tables.messages.test("state"), codes)]


def _condition(tables: Tables, view: str, condition: Condition, ids: Mint) -> list[str]:
    column, operator, values = condition
    if column in ("id", "message_id"):
        return _by_id("e.key" if view == "events" else "m.key", operator, values, ids)
    expression = tables.source(view).test(column)
    if operator == "null":
        return [f"{expression} IS NULL"]
    if operator == "filled":
        return [f"{expression} IS NOT NULL"]
    if operator == "=":
        return [_one_of(expression, [tables.literal(value) for value in values])]
    (value,) = values
    if KINDS[column] == "real":
        value = value - _MARGIN if operator[0] == ">" else value + _MARGIN
    return [f"{expression} {operator} {tables.literal(value)}"]


def _by_id(expression: str, operator: str, values: tuple[str, ...], ids: Mint) -> list[str]:
    if operator == "=":
        keys = [key for value in values if (key := ids.key_of(value)) is not None and ids.id_of(key) == value]
        return [_one_of(expression, [str(key) for key in keys])]
    (value,) = values
    if not _ID.match(value) or int(value[0], 16) > 7:
        return []
    return [f"{expression} {operator[0]}= {key_of(value)}"]


def _one_of(expression: str, literals: list[str]) -> str:
    if not literals:
        return _NEVER
    return f"{expression} = {literals[0]}" if len(literals) == 1 else f"{expression} IN ({', '.join(literals)})"
