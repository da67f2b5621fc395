"""Filters that are taken from Spark: what is read, and what is left to Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import datasource as spark
from pyspark.sql import types as t

from localqueue.spark.datasource import LocalQueueDataSource
from localqueue.spark.source.filters import Condition, Wanted, take
from tests.spark.contents import fill, in_order, options_of, read
from tests.stores import Place, new_place

MESSAGES = {name: name for name in ("id", "queue", "state", "priority", "created_at", "dedupe_key", "value")}
COMPARED = {
    spark.EqualTo: lambda a, b: a == b,
    spark.GreaterThan: lambda a, b: a > b,
    spark.GreaterThanOrEqual: lambda a, b: a >= b,
    spark.LessThan: lambda a, b: a < b,
    spark.LessThanOrEqual: lambda a, b: a <= b,
}


def holds(one: spark.Filter, row: dict[str, Any]) -> bool | None:
    """What Spark makes of a filter; None is NULL."""
    if isinstance(one, spark.Not):
        inner = holds(one.child, row)
        return None if inner is None else not inner
    value = row[one.attribute[0]]  # type: ignore[attr-defined]
    if isinstance(one, spark.IsNull):
        return value is None
    if isinstance(one, spark.IsNotNull):
        return value is not None
    if isinstance(one, spark.EqualNullSafe):
        return bool(value == one.value)
    if value is None:
        return None
    if isinstance(one, spark.In):
        return True if value in one.value else None if None in one.value else False
    given = one.value  # type: ignore[attr-defined]
    return None if given is None else COMPARED[type(one)](value, given)  # type: ignore[index]


def filters_on(column: str, values: list[Any]) -> Iterator[spark.Filter]:
    path = (column,)
    known = sorted({value for value in values if value is not None})
    tried = [known[len(known) // 2]]
    if isinstance(known[0], str):
        tried += ["\0'é", f"{known[0][:-1].upper()} "]
    elif isinstance(known[0], datetime):
        tried += [known[-1] - timedelta(microseconds=1)]
    else:
        tried += [-1]
    for value in tried:
        for compare in COMPARED:
            yield compare(path, value)
        yield spark.EqualNullSafe(path, value)
        yield spark.Not(spark.EqualTo(path, value))
        yield spark.Not(spark.EqualNullSafe(path, value))
    yield spark.EqualNullSafe(path, None)
    yield spark.IsNull(path)
    yield spark.IsNotNull(path)
    for several in (tuple(known[:2]), (*known[:2], None), (None,), ()):
        yield spark.In(path, several)
        yield spark.Not(spark.In(path, several))


def check_every_filter(place: Place, view: str, columns: list[str]) -> set[str]:
    """Each filter alone reads what it means, or more when it is left to Spark; the kinds that were taken."""
    source = LocalQueueDataSource(options_of(place, view=view, numPartitions="1", engine="python"))
    taken = set()
    with place.open() as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr("localqueue.spark.source.batch.opened", lambda options, **looks: nullcontext(store))

        def read_with(*filters: spark.Filter) -> tuple[list[Any], list[spark.Filter]]:
            reader = source.reader(source.schema())
            rest = list(reader.take(list(filters)))
            batches = [batch for part in reader.partitions() for batch in reader.read(part)]
            return in_order([row for batch in batches for row in batch.to_pylist()]), rest

        everything, _ = read_with()
        for column in columns:
            for one in filters_on(column, [row[column] for row in everything]):
                found, rest = read_with(one)
                expected = [row for row in everything if holds(one, row) is True]
                if rest:
                    assert rest[0] is one
                    assert [row for row in found if row in expected] == expected, one
                else:
                    taken.add(f"{type(one).__name__} {column}")
                    assert found == expected, one
    return taken


@pytest.mark.parametrize("kind", ["sqlite", "lmdb", pytest.param("postgres", marks=pytest.mark.server)])
def test_a_filter_reads_exactly_what_it_means_or_is_left_to_spark(kind: str, tmp_path: Path) -> None:
    place = new_place(kind, tmp_path)
    with place.open() as store:
        fill(store)
    columns = ["id", "state", "priority", "dedupe_key", "created_at", "failed_at", "queue"]
    if kind != "postgres":  # where each of them is as the others are
        columns += ["attempts", "run_id", "leased_by", "leased_until", "value"]
    taken = check_every_filter(place, "messages", columns)
    assert {"EqualTo state", "In state", "Not state", "EqualTo queue", "IsNotNull state"} <= taken
    if kind != "lmdb":
        assert {"EqualTo id", "In id", "LessThan priority", "IsNull failed_at", "EqualTo dedupe_key"} <= taken
    assert not {one for one in taken if one.endswith("value")}

    columns = ["seq", "type", "queue", "worker"] + ([] if kind == "postgres" else ["at", "message_id", "attempt"])
    events = check_every_filter(place, "events", columns)
    assert {"EqualTo seq", "GreaterThan seq", "LessThanOrEqual seq", "In type", "EqualTo queue"} <= events


def test_filters_together_are_all_applied() -> None:
    wanted, rest = take(
        [
            spark.IsNotNull(("state",)),
            spark.In(("state",), ("ready", "dead", None)),
            spark.Not(spark.EqualTo(("state",), "dead")),
            spark.EqualTo(("queue",), "jobs"),
            spark.EqualTo(("queue",), "other"),
            spark.GreaterThan(("priority",), 3),
        ],
        "messages",
        MESSAGES,
        tables=True,
    )
    assert rest == []
    assert wanted == Wanted(
        states=frozenset({"ready"}), queues=frozenset(), conditions=(Condition("priority", ">", (3,)),)
    )


def test_a_range_of_times_is_used_and_left_to_spark() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    one = spark.GreaterThan(("created_at",), noon)
    wanted, rest = take([one], "messages", MESSAGES, tables=True)
    assert rest == [one]
    assert wanted.conditions == (Condition("created_at", ">", (noon.timestamp(),)),)


def test_what_is_not_understood_is_left_to_spark() -> None:
    strange = [
        spark.StringStartsWith(("queue",), "j"),
        spark.EqualTo(("last_error", "type"), "ValueError"),
        spark.EqualTo(("priority",), True),
        spark.EqualTo(("priority",), 1.5),
        spark.EqualTo(("nothing",), 1),
        spark.Not(spark.In(("state",), ("dead", None))),
        spark.GreaterThan(("created_at",), datetime(2026, 1, 31)),
    ]
    wanted, rest = take(strange, "messages", MESSAGES, tables=True)
    assert rest == strange
    assert wanted == Wanted()


def test_a_filter_on_a_field_of_the_payload_is_left_to_spark_and_one_on_the_message_is_taken(tmp_path: Path) -> None:
    place = new_place("sqlite", tmp_path)
    with place.open() as store:
        store.put_batch("jobs", ['{"state":"dead"}', '{"state":"ready"}'], None)
    schema = t.StructType([t.StructField("state", t.StringType()), t.StructField("_state", t.StringType())])
    own, payload = spark.EqualTo(("_state",), "ready"), spark.EqualTo(("state",), "dead")
    found, rest = read(options_of(place), schema, [own, payload])
    assert rest == [payload]
    assert found.column("state").to_pylist() == ["dead", "ready"]
