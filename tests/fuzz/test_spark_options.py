"""Options and filters of the Spark data source, and payloads with a schema; without a session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark
from pyspark.sql import types as t

from localqueue.spark.datasource import LocalQueueDataSource
from localqueue.spark.options import NAMES, OptionError, parse
from localqueue.spark.source import filters
from localqueue.spark.source.fit import Misfit, fit_for, read_json
from tests.fuzz.commands import SECRET, secret
from tests.fuzz.effort import examples
from tests.fuzz.words import things, words
from tests.spark.contents import fill, in_order, options_of
from tests.spark.test_filters import holds
from tests.stores import new_place

pytestmark = pytest.mark.slow

URL = "sqlite:////tmp/jobs.db"
given_options = st.dictionaries(
    st.sampled_from(NAMES) | st.sampled_from(NAMES).map(str.upper) | words,
    words | secret | st.integers().map(str) | st.sampled_from(["earliest", "consume", "id,queue", "dead", "true"]),
    max_size=4,
)


@given(given=given_options)
@example(given={"startingTimestamp": "9" * 400})
@example(given={"numPartitions": "9" * 5000})
@example(given={"startingOffsets": "[" * 100_000})
@example(given={"startingOffsets": str(2**70)})
@example(given={"claimTimeout": "1e300"})
@example(given={"view": f"redis://me:{SECRET}@h/0"})
@example(given={"columns": f"id,redis://me:{SECRET}@h/0"})
@example(given={f"redis://me:{SECRET}@h/0": "1"})
@examples(50)
def test_options_are_understood_or_named(given: dict[str, str]) -> None:
    try:
        options = parse({"url": URL, **given})
    except OptionError as error:
        assert str(error).startswith("option") and SECRET not in str(error)
    else:
        assert SECRET not in repr(options) or any(SECRET in given.get(name, "") for name in given if name != "url")


KINDS: list[Any] = [
    spark.EqualTo, spark.EqualNullSafe, spark.GreaterThan, spark.GreaterThanOrEqual, spark.LessThan,
    spark.LessThanOrEqual, spark.StringStartsWith, spark.StringContains,
]  # fmt: skip
NUMBERS = ("attempts", "priority")
TEXTS = ("id", "queue", "state", "dedupe_key", "ordering_key", "run_id", "leased_by")
TIMES = ("created_at", "available_at", "failed_at")


@st.composite
def spark_filters(draw: st.DrawFn) -> spark.Filter:
    """A filter as Spark makes them: of the type of the column."""
    column = draw(st.sampled_from([*NUMBERS, *TEXTS, *TIMES]))
    values: st.SearchStrategy[Any] = words.filter(_is_unicode) | st.sampled_from(["jobs", "ready", "dead", "0" * 32])
    if column in NUMBERS:
        values = st.integers(-(2**31), 2**31 - 1) | st.integers(0, 3)
    elif column in TIMES:
        values = st.datetimes(timezones=st.just(UTC))
    way = draw(st.sampled_from(["compare", "in", "null", "filled"]))
    if way == "compare":
        kind = draw(st.sampled_from(KINDS[: 8 if column in TEXTS else 6]))
        one: Any = kind((column,), draw(values))
    elif way == "in":
        one = spark.In((column,), tuple(draw(st.lists(st.none() | values, max_size=3))))
    else:
        one = (spark.IsNull if way == "null" else spark.IsNotNull)((column,))
    return spark.Not(one) if draw(st.booleans()) else one


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= one <= "\udfff" for one in text)


@pytest.fixture(scope="module", params=["sqlite", "lmdb"])
def reading(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    place = new_place(request.param, tmp_path_factory.mktemp("filters"))
    with place.open() as store, pytest.MonkeyPatch.context() as patch:
        fill(store)
        patch.setattr("localqueue.spark.source.batch.opened", lambda options, **looks: nullcontext(store))
        source = LocalQueueDataSource(options_of(place, view="messages", numPartitions="1", engine="python"))

        def read(*given: spark.Filter) -> tuple[list[Any], list[spark.Filter]]:
            reader = source.reader(source.schema())
            rest = list(reader.take(list(given)))
            batches = [batch for part in reader.partitions() for batch in reader.read(part)]
            return in_order([row for batch in batches for row in batch.to_pylist()]), rest

        yield read


def matches(one: spark.Filter, row: dict[str, Any]) -> bool:
    inner = one.child if isinstance(one, spark.Not) else one
    if isinstance(inner, spark.StringStartsWith | spark.StringContains):
        value = row[inner.attribute[0]]
        if value is None:
            return False
        found = value.startswith(inner.value) if isinstance(inner, spark.StringStartsWith) else inner.value in value
        return bool(found is not isinstance(one, spark.Not))
    return holds(one, row) is True


@given(given=st.lists(spark_filters(), min_size=1, max_size=3))
@examples(10)
def test_what_is_read_and_filtered_is_what_the_filters_mean(reading: Any, given: list[spark.Filter]) -> None:
    everything, _ = reading()
    found, rest = reading(*given)
    assert all(one in given for one in rest)
    expected = [row for row in everything if all(matches(one, row) for one in given)]
    assert [row for row in found if all(matches(one, row) for one in rest)] == expected


@given(
    column=st.sampled_from([*NUMBERS, *TEXTS, *TIMES, "seq", "type", "value", "nothing"]),
    value=things,
    kind=st.sampled_from([*KINDS, spark.In]),
    view=st.sampled_from(["messages", "dead", "events", "runs", "stats"]),
)
@example(column="queue", value=[], kind=spark.EqualTo, view="messages")
@examples(30)
def test_values_of_any_type_are_taken_or_left_to_spark(column: str, value: Any, kind: Any, view: str) -> None:
    one = kind((column,), (value,) if kind is spark.In else value)
    wanted, rest = filters.take([one], view, {column: column}, tables=True)
    assert rest in ([], [one]) and (rest == [] or wanted is not None)


@pytest.mark.parametrize("kind", [t.TimestampType(), t.TimestampNTZType(), t.DateType(), t.BinaryType(), t.StringType(),
                                  t.DecimalType(5, 2), t.LongType(), t.DoubleType()], ids=str)  # fmt: skip
@given(value=st.one_of(words, st.integers(), st.floats(), st.none(), st.just("0001-01-01T00:00:00+23:59")))
@example(value="0001-01-01T00:00:00+23:59")
@examples(8)
def test_a_value_fits_its_column_or_is_said_not_to(kind: t.DataType, value: Any) -> None:
    try:
        fit_for(t.StructType([t.StructField("a", kind)]))(read_json(json.dumps({"a": value})))
    except Misfit as error:
        assert str(error)
