"""Both streams on Spark: what comes out of them, after restarts, replays and take-overs too."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue.spark.options import OptionError, parse
from localqueue.spark.root_cause import root_cause
from localqueue.stores.port import Changes, LeaseRequest, NewMessage
from tests.stores import Place, new_place

Rows = dict[int, list[Any]]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place("sqlite", tmp_path)


@pytest.fixture
def store(place: Place) -> Iterator[Any]:
    with place.open() as store:
        yield store


def source(place: Place, **more: str) -> dict[str, str]:
    url = f"sqlite:///{place.location}" if place.kind == "sqlite" else place.location
    return {"url": url, "namespace": place.namespace, "queue": "jobs", **more}


def stream(spark: Any, place: Place, schema: str | None = None, **more: str) -> Any:
    reader = spark.readStream.format("localqueue").options(**source(place, **more))
    return (reader if schema is None else reader.schema(schema)).load()


def collecting(into: Rows) -> Callable[[Any, int], None]:
    def collect(frame: Any, batch: int) -> None:
        into[batch] = frame.collect()

    return collect


def start(frame: Any, checkpoint: Path, into: Rows, **trigger: Any) -> Any:
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(collecting(into))
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def drain(frame: Any, checkpoint: Path, into: Rows | None = None) -> Rows:
    """Everything that is there now, by batch."""
    found: Rows = {} if into is None else into
    query = start(frame, checkpoint, found)
    assert query.awaitTermination(90)
    return found


def put(store: Any, count: int, first: int = 0) -> None:
    store.put_batch("jobs", [json.dumps({"n": n}) for n in range(first, first + count)], None)


def numbers(batches: Rows) -> list[int]:
    return [json.loads(row.value)["n"] for batch in sorted(batches) for row in batches[batch]]


def wait_for(what: Callable[[], bool], query: Any = None) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        assert query is None or query.isActive, query.exception()
        time.sleep(0.02)


def test_a_subscription_follows_the_journal_and_goes_on_after_a_restart(
    spark: Any, place: Place, store: Any, tmp_path: Path
) -> None:
    store.enable_journal()
    put(store, 10)
    store.lease(LeaseRequest("jobs", 3, 30.0))
    frame = stream(spark, place, maxOffsetsPerTrigger="4", numPartitions="2")
    first = drain(frame, tmp_path / "a")
    assert numbers(first) == list(range(10))
    assert [len(rows) for rows in first.values()] == [4, 4, 2]
    assert first[0][0].state == "ready" and first[0][0].attempts == 0
    put(store, 2, first=10)

    later: Rows = {}
    query = start(frame, tmp_path / "a", later, processingTime="0 seconds")
    wait_for(lambda: len(numbers(dict(later))) == 2, query)
    put(store, 1, first=12)
    wait_for(lambda: len(numbers(dict(later))) == 3, query)
    wait_for(lambda: query.lastProgress is not None and bool(query.lastProgress.sources[0].latestOffset), query)
    reported = json.loads(query.lastProgress.sources[0].latestOffset)
    assert reported.keys() == {"seq", "backlog", "oldest_age_seconds", "store", "queue"}
    query.stop()
    assert numbers(later) == [10, 11, 12]
    assert store.stats("jobs").total == 13

    events = drain(stream(spark, place, view="events", columns="seq,type,message_id"), tmp_path / "b")
    kinds = [row.type for rows in events.values() for row in rows]
    assert (kinds.count("enqueued"), kinds.count("leased"), len(kinds)) == (13, 3, 16)
    assert [row.seq for row in events[0]] == list(range(1, 17))


def test_a_subscription_reads_payloads_by_a_schema(spark: Any, place: Place, store: Any, tmp_path: Path) -> None:
    store.enable_journal()
    store.put_batch("jobs", ['{"n": 1}', '{"n": "one"}', '{"n": 2}'], None)
    frame = stream(spark, place, "n bigint, _corrupt string, _queue string")
    (rows,) = drain(frame, tmp_path / "checkpoint").values()
    assert [(row.n, row["_corrupt"], row["_queue"]) for row in rows] == [
        (1, None, "jobs"),
        (None, '{"n": "one"}', "jobs"),
        (2, None, "jobs"),
    ]


def test_consuming_takes_each_message_once_through_restarts_and_a_forced_replay(
    spark: Any, place: Place, store: Any, tmp_path: Path
) -> None:
    put(store, 10)
    frame = stream(spark, place, mode="consume", consumer="etl", maxOffsetsPerTrigger="4", numPartitions="2")
    batches = drain(frame, tmp_path / "checkpoint")
    assert numbers(batches) == list(range(10))
    assert sorted(batches) == [0, 1, 2]
    assert store.stats("jobs").total == 0  # the last batch too
    assert {row.leased_by for rows in batches.values() for row in rows} == {"spark:etl"}

    commits = tmp_path / "checkpoint" / "commits"
    for name in ("2", ".2.crc"):
        (commits / name).unlink(missing_ok=True)
    put(store, 2, first=10)
    again = drain(frame, tmp_path / "checkpoint")
    assert again[2] == batches[2]  # though its messages were acked
    assert numbers({3: again[3]}) == [10, 11]

    later: Rows = {}
    query = start(frame, tmp_path / "checkpoint", later, processingTime="0 seconds")
    put(store, 3, first=12)
    wait_for(lambda: len(numbers(dict(later))) == 3, query)
    query.stop()  # perhaps before Spark has committed the batch: then the next query runs it again, under its number
    drain(frame, tmp_path / "checkpoint", later)
    assert numbers(later) == [12, 13, 14]
    assert store.stats("jobs").total == 0


def test_the_older_of_two_queries_with_one_consumer_name_fails_and_says_why(
    spark: Any, place: Place, store: Any, tmp_path: Path
) -> None:
    put(store, 3)
    frame = stream(spark, place, mode="consume", consumer="etl")
    old_rows: Rows = {}
    old = start(frame, tmp_path / "old", old_rows, processingTime="0 seconds")
    wait_for(lambda: store.stats("jobs").total == 0, old)
    assert numbers(drain(frame, tmp_path / "new")) == []
    wait_for(lambda: not old.isActive)
    assert "was taken over by another query, or released; give each query a consumer name of" in str(old.exception())
    assert numbers(old_rows) == [0, 1, 2]


def test_payloads_that_do_not_fit_the_schema_become_dead_letters(
    spark: Any, place: Place, store: Any, tmp_path: Path
) -> None:
    store.put_batch("jobs", ['{"n": 1}', '{"n": "one"}', "[]", '{"n": 2}'], None)
    frame = stream(spark, place, "n bigint, _id string", mode="consume", consumer="etl", corruptRows="dead-letter")
    (rows,) = drain(frame, tmp_path / "checkpoint").values()
    assert [row.n for row in rows] == [1, 2]
    dead = store.scan("jobs", state="dead")
    assert [one.payload for one in dead] == ['{"n": "one"}', "[]"]
    assert "does not fit the schema: field 'n' is \"one\", not bigint" in dead[0].last_error["message"]
    assert store.stats("jobs").total == 2


def test_a_message_that_failed_a_query_is_a_dead_letter_when_it_is_restarted_with_a_repair(
    spark: Any, place: Place, store: Any, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    store.put_batch("jobs", ['{"n": 1}', '{"n": "bad"}', '{"n": 2}'], None)
    with pytest.raises(StreamingQueryException, match="does not fit the schema"):
        drain(stream(spark, place, "n int", mode="consume", consumer="etl"), tmp_path / "checkpoint")
    repaired = stream(spark, place, "n int, _id string", mode="consume", consumer="etl", corruptRows="dead-letter")
    rows = drain(repaired, tmp_path / "checkpoint")
    assert [row.n for row in rows[0]] == [1, 2]
    assert [one.payload for one in store.scan("jobs")] == ['{"n": "bad"}']
    assert store.stats("jobs").dead == 1


def test_a_batch_that_always_fails_ends_in_dead_letters_and_the_progress_tells_where_and_how_far(
    spark: Any, place: Place, store: Any, tmp_path: Path
) -> None:
    put(store, 3)
    options = {"mode": "consume", "consumer": "etl", "maxAttempts": "2", "maxOffsetsPerTrigger": "2"}
    frame = stream(spark, place, **options)
    batches: Rows = {}

    def collect(frame: Any, batch: int) -> None:
        batches[batch] = frame.collect()
        if numbers({0: batches[batch]})[:1] == [0]:
            raise ValueError("poison")

    runs = []
    for _ in range(3):
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(collect)
        query = writer.trigger(availableNow=True).start()
        wait_for(lambda query=query: not query.isActive)
        runs.append((query.exception() is None, len(batches[0])))
    assert runs == [(False, 2), (False, 2), (True, 0)]
    assert numbers(batches) == [2]
    assert {one.last_error["type"] for one in store.scan("jobs", state="dead")} == {"AttemptsExhausted"}
    assert (store.stats("jobs").dead, store.stats("jobs").total) == (2, 2)
    reports = [json.loads(one.sources[0].latestOffset or "null") for one in query.recentProgress]
    told = [one for one in reports if one is not None]  # the batch that was begun again has none
    assert told[-1]["backlog"] == 0
    assert {(one["store"], one["queue"], one["consumer"]) for one in told} == {(store.url, "jobs", "etl")}


def test_a_copied_checkpoint_and_a_missing_journal_are_said(
    spark: Any, place: Place, store: Any, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    put(store, 1)
    drain(stream(spark, place, mode="consume", consumer="one"), tmp_path / "checkpoint")
    with pytest.raises(StreamingQueryException, match="at claim 1 and the last one there is is 0"):
        drain(stream(spark, place, mode="consume", consumer="two"), tmp_path / "checkpoint")
    with pytest.raises(StreamingQueryException, match=r"localqueue queue journal --enable"):
        drain(stream(spark, place), tmp_path / "other")


@pytest.mark.parametrize("kind", ["postgres", "redis", "mongodb"])
def test_both_streams_read_a_store_on_a_server(spark: Any, kind: str, tmp_path: Path) -> None:
    place = new_place(kind, tmp_path)
    with place.open() as store:
        store.enable_journal()
        texts = enumerate(store.mint(6))
        keyed = [NewMessage(one, "jobs", json.dumps({"n": n}), ordering_key="ab"[n % 2]) for n, one in texts]
        store.commit(Changes(enqueue=keyed))
        frame = stream(spark, place, mode="consume", consumer="etl", maxOffsetsPerTrigger="4")
        consumed = numbers(drain(frame, tmp_path / "consume"))
        assert ([n for n in consumed if n % 2], [n for n in consumed if not n % 2]) == ([1, 3, 5], [0, 2, 4])
        assert store.stats("jobs").total == 0
        frame = stream(spark, place, minPartitions="2")
        assert numbers(drain(frame, tmp_path / "subscribe")) == list(range(6))


def test_options_that_a_stream_can_not_have_are_refused() -> None:
    from localqueue.spark.columns import MESSAGES, spark_schema
    from localqueue.spark.streams.consume import ConsumeReader
    from localqueue.spark.streams.subscribe import SubscribeReader

    schema = spark_schema(MESSAGES)

    def options(**more: str) -> Any:
        return parse({"url": "sqlite:///x.db", "queue": "jobs", **more})

    with pytest.raises(OptionError, match="option 'view' is 'dead'"):
        SubscribeReader(options(view="dead"), schema)
    with pytest.raises(OptionError, match="mode 'subscribe' touches no message"):
        SubscribeReader(options(corruptRows="dead-letter"), schema)
    with pytest.raises(OptionError, match="option 'view' is 'events'"):
        ConsumeReader(options(mode="consume", consumer="etl", view="events"), schema)
    with pytest.raises(OptionError, match="no schema to fit"):
        ConsumeReader(options(mode="consume", consumer="etl", corruptRows="dead-letter"), schema)


def test_a_stream_that_can_not_be_says_why_last(spark: Any, place: Place, store: Any, tmp_path: Path) -> None:
    from pyspark.errors import StreamingQueryException

    for schema, options, said in (
        (None, {"view": "dead"}, "option 'view' is 'dead'"),
        ("n map<long, long>", {"mode": "consume", "consumer": "etl"}, "map<string"),
    ):
        with pytest.raises(StreamingQueryException) as failed:
            drain(stream(spark, place, schema, **options), tmp_path / "checkpoint")
        assert said in root_cause(failed.value)


def test_consume_is_for_streams_and_says_so_in_a_batch_read() -> None:
    from localqueue.spark.columns import MESSAGES, spark_schema
    from localqueue.spark.datasource import LocalQueueDataSource

    given = {"url": "sqlite:///x.db", "queue": "jobs", "mode": "consume", "consumer": "etl"}
    with pytest.raises(OptionError, match="mode' is 'consume', which is for streams"):
        LocalQueueDataSource(given).reader(spark_schema(MESSAGES))


def test_the_progress_names_the_store_without_the_password() -> None:
    assert parse({"url": "postgresql://me:secret@host/db", "queue": "jobs"}).place == {
        "store": "postgresql://me@host/db",
        "queue": "jobs",
    }


def test_a_reader_travels_without_its_store_and_opens_none_when_it_is_made(place: Place, tmp_path: Path) -> None:
    from pyspark.cloudpickle import dumps, loads

    from localqueue.spark.columns import MESSAGES, spark_schema
    from localqueue.spark.streams.consume import ConsumeReader
    from localqueue.spark.streams.subscribe import SubscribeReader

    options = parse(source(place, mode="consume", consumer="etl"))
    consume = ConsumeReader(options, spark_schema(MESSAGES))
    subscribe = SubscribeReader(options, spark_schema(MESSAGES))
    assert not Path(place.location).exists()
    with place.open() as store:
        store.enable_journal()
        put(store, 2)
        end = consume.latestOffset(consume.initialOffset(), consume.getDefaultReadLimit())
        (part,) = consume.partitions({"claim": 0}, end)
        (batch,) = loads(dumps(consume)).read(part)
        assert batch.num_rows == 2
        end = subscribe.latestOffset(subscribe.initialOffset(), subscribe.getDefaultReadLimit())
        (entries,) = subscribe.partitions({"seq": 0}, end)
        (batch,) = loads(dumps(subscribe)).read(entries)
        assert batch.column("value").to_pylist() == ['{"n": 0}', '{"n": 1}']
        assert consume.partitions({"claim": 1}, {"claim": 1}) == []
    consume.stop()
    subscribe.stop()
