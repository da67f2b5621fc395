"""Expectations: rules in SQL that rows should meet. A row that does not becomes a dead letter with the rule's name.

A rule is a condition over the columns of a row, and is met where it is true: where it is NULL nobody knows, so that is
a failure too (`amount IS NULL OR amount > 0` lets NULL pass).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localqueue.spark.jobs.arguments import where_sql
from localqueue.spark.jobs.journal_rows import place_of
from localqueue.spark.place import opened
from localqueue.spark.sink.message_pages import expectation_failed
from localqueue.spark.streams.verdict import condemn

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Between the names of the rules that one row has failed.
_AND = "; "


@dataclass(frozen=True, kw_only=True)
class Enforced:
    """`rows` are those that meet all rules. `rejected` did not; `failed` counts them by rule."""

    rows: DataFrame
    rejected: int
    failed: dict[str, int]


def enforce(
    frame: DataFrame,
    rules: Mapping[str, str],
    *,
    url: str,
    queue: str,
    consumer: str,
    namespace: str | None = None,
) -> Enforced:
    """Sort out the rows of a consumed batch that fail a rule (name → SQL condition), for use in `foreachBatch`.

        def batch(frame, number):
            checked = enforce(frame, {"amount": "amount > 0"}, url=URL, queue="orders", consumer="etl")
            checked.rows.write...

    Their messages become dead letters, with the names of the rules as error, in the commit that acks the rest of the
    batch; until then nothing has happened to them. `frame` must have the id of the message, as `_id` or, where the
    columns are those of the view, as `id`. A batch that Spark repeats has the same rows, without those that were
    rejected. The batch is computed once to find these, beside what is done with the others.
    """
    from pyspark.sql import functions as f

    name = next((one for one in ("_id", "id") if one in frame.columns), None)
    if name is None:
        raise ValueError("the rows have no message id: add `_id string` to the schema of the stream")
    place = place_of(url, namespace=namespace, queue=queue)
    why = reasons(frame, rules)
    bad = {
        row[0]: row[1] for row in frame.select(f.col(name), why.alias("why")).where("why IS NOT NULL").collect()
    }  # fmt: skip
    if bad:
        with opened(place) as store:
            left = condemn(store, queue, consumer, {one: expectation_failed(said) for one, said in bad.items()})
        if left:
            raise ValueError(
                f"{len(left)} rejected rows, such as message {min(left)}, are in no open claim of consumer "
                f"{consumer!r} of queue {queue!r}: name the queue and the consumer that the stream has"
            )
    failed = {rule: sum(rule in said.split(_AND) for said in bad.values()) for rule in rules}
    return Enforced(rows=frame.where(why.isNull()), rejected=len(bad), failed=failed)


def rules_of(given: Mapping[str, str] | None) -> dict[str, str]:
    """Conditions by name."""
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"rules are conditions by name, such as {{'positive amount': 'amount > 0'}}, not {given!r}")
    return dict(given or {})


def reasons(rows: DataFrame, rules: Mapping[str, str]) -> Column:
    """The names of the rules that a row fails, NULL when it meets all; ValueError when a rule is no condition."""
    from pyspark.sql import functions as f

    names = []
    for name, rule in rules_of(rules).items():
        if not name.strip() or ";" in name:
            raise ValueError(f"the name of a rule must not be empty or have a semicolon in it, as {name!r} has")
        try:
            where_sql(rows, rule)
        except ValueError as error:
            raise ValueError(f"rule {name!r}: {str(error).removeprefix('where ')}") from None
        names.append(f.when(~f.coalesce(f.expr(rule), f.lit(False)), f.lit(name)))
    if not names:
        return f.lit(None).cast("string")
    joined = f.concat_ws(_AND, *names)
    return f.when(joined != "", joined)


def rejections(messages: DataFrame, rules: Mapping[str, str]) -> tuple[int, dict[str, int]]:
    """How many messages have a reason in the column `rejected`, and how many each rule has rejected."""
    from pyspark.sql import functions as f

    failed = f.split("rejected", _AND)
    by_rule = [f.count_if(f.array_contains(failed, name)) for name in rules]
    rejected, *numbers = messages.agg(f.count("rejected"), *by_rule).collect()[0]
    return rejected, dict(zip(rules, numbers, strict=True))
