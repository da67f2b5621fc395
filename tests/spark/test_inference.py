"""A schema inferred from a sample of payloads."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t

from localqueue import PersistentQueue
from localqueue.errors import QueueStoreMissingError
from localqueue.spark import infer_schema
from localqueue.spark.ddl import ddl_of, parse_ddl
from localqueue.spark.options import OptionError, parse
from localqueue.spark.source.inference import MOST_NAMES, infer
from localqueue.spark.source.sample import NothingToInfer, inferred_from
from localqueue.spark.source.typed_payload import Typed, is_selection
from localqueue.stores.port import StoredMessage
from localqueue.stores.url import open_store


def ddl(*values: Any, times: bool = False) -> str:
    """The inferred columns as text, without `_corrupt`, which is always the last one."""
    made = infer([value if isinstance(value, str) else json.dumps(value) for value in values], times=times)
    assert made is not None
    columns, _, last = ddl_of(made.schema).rpartition("_corrupt string")
    assert last == ""
    return columns.removesuffix(", ")


KINDS = [
    ([1, -(2**63)], "bigint"),
    ([1, 2**63], "decimal(38,0)"),
    ([10**38], "double"),
    ([1, 1.5], "double"),
    ([2**70, 0.5], "double"),
    ([1, "NaN", "-Infinity"], "double"),
    (["NaN"], "string"),
    (["a", None], "string"),
    ([True, None], "boolean"),
    ([True, 1], "variant"),
    (["1", 1], "variant"),
    ([{"a": 1}, {"b": "x"}], "struct<a: bigint, b: string>"),
    ([{"a": 1}, [1]], "variant"),
    ([[1, 2], [], [0.5, None]], "array<double>"),
    ([[{"a": 1}, {"a": 2, "b": [True]}]], "array<struct<a: bigint, b: array<boolean>>>"),
    ([[1, "a"]], "array<variant>"),
    ([None, None], "string"),
    ([[]], "array<string>"),
    ([{}], "map<string, string>"),
    ([{"": 1}], "map<string, bigint>"),
    (["2026-01-31"], "string"),
]


@pytest.mark.parametrize(("values", "kind"), KINDS)
def test_a_field_has_the_narrowest_type_that_all_of_its_values_fit(values: list[Any], kind: str) -> None:
    assert ddl(*({"x": value} for value in values)) == f"x {kind}"


def test_times_are_columns_of_their_own_type_where_they_are_asked_for_and_all_are_alike() -> None:
    given: dict[str, list[Any]] = {
        "day": ["2026-01-31", None],
        "at": ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123456+02:00"],
        "wall": ["2026-01-31T12:00:00", "2026-01-31T12:00:00.5"],
        "mixed": ["2026-01-31", "2026-01-31T12:00:00Z"],
        "false": ["2026-02-31", "2026-01-01"],
        "text": ["20260131", "2026-01-31"],
    }
    rows = [{name: values[n] for name, values in given.items()} for n in (0, 1)]
    assert ddl(*rows, times=True) == (
        "day date, at timestamp, wall timestamp_ntz, mixed string, false string, text string"
    )
    assert set(ddl(*rows).replace(",", "").split()) == {*given, "string"}


def test_an_object_with_very_many_names_is_a_map() -> None:
    wide = {f"customer-{n}": {"spent": n} for n in range(MOST_NAMES + 1)}
    assert ddl({"by": wide, "n": 1}) == "by map<string, struct<spent: bigint>>, n bigint"


def test_what_can_not_be_a_column_is_left_out_and_told() -> None:
    made = infer(['{"n": 1, "N": 2, "": 3, "_id": 4, "_Corrupt": 5, "in": {"a": 1, "A": 2, "_id": 3}, "_own": 6}'])
    assert made is not None
    assert ddl_of(made.schema) == "n bigint, in struct<a: bigint, _id: bigint>, _own bigint, _corrupt string"
    assert made.left_out == ("N", "", "_id", "_Corrupt", "in.A")


def test_payloads_that_are_no_objects_or_that_no_type_holds_are_left_to_the_corrupt_column() -> None:
    odd = ["[1]", "null", "7", "{", None, '{"n": "\\ud800"}', '{"n": 1e999}', '{"n": ' + "[" * 150 + "]" * 150 + "}"]
    made = infer([*odd, '{"n": 1}'])
    assert made is not None and (made.sampled, made.typed) == (len(odd) + 1, 1)
    assert ddl_of(made.schema) == "n bigint, _corrupt string"
    assert infer(odd) is None


def test_fields_that_are_named_like_columns_of_a_message_are_still_those_of_the_payload() -> None:
    made = infer(['{"id": "a", "value": "b"}'])
    assert made is not None and not is_selection("messages", made.schema)


TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
    | st.sampled_from(["NaN", "Infinity", "2026-01-31", "2026-01-31T12:00:00Z", "0001-01-01T00:00:00+14:00"])
    | st.integers(-(10**45), 10**45) | st.dates().map(str) | st.datetimes().map(datetime.isoformat)
)  # fmt: skip
NAMES = st.sampled_from(["a", "b", "A", "_id", "", "a.b", "`", "ö"]) | TEXT
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
PAYLOADS = st.lists(st.dictionaries(NAMES, VALUES, max_size=4), min_size=1, max_size=6)


@given(PAYLOADS, st.booleans())
def test_every_sampled_payload_fits_and_the_schema_survives_as_text(payloads: list[Any], times: bool) -> None:
    texts = [json.dumps(payload) for payload in payloads]
    made = infer(texts, times=times)
    assert made is not None and made.typed == len(texts)
    typed = Typed(made.schema, "fail")
    assert [typed.fits(text) for text in texts] == [None] * len(texts)
    stored = [StoredMessage(f"{n:032x}", "jobs", "ready", text, None, 0, 0, 1.0, 1.0) for n, text in enumerate(texts)]
    assert typed.batch(stored).column("_corrupt").null_count == len(texts)
    assert parse_ddl(ddl_of(made.schema)) == made.schema


def put(url: str, payloads: list[Any], queue: str = "jobs") -> None:
    with open_store(url) as store:
        PersistentQueue[Any](queue, store=store).put_many(payloads)


def test_a_large_queue_is_sampled_in_all_of_its_parts_and_a_small_one_whole(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    put(url, [{f"part{n // 100}": n} for n in range(1000)])
    few = infer_schema(url=url, queue="jobs", sample=20)
    assert few.fieldNames() == [*(f"part{n}" for n in range(10)), "_corrupt"]
    options = {"url": url, "queue": "jobs", "inferSchema": "true"}
    assert [inferred_from(parse({**options, "sampleSize": n})).sampled for n in ("20", "1000", "5000")] == [
        20, 1000, 1000,
    ]  # fmt: skip


def test_the_journal_and_the_dead_letters_are_sampled_as_views(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with open_store(url) as store:
        store.enable_journal()
        queue = PersistentQueue[Any]("jobs", store=store)
        queue.put({"bad": "x"})
        queue.dead_letter(queue.get_message(), error=ValueError("no"))
        for n in range(30):
            queue.put({"gone": n})
            queue.ack(queue.get_message())
        PersistentQueue[Any]("other", store=store).put({"other": 1})
    of = {"url": url, "queue": "jobs"}
    assert infer_schema(**of, view="dead").fieldNames() == ["bad", "_corrupt"]
    assert infer_schema(**of, view="events").fieldNames() == ["bad", "gone", "_corrupt"]
    assert inferred_from(parse({**of, "view": "events", "inferSchema": "true"})).sampled == 31


def test_a_queue_that_has_nothing_to_infer_from_is_named(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with pytest.raises(QueueStoreMissingError, match="there is no store"):
        infer_schema(url=url, queue="jobs")
    put(url, [[1], 2, None])
    with pytest.raises(NothingToInfer, match=r"queue 'jobs' .* has no messages whose payload is a JSON object"):
        infer_schema(url=url, queue="jobs")
    with pytest.raises(NothingToInfer, match=r"there is no queue 'job' .*: there are 'jobs'"):
        infer_schema(url=url, queue="job")
    with pytest.raises(OptionError, match="view 'stats' has no payload"):
        infer_schema(url=url, queue="jobs", view="stats")
    with pytest.raises(OptionError, match="'sampleSize' must be a whole number from 1, not '0'"):
        infer_schema(url=url, queue="jobs", sample=0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"inferSchema": "true", "schema": "n long"}, "'schema' and 'inferSchema' both say"),
        ({"inferSchema": "true", "columns": "id"}, "'columns' and 'inferSchema' both say"),
        ({"sampleSize": "5"}, "option 'sampleSize' is for a schema that is inferred: add .option(\"inferSchema\""),
        ({"inferSchema": "yes"}, "'inferSchema' must be true or false"),
    ],
)
def test_options_that_do_not_go_with_an_inferred_schema_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said.replace("(", r"\(").replace(")", r"\)")):
        parse({"url": "sqlite:///a.db", "queue": "jobs", **given})


def test_a_batch_read_infers_its_schema_and_a_stream_is_told_to_pin_one(spark: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    put(url, [{"n": n, "at": "2026-01-31T12:00:00Z", "tags": ["a"], "odd": n or "x"} for n in range(3)])
    of = {"url": url, "queue": "jobs", "inferSchema": "true"}
    assert infer_schema(url=url, queue="jobs", timestamps=True)["at"].dataType == t.TimestampType()
    rows = spark.read.format("localqueue").options(**of, inferTimestamp="true").load()
    assert rows.drop("odd").schema == parse_ddl("n long, at timestamp, tags array<string>, _corrupt string")
    assert [row["at"] for row in rows.where("n = 1 AND odd::int = 1 AND _corrupt IS NULL").select("at").collect()] == [
        datetime(2026, 1, 31, 12, tzinfo=UTC).replace(tzinfo=None)
    ]
    spark.sql(f"CREATE TABLE inferred USING localqueue OPTIONS (url '{url}', queue 'jobs', inferSchema 'true')")
    try:
        put(url, [{"n": "late"}])
        assert spark.table("inferred").where("_corrupt IS NULL").count() == 3
        spark.sql("INSERT INTO inferred (n, at, tags) VALUES (9, 'later', array('b'))")
        assert spark.table("inferred").where("n = 9").first()["at"] == "later"
    finally:
        spark.sql("DROP TABLE inferred")
    stream = spark.readStream.format("localqueue").options(**of).load().writeStream.format("noop")
    with pytest.raises(Exception, match="infer_schema"):
        stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(100)
