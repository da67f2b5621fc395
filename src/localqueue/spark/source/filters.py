"""The filters that a reader takes from Spark, and what they make it read.

A filter that is taken is not evaluated by Spark any more, so only those are taken whose meaning here is exactly that of
Spark, NULL included. Comparisons of times and of ids are used to read less and are left to Spark as well: a time is
stored finer than Spark's microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql import datasource as spark

from localqueue.events.journal import JOURNAL_TYPES
from localqueue.stores.port import STATES

_COMPARED = {
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
}

#: Columns that are never NULL, by view; that they are not asks for nothing.
_FILLED = {
    "messages": ("id", "queue", "state", "attempts", "priority", "created_at", "available_at"),
    "events": ("seq", "at", "type", "queue", "message_id"),
    "stats": ("queue",),
    "runs": ("run_id",),
}
_TEXTS = ("dedupe_key", "ordering_key", "run_id", "leased_by", "worker")
_NUMBERS = ("attempts", "priority", "attempt")
_TIMES = ("created_at", "available_at", "leased_until", "failed_at", "at")
_OF_EVENT = ("attempt", "worker", "at", "message_id")


class Condition(NamedTuple):
    """A condition on a column: `=` (any of the values), a comparison, `null` or `filled`."""

    column: str
    operator: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is left to read. None is everything; an entry's number is above `after` and at most `until`.

    `runs` are ids of runs, `workflows` names; `declared` leaves out runs that are of no workflow.
    """

    queues: frozenset[str] | None = None
    states: frozenset[str] | None = None
    types: frozenset[str] | None = None
    after: int | None = None
    until: int | None = None
    runs: frozenset[str] | None = None
    workflows: frozenset[str] | None = None
    declared: bool = False
    conditions: tuple[Condition, ...] = ()


def take(
    filters: Iterable[spark.Filter],
    view: str,
    columns: Mapping[str, str],
    *,
    tables: bool,
    so_far: Wanted | None = None,
) -> tuple[Wanted, list[spark.Filter]]:
    """What the filters leave to read, and the filters that Spark still has to evaluate.

    `columns` are the view's columns by their names in the schema. Conditions are for who reads tables; without `tables`
    only what the store's own reads can do is taken.
    """
    wanted, rest = so_far or Wanted(), []
    for one in filters:
        narrowed, done = _narrow(wanted, one, "messages" if view == "dead" else view, columns, tables)
        wanted = narrowed
        if not done:
            rest.append(one)
    return wanted, rest


def _narrow(
    wanted: Wanted, one: spark.Filter, view: str, columns: Mapping[str, str], tables: bool
) -> tuple[Wanted, bool]:
    """What is wanted with this filter too, and whether it is done with."""
    negated = isinstance(one, spark.Not)
    inner = one.child if isinstance(one, spark.Not) else one
    column = columns.get(".".join(getattr(inner, "attribute", ())))
    if column is None or len(getattr(inner, "attribute", ())) != 1 or view not in _FILLED:
        return wanted, False
    values = _equals(inner)
    if view == "runs":
        return (wanted, False) if negated else _of_runs(wanted, inner, column, values)
    named = column in ("queue", "state", "type")
    if named and not all(value is None or type(value) is str for value in values or ()):
        return wanted, False
    if negated:
        if column == "state" and values is not None and None not in values:
            return _among(wanted, "states", frozenset(STATES) - frozenset(values)), True
        return wanted, False
    if isinstance(inner, spark.IsNotNull) and column in _FILLED[view]:
        return wanted, True
    if values is not None and named:
        return _named(wanted, view, column, values)
    if column == "seq":
        return _numbered(wanted, inner, values)
    if not tables or (view == "events" and column not in _OF_EVENT):
        return wanted, False
    return _on_tables(wanted, inner, column, values)


def _equals(one: spark.Filter) -> tuple[Any, ...] | None:
    """The values that a column must have one of, when the filter says that. A NULL among them matches nothing."""
    if isinstance(one, spark.EqualTo) or (isinstance(one, spark.EqualNullSafe) and one.value is not None):
        return (one.value,)
    return tuple(one.value) if isinstance(one, spark.In) else None


def _among(wanted: Wanted, field: str, values: frozenset[Any]) -> Wanted:
    known: frozenset[Any] | None = getattr(wanted, field)
    narrowed: dict[str, Any] = {field: values if known is None else known & values}
    return replace(wanted, **narrowed)


def _named(wanted: Wanted, view: str, column: str, values: tuple[Any, ...]) -> tuple[Wanted, bool]:
    given = frozenset(value for value in values if value is not None)
    if column == "queue":
        return _among(wanted, "queues", given), True
    if column == "state" and view == "messages":
        return _among(wanted, "states", given & frozenset(STATES)), True
    if column == "type" and view == "events":
        return _among(wanted, "types", given & frozenset(JOURNAL_TYPES)), True
    return wanted, False


def _of_runs(wanted: Wanted, one: spark.Filter, column: str, values: tuple[Any, ...] | None) -> tuple[Wanted, bool]:
    """Runs by their ids or their workflows; a run of no workflow has none to be compared with."""
    if column not in ("run_id", "workflow"):
        return wanted, False
    if isinstance(one, spark.IsNotNull):
        return (wanted if column == "run_id" else replace(wanted, declared=True)), True
    if values is None or not all(value is None or type(value) is str for value in values):
        return wanted, False
    given = frozenset(value for value in values if value is not None)
    if column == "run_id":
        return _among(wanted, "runs", given), True
    return replace(_among(wanted, "workflows", given), declared=True), True


def _numbered(wanted: Wanted, one: spark.Filter, values: tuple[Any, ...] | None) -> tuple[Wanted, bool]:
    """Bounds of an entry's number. Of several numbers only the first and the last bound the read."""
    bounds: tuple[int | None, int | None]
    operator = _COMPARED.get(type(one))
    number = getattr(one, "value", None)
    if values is not None:
        numbers = [value for value in values if type(value) is int]
        if not numbers or len(numbers) < len(values):
            return wanted, False
        bounds = (min(numbers) - 1, max(numbers))
    elif operator is None or type(number) is not int:
        return wanted, False
    else:
        bounds = {
            ">": (number, None),
            ">=": (number - 1, None),
            "<": (None, number - 1),
            "<=": (None, number),
        }[operator]
    after = [bound for bound in (wanted.after, bounds[0]) if bound is not None]
    until = [bound for bound in (wanted.until, bounds[1]) if bound is not None]
    narrowed = replace(wanted, after=max(after, default=None), until=min(until, default=None))
    return narrowed, values is None or len(set(values)) == 1


def _on_tables(wanted: Wanted, one: spark.Filter, column: str, values: tuple[Any, ...] | None) -> tuple[Wanted, bool]:
    def also(*condition: Any) -> Wanted:
        return replace(wanted, conditions=(*wanted.conditions, Condition(*condition)))

    operator = _COMPARED.get(type(one))
    if column in _TEXTS or column in _TIMES:
        if isinstance(one, spark.IsNull) or (isinstance(one, spark.EqualNullSafe) and one.value is None):
            return also(column, "null"), True
        if isinstance(one, spark.IsNotNull):
            return also(column, "filled"), True
    if values is not None:
        kind = int if column in _NUMBERS else str
        given = tuple(value for value in values if value is not None)
        if column in (*_TEXTS, *_NUMBERS, "id", "message_id") and all(type(value) is kind for value in given):
            return also(column, "=", given), True
    elif operator is not None:
        value = getattr(one, "value", None)
        if column in _NUMBERS and type(value) is int:
            return also(column, operator, (value,)), True
        if column in _TIMES and isinstance(value, datetime) and value.tzinfo is not None:
            return also(column, operator, (value.timestamp(),)), False
        if column in ("id", "message_id") and isinstance(value, str):
            return also(column, operator, (value,)), False
    return wanted, False
