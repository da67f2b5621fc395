"""Writing to a queue from Spark: batch jobs and streams, whole and once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types as t

from localqueue.spark.options import parse
from localqueue.spark.place import opened
from localqueue.spark.sink import ledger, staged_rows
from localqueue.spark.sink.writers import BatchSink, StreamSink, Written
from localqueue.stores.port import Changes
from tests.stores import Place, new_place

SERVERS = ("postgres", "redis", "mongodb")


def options_of(place: Place) -> dict[str, str]:
    url = f"sqlite:///{place.location}" if place.kind == "sqlite" else place.location
    return {"url": url, "namespace": place.namespace, "queue": "jobs"}


def save(frame: Any, place: Place, **options: str) -> None:
    frame.write.format("localqueue").options(**{**options_of(place), **options}).mode("append").save()


def run_stream(spark: Any, place: Place, folder: Path, **options: str) -> Any:
    """Everything in `folder/in`, one file a batch, with a checkpoint beside it; the query when it has ended."""
    rows = spark.readStream.schema("n bigint").option("maxFilesPerTrigger", "1").json(str(folder / "in"))
    writer = rows.writeStream.format("localqueue").options(**{**options_of(place), **options})
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(100)
    return query


def add_file(folder: Path, *numbers: int) -> None:
    (folder / "in").mkdir(parents=True, exist_ok=True)
    name = f"{len(list((folder / 'in').iterdir())):03d}.json"
    (folder / "in" / name).write_text("".join(f'{{"n": {n}}}\n' for n in numbers))


def forget_last_commit(folder: Path) -> int:
    """Leave the checkpoint as a driver does that died between the sink's commit and its own."""
    commits = folder / "checkpoint" / "commits"
    last = max(int(entry.name) for entry in commits.iterdir() if entry.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last


def values(place: Place, queue: str = "jobs") -> list[Any]:
    with place.open() as store:
        return [json.loads(message.payload) for message in store.scan(queue)]


def debris(place: Place) -> list[str]:
    with place.open() as store:
        return [record.key for kind in (staged_rows.KIND, ledger.PART_KIND) for record in store.records(kind)]


def test_a_job_writes_its_rows_as_json_and_with_its_key_only_once(spark: Any, tmp_path: Path) -> None:
    place = new_place("sqlite", tmp_path)
    frame = spark.sql(
        "SELECT id, struct(DATE'2026-01-31' AS day, CAST(1.5 AS DECIMAL(5,2)) AS cost) AS of FROM range(5)"
    )
    save(frame.repartition(3), place, idempotencyKey="today")
    save(frame, place, idempotencyKey="today")
    expected = [{"id": n, "of": {"day": "2026-01-31", "cost": 1.5}} for n in range(5)]
    assert sorted(values(place), key=lambda row: row["id"]) == expected
    save(frame, place, idempotencyKey="tomorrow")
    save(frame.limit(0), place)
    assert len(values(place)) == 10
    assert debris(place) == []


def test_a_job_that_fails_leaves_nothing_behind(spark: Any, tmp_path: Path) -> None:
    place = new_place("sqlite", tmp_path)
    late = "CASE WHEN id < 29999 THEN to_json(struct(id)) ELSE '{oops' END AS value"
    with pytest.raises(Exception, match=r"column 'value' is not JSON .*'\{oops'"):
        save(spark.range(0, 30_000, 1, 2).selectExpr(late), place)
    assert (values(place), debris(place)) == ([], [])


def test_rows_that_can_not_be_messages_are_refused_before_the_job_starts(spark: Any, tmp_path: Path) -> None:
    place = new_place("sqlite", tmp_path)
    with pytest.raises(Exception, match=r"column 'priority' is of type decimal\(2,1\); it must be int"):
        save(spark.range(1).selectExpr("'1' AS value", "1.5 AS priority"), place)
    assert not Path(place.location).exists()


def test_a_job_delivers_directly_and_with_its_key_only_once(spark: Any, tmp_path: Path) -> None:
    place = new_place("sqlite", tmp_path)
    frame = spark.range(0, 20, 1, 2).selectExpr("to_json(struct(id)) AS value")
    for _ in range(2):
        save(frame, place, delivery="direct", idempotencyKey="today")
    save(frame, place, delivery="direct")
    assert sorted(row["id"] for row in values(place)) == sorted([*range(20)] * 2)
    assert debris(place) == []


@pytest.mark.parametrize("delivery", ["atomic", "steps", "direct"])
def test_a_batch_of_a_stream_that_spark_runs_again_is_in_the_queue_once(
    spark: Any, tmp_path: Path, delivery: str
) -> None:
    place = new_place("sqlite", tmp_path)
    add_file(tmp_path, 1, 2)
    add_file(tmp_path, 3)
    query = run_stream(spark, place, tmp_path, delivery=delivery)
    last = forget_last_commit(tmp_path)
    with place.open() as store:  # this also pins the names under which Spark tells a task its query and batch
        entry = ledger.read(store, ledger.for_query(str(query.id), "jobs"))
        assert (entry.batch, entry.chunks) == (last, None)
    add_file(tmp_path, 4)
    run_stream(spark, place, tmp_path, delivery=delivery)
    assert sorted(row["n"] for row in values(place)) == [1, 2, 3, 4]
    assert debris(place) == []


@pytest.mark.parametrize("kind", SERVERS)
def test_jobs_and_streams_write_to_a_server(spark: Any, tmp_path: Path, kind: str) -> None:
    place = new_place(kind, tmp_path)
    rich = """
        SELECT to_json(struct(id)) AS value, IF(id = 0, map('a', 'b'), NULL) AS headers, CAST(id AS INT) AS priority,
               IF(id = 1, 1000, 0) AS delay, IF(id = 2, 'key', NULL) AS dedupe_key,
               IF(id = 3, 'line', NULL) AS ordering_key, IF(id = 4, 'run', NULL) AS run_id,
               IF(id = 5, 'other', NULL) AS queue
        FROM range(6)
    """
    save(spark.sql(rich), place)
    with place.open() as store:
        found = {json.loads(message.payload)["id"]: message for message in store.scan("jobs")}
    assert sorted(found) == [0, 1, 2, 3, 4] and values(place, "other") == [{"id": 5}]
    assert (found[0].headers, found[1].state, found[2].dedupe_key) == ('{"a":"b"}', "delayed", "key")
    assert (found[3].ordering_key, found[4].run_id, found[4].priority) == ("line", "run", 4)

    add_file(tmp_path, *range(100, 200))
    run_stream(spark, place, tmp_path, queue="stream")
    forget_last_commit(tmp_path)
    run_stream(spark, place, tmp_path, queue="stream")
    assert sorted(row["n"] for row in values(place, "stream")) == list(range(100, 200))
    assert debris(place) == []


# The writers without a Spark session: what a driver does with what tasks have told it.

ONE_TEXT = t.StructType([t.StructField("value", t.StringType())])


def rows(*texts: str) -> Any:
    import pyarrow as pa

    return iter([pa.record_batch({"value": list(texts)})])


def test_attempts_that_came_to_nothing_are_never_seen_and_are_swept(tmp_path: Path) -> None:
    place = new_place("sqlite", tmp_path)
    sink = BatchSink(parse(options_of(place)), ONE_TEXT)
    sink.write(rows("1"))  # its worker was lost before Spark heard of it
    again, other = sink.write(rows("1")), sink.write(rows("2"))
    sink.commit([again, other, None])
    assert (values(place), debris(place)) == ([1, 2], [])


def test_a_batch_without_rows_does_not_touch_the_store(tmp_path: Path) -> None:
    place = new_place("sqlite", tmp_path)
    sink = StreamSink(parse(options_of(place)), ONE_TEXT)
    sink.commit([], 0)
    sink.commit([Written(query="q"), Written(query="q")], 0)
    assert not Path(place.location).exists()


def test_an_aborted_batch_is_swept_and_what_was_begun_of_it_is_kept(tmp_path: Path) -> None:
    place = new_place("sqlite", tmp_path)
    options = parse(options_of(place))
    sink = StreamSink(options, ONE_TEXT)
    with opened(options) as store:
        token = staged_rows.batch_token("q", 7)
        begun = staged_rows.stage(store, token, rows("1"))
        key = ledger.for_query("q", "jobs")
        store.commit(Changes(records=[ledger.read(store, key).amid(7, begun, 0, "dead")]))
        staged_rows.stage(store, token, rows("1"))
        sink.abort([None, Written(query="q", rows=1)], 7)
        assert debris(place) == [begun[0].key]
        again = staged_rows.stage(store, token, rows("1"))
        sink.commit([Written(query="q", rows=1, chunks=tuple(again))], 7)
    assert (values(place), debris(place)) == ([1], [])


def test_two_jobs_with_one_key_at_a_time_write_once(tmp_path: Path) -> None:
    place = new_place("sqlite", tmp_path)
    options = parse({**options_of(place), "idempotencyKey": "today"})
    one, other = BatchSink(options, ONE_TEXT), BatchSink(options, ONE_TEXT)
    written, twin = one.write(rows("1")), other.write(rows("1"))
    one.commit([written])
    other.commit([twin])
    assert (values(place), debris(place)) == ([1], [])
    elsewhere = BatchSink(parse({**options_of(place), "idempotencyKey": "today", "queue": "other"}), ONE_TEXT)
    elsewhere.commit([elsewhere.write(rows("2"))])
    assert values(place, "other") == [2], "a key is of one job into one queue"
