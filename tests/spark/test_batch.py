"""The batch source: every view, every store, both engines."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from localqueue.errors import QueueStoreMissingError, QueueStoreUnavailableError
from localqueue.spark import register
from localqueue.spark.columns import VIEWS, arrow_schema, spark_schema
from localqueue.spark.datasource import LocalQueueDataSource
from localqueue.spark.options import OptionError, parse
from localqueue.spark.source.connections import connected, engine_of
from localqueue.spark.source.plan import EntriesLost
from localqueue.spark.source.rows import event_batch, message_batch
from localqueue.stores.port import STATES, LeaseRequest, QueueStore
from tests.spark.contents import fill, in_order, options_of, read, rows
from tests.stores import Place, new_place

TABLES = ["sqlite", pytest.param("postgres", marks=pytest.mark.server)]
OTHERS = ["lmdb", *(pytest.param(kind, marks=pytest.mark.server) for kind in ("postgres", "redis", "mongodb"))]


def filled(kind: str, folder: Path) -> Place:
    place = new_place(kind, folder)
    with place.open() as store:
        fill(store)
    return place


def as_stored(store: QueueStore, view: str) -> list[Any]:
    """The rows of a view by way of the store's port."""
    schema = arrow_schema(spark_schema(VIEWS[view]))
    if view == "events":
        batch = event_batch(store.events(), schema)
    else:
        state = "dead" if view == "dead" else None
        found = [message for queue in store.queues() for message in store.scan(queue, state=state)]
        batch = message_batch(sorted(found, key=lambda message: message.id), schema)
    made: list[Any] = batch.to_pylist()
    return made


@pytest.mark.parametrize("kind", TABLES)
def test_both_engines_read_what_the_store_holds_in_every_state_and_with_every_option(kind: str, tmp_path: Path) -> None:
    place = filled(kind, tmp_path)
    for view in ("messages", "dead", "events"):
        by_adbc, by_python = (rows(options_of(place, view=view, engine=engine)) for engine in ("adbc", "python"))
        with place.open() as store:
            assert by_adbc == by_python == as_stored(store, view)
        if view == "messages":
            assert {row["state"] for row in by_adbc} == set(STATES)
    for columns in ("state", "attempts,id", "leased_by,queue", "value", "payload,codec,available_at", "headers,run_id"):
        wide = rows(options_of(place, columns=f"{columns},created_at,failed_at,dedupe_key"))
        narrow = rows(options_of(place, columns=columns))
        assert narrow == in_order([{name: row[name] for name in columns.split(",")} for row in wide])


@pytest.mark.parametrize("kind", ["sqlite", "lmdb"])
def test_messages_that_come_after_the_plan_are_not_read(kind: str, tmp_path: Path) -> None:
    place = new_place(kind, tmp_path)
    with place.open() as store:
        store.enable_journal()
        store.put_batch("jobs", ["1", "2", "3"], None)
    for view, count in (("messages", 3), ("events", 5)):
        source = LocalQueueDataSource(options_of(place, view=view))
        reader = source.reader(source.schema())
        parts = reader.partitions()
        with place.open() as store:
            store.put_batch("jobs", ["4"], None)
            store.lease(LeaseRequest("jobs", leased_by="w"))
        assert sum(batch.num_rows for part in parts for batch in reader.read(part)) == count


def test_the_number_of_parts_is_as_asked_for_and_they_cover_everything_once(tmp_path: Path) -> None:
    place = new_place("sqlite", tmp_path)
    with place.open() as store:
        store.enable_journal()
        for queue in ("a", "b", "c"):
            store.put_batch(queue, [str(n) for n in range(100)], None)
    for options in ({"queue": "a"}, {}, {"view": "events"}):
        for number in (1, 4, 7):
            source = LocalQueueDataSource(options_of(place, numPartitions=str(number), **options))
            reader = source.reader(source.schema())
            parts = reader.partitions()
            assert len(parts) == number
            found = [row for part in parts for batch in reader.read(part) for row in batch.column(0).to_pylist()]
            assert len(found) == len(set(found)) == (100 if "queue" in options else 300)
    source = LocalQueueDataSource(options_of(place, queue="a", minPartitions="5"))
    assert len(source.reader(source.schema()).partitions()) == 5


def test_a_queue_that_nobody_has_used_is_empty_and_a_namespace_is_not_there(tmp_path: Path) -> None:
    place = filled("sqlite", tmp_path)
    for view in ("messages", "dead", "events"):
        assert rows(options_of(place, queue="nothing", view=view)) == []
        with pytest.raises(QueueStoreMissingError, match="there is no namespace 'elsewhere'"):
            rows(options_of(place.beside("elsewhere"), view=view))


def test_the_journal_is_read_between_offsets_and_between_times(tmp_path: Path) -> None:
    place = filled("sqlite", tmp_path)
    everything = rows(options_of(place, view="events"))
    middle = everything[len(everything) // 2]
    moment = middle["at"].isoformat()
    for engine in ("adbc", "python"):
        events = options_of(place, view="events", engine=engine)
        between = rows({**events, "startingOffsets": '{"seq": 3}', "endingOffsets": "7"})
        assert [row["seq"] for row in between] == [4, 5, 6, 7]
        assert rows({**events, "startingOffsets": "latest"}) == []
        later = rows({**events, "startingTimestamp": moment})
        earlier = rows({**events, "endingTimestamp": moment})
        assert later and earlier and len(later) + len(earlier) == len(everything)
        assert max(row["at"] for row in earlier) <= min(row["at"] for row in later)


@pytest.mark.parametrize("kind", ["sqlite", "lmdb", pytest.param("postgres", marks=pytest.mark.server)])
def test_entries_that_were_pruned_fail_a_read_that_asked_for_them(kind: str, tmp_path: Path) -> None:
    place = new_place(kind, tmp_path)
    with place.open() as store:
        store.enable_journal()
        store.put_batch("jobs", ["1", "2", "3"], None)
    asked = options_of(place, view="events", startingOffsets="1")
    source = LocalQueueDataSource(asked)
    reader = source.reader(source.schema())
    parts = reader.partitions()
    with place.open() as store:
        store.prune_events(older_than=0)
        store.put_batch("jobs", ["4"], None)
    with pytest.raises(EntriesLost, match="failOnDataLoss"):
        [batch for part in parts for batch in reader.read(part)]
    with pytest.raises(OptionError, match="keeps entries from 4 on"):
        rows(asked)
    assert [row["seq"] for row in rows({**asked, "failOnDataLoss": "false"})] == [4]
    assert [row["seq"] for row in rows(options_of(place, view="events"))] == [4]
    with pytest.raises(OptionError, match="the last entry of the journal is 4"):
        rows({**asked, "startingOffsets": "99"})


def test_adbc_is_not_used_on_a_file_that_this_process_has_open(tmp_path: Path) -> None:
    place = filled("sqlite", tmp_path)
    options = parse(options_of(place, engine="adbc"))
    with connected(options, engine_of(options)) as connection:
        assert type(connection).__module__ == "localqueue.spark.source.adbc"
        with connected(options, engine_of(options)) as second:
            assert type(second).__module__ == "localqueue.spark.source.adbc"
    with place.open(), connected(options, engine_of(options)) as connection:
        assert type(connection).__module__ == "localqueue.spark.source.cursors"


@pytest.mark.parametrize("engine", ["adbc", "python"])
def test_a_server_that_is_gone_is_named_without_its_password(engine: str) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # who has the port and does not listen
        port = nobody.getsockname()[1]
        options = parse({"url": f"postgresql://me:secret@127.0.0.1:{port}/db", "engine": engine})
        with (
            pytest.raises(QueueStoreUnavailableError, match=r"me@127\.0\.0\.1") as caught,
            connected(options, engine_of(options)),
        ):
            pass
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"corruptRows": "dead-letter"}, "mode 'consume'"),
        ({"startingOffsets": "3"}, "view"),
        ({"endingTimestamp": "1000"}, "view"),
        ({"url": "redis://127.0.0.1/0", "engine": "adbc"}, "sqlite:// and postgresql:// only"),
    ],
)
def test_options_that_make_no_sense_for_a_batch_are_refused(options: dict[str, str], said: str, tmp_path: Path) -> None:
    source = LocalQueueDataSource({"url": f"sqlite:///{tmp_path}/q.db", **options})
    with pytest.raises(OptionError, match=said):
        source.reader(source.schema())


def test_a_schema_reads_payloads_of_journal_entries_too(tmp_path: Path) -> None:
    place = filled("sqlite", tmp_path)
    schema = t.StructType([t.StructField("n", t.LongType()), t.StructField("_type", t.StringType())])
    options = options_of(place, view="events", queue="jobs", corruptRows="drop")
    found, _ = read(options, schema)
    assert pa.compute.sum(found.column("n")).as_py() == sum([*range(5), *range(10, 15), 16, 17, 18])
    assert set(found.filter(pa.compute.is_null(found.column("n"))).column("_type").to_pylist()) >= {
        "leased",
        "released",
    }


def loading(spark: Any, place: Place) -> Callable[..., Any]:
    return lambda **options: spark.read.format("localqueue").options(**options_of(place, **options)).load()


def test_spark_reads_every_view_of_a_store(spark: Any, tmp_path: Path) -> None:
    place = filled("sqlite", tmp_path)
    load = loading(spark, place)
    messages = load(numPartitions="3").collect()
    assert {row["state"] for row in messages} == set(STATES) and len(messages) == 17
    (leased,) = [row for row in messages if row["state"] == "inflight"]
    assert leased["leased_by"] == "w1" and leased["leased_until"].replace(tzinfo=UTC) > datetime.now(UTC)
    (first,) = [row for row in messages if row["priority"] == 7]
    assert first["headers"] == {"h": "1", "x": "y"} and first["value"] == '{"n":10,"s":"é"}'
    assert [row["message"] for row in load(view="dead").select("last_error.*").collect()] == ["bad"]
    kinds = {row["type"]: row["count"] for row in load(view="events").groupBy("type").count().collect()}
    assert kinds["enqueued"] == 18 and kinds["dead_lettered"] == 1
    assert {row["run_id"] for row in load(view="runs").collect()} == {"run-1", "run-2"}
    assert {row["queue"]: row["total"] for row in load(view="stats").collect()} == {"jobs": 14, "other": 3}


def test_filters_of_spark_are_right_whether_the_store_does_them_or_spark(spark: Any, tmp_path: Path) -> None:
    place = filled("sqlite", tmp_path)
    for pushed in ("true", "false"):
        load = partial(loading(spark, place), pushFilters=pushed)
        found = load().where(
            "state = 'ready' and queue = 'jobs' and priority > 5 and created_at > '2020-01-01' and id > '0'"
            " and dedupe_key is not null and value like '%10%'"
        )
        assert [row["dedupe_key"] for row in found.collect()] == ["dé"]
        assert load(view="events").where("seq > 5 and seq <= 8 and at > '2020-01-01'").count() == 3
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert loading(spark, place)().where("state = 'dead'").count() == 1
    finally:
        register(spark)


def test_a_dataframe_may_be_used_for_several_queries(spark: Any, tmp_path: Path) -> None:
    rows = loading(spark, filled("sqlite", tmp_path))().where("queue = 'jobs'")
    dead, ready = rows.where("state = 'dead'"), rows.where("state = 'ready'")
    assert (dead.count(), rows.count()) == (1, 14)
    assert dead.union(ready).count() == dead.count() + ready.count() == 1 + rows.where("state = 'ready'").count()


def test_spark_reads_payloads_by_a_schema(spark: Any, tmp_path: Path) -> None:
    place = filled("sqlite", tmp_path)
    typed = spark.read.format("localqueue").options(**options_of(place, queue="jobs"))
    numbers = typed.schema("n bigint, _state string, _corrupt string").load().where("_state != 'expired'").collect()
    assert sorted(row["n"] for row in numbers if row["n"] is not None) == [*range(5), *range(10, 15), 16, 17]
    assert len([row for row in numbers if row["_corrupt"] is not None]) == 1  # the pickle
    with pytest.raises(Exception, match="codec 'pickle' has no JSON"):
        typed.schema("n bigint").load().collect()


@pytest.mark.parametrize("kind", OTHERS)
def test_spark_reads_every_other_store(spark: Any, kind: str, tmp_path: Path) -> None:
    place = filled(kind, tmp_path)
    load = loading(spark, place)
    with place.open() as store:
        stored = {view: as_stored(store, view) for view in ("messages", "events")}
    found = {row["id"]: row for row in load().collect()}
    assert sorted(found) == [row["id"] for row in stored["messages"]]
    for row in stored["messages"]:
        one = found[row["id"]]
        assert (one["state"], one["value"], one["attempts"]) == (row["state"], row["value"], row["attempts"])
    assert load(view="dead").where("queue = 'jobs'").count() == 1
    sequence = sorted(row["seq"] for row in load(view="events", columns="seq").collect())
    assert sequence == [row["seq"] for row in stored["events"]]
