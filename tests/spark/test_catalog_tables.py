"""Tables of a catalog keep their options and get them back; what has lost them is never another store."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.cloudpickle import dumps, loads
from pyspark.sql import types as t

from localqueue import PersistentQueue
from localqueue.spark import register
from localqueue.spark.datasource import LocalQueueDataSource
from localqueue.spark.ddl import parse_ddl
from localqueue.spark.options import OptionError
from localqueue.spark.root_cause import root_cause
from localqueue.stores.sqlite import SQLiteQueueStore

LOST = "Spark hands over no options of a table that was made with columns"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCALQUEUE_URL", raising=False)


def test_without_a_url_there_is_no_store_in_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match=r"option 'url' is missing: name the store.*LOCALQUEUE_URL"):
        LocalQueueDataSource({"queue": "jobs"}).schema()
    monkeypatch.setenv("LOCALQUEUE_URL", "sqlite:////tmp/jobs.db")
    for options in ({}, {"queue": "jobs"}, {"queue": "jobs", "schema": "order_id long"}):
        bare = LocalQueueDataSource(options)
        columns = bare.schema()
        there = loads(dumps(bare))  # as Spark takes it to where it plans the read
        assert there.reader(columns).options.url == "sqlite:////tmp/jobs.db"


@pytest.mark.parametrize("options", [{}, {"numPartitions": "2"}, {"queue": "jobs", "mode": "consume", "consumer": "e"}])
def test_what_may_be_a_table_that_has_lost_its_options_is_not_read_from_the_store_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    monkeypatch.setenv("LOCALQUEUE_URL", "sqlite:////tmp/jobs.db")
    columns = parse_ddl("order_id long")
    ways = r'\.option\("url", .*LOCALQUEUE_URL .*\.option\("schema", .*'
    with pytest.raises(OptionError, match=ways + LOST):
        LocalQueueDataSource(options).reader(columns)
    stream = LocalQueueDataSource(options).streamReader(columns)
    with pytest.raises(OptionError, match=ways + LOST):
        stream.initialOffset()
    with pytest.raises(OptionError, match=ways + LOST):
        stream.latestOffset({}, None)


def test_rows_are_written_to_the_store_of_the_environment_where_their_queue_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = parse_ddl("order_id long")
    with pytest.raises(OptionError, match=f"option 'url' is missing: .*LOCALQUEUE_URL .*{LOST}"):
        LocalQueueDataSource({"queue": "jobs"}).writer(columns, overwrite=False)
    monkeypatch.setenv("LOCALQUEUE_URL", "sqlite:////tmp/jobs.db")
    named = LocalQueueDataSource({"queue": "jobs"})
    assert named.writer(columns, overwrite=False).options.url == "sqlite:////tmp/jobs.db"
    assert named.streamWriter(columns, overwrite=False).options.url == "sqlite:////tmp/jobs.db"
    for options in ({}, {"checkpointLocation": "/tmp/c"}, {"delivery": "steps"}):
        unnamed = LocalQueueDataSource(options)
        for write in (unnamed.writer, unnamed.streamWriter):
            with pytest.raises(OptionError, match=f"set LOCALQUEUE_URL in .*name the queue.*{LOST}"):
                write(parse_ddl("value string, queue string"), overwrite=False)


CREATED = {"provider": "localqueue", "owner": "me", "foo": "bar", "comment": "x"}


def test_a_new_table_has_its_options_in_its_schema_and_those_that_are_read_from_one_are_no_target() -> None:
    table = {"url": "sqlite:////tmp/a.db", "queue": "a", "namespace": "n", "schema": "n int, city string"}
    schema = LocalQueueDataSource({**CREATED, **{f"option.{name}": text for name, text in table.items()}}).schema()
    assert isinstance(schema["city"].dataType, t.VarcharType)
    metadata = schema["city"].metadata

    def seen(**mark: str) -> t.StructType:  # as Spark hands it back
        text = t.StructField("city", t.StringType(), True, {**metadata, **mark})
        return t.StructType([t.StructField("n", t.IntegerType()), text])

    read, written = seen(__CHAR_VARCHAR_TYPE_STRING="varchar(2147483647)"), seen()
    source = LocalQueueDataSource({})
    assert source.reader(read).options.namespace == "n"
    assert source.writer(written, overwrite=False).options.queue == "a"
    for stray in (read, parse_ddl("n int, city string")):
        with pytest.raises(OptionError, match=LOST):
            source.writer(stray, overwrite=False)
    other = LocalQueueDataSource({"url": "sqlite:////tmp/b.db", "queue": "b"})
    assert other.writer(written, overwrite=False).options.namespace == "default"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"option.url": "postgresql://me:geheim@db/jobs"}, "option 'url' has a password"),
        ({"option.url": "sqlite:///a.db", "path": "/x", "location": "/x"}, "a table has no LOCATION or path"),
        ({"option.queue": "a"}, "option 'url' is missing"),
        ({"option.url": "sqlite:///a.db", "option.schema": "n int,"}, "it ends too early"),
        ({"option.url": "sqlite:///a.db", "option.schema": "n whole"}, "'whole' is not understood"),
        ({"option.url": "sqlite:///a.db", "option.schema": "n int, n int"}, "names column 'n' twice"),
    ],
)
def test_a_table_that_can_not_be_is_refused_when_it_is_made(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said) as refused:
        LocalQueueDataSource({**CREATED, **options}).schema()
    assert "geheim" not in str(refused.value)


DDL = "a long NOT NULL, `b c` string COMMENT 'it is', m map<string, array<int>>, s struct<x: decimal(12, 2), y VARIANT>"


def test_a_schema_in_text_is_what_spark_makes_of_it(spark: Any) -> None:
    theirs = t.StructType.fromDDL(DDL)
    assert parse_ddl(DDL) == t.StructType([t.StructField(f.name, f.dataType, f.nullable) for f in theirs])


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Iterator[tuple[PersistentQueue[Any], str]]:
    with SQLiteQueueStore(tmp_path / "shop.db") as store:
        queue = PersistentQueue[Any]("orders", store=store)
        queue.put({"order_id": 1, "city": "Oslo"})
        PersistentQueue[Any]("others", store=store).put({"order_id": 99, "city": "Rome"})
        try:
            yield queue, f"url 'sqlite:///{tmp_path}/shop.db', queue 'orders'"
        finally:
            for name in ("orders", "copied", "raw", "columned", "saved"):
                spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def elsewhere(spark: Any, tmp_path: Path) -> Iterator[PersistentQueue[Any]]:
    """A queue in a store that LOCALQUEUE_URL names where Spark runs the source."""
    url = f"sqlite:///{tmp_path}/elsewhere.db"
    environment = spark.sparkContext.environment
    with SQLiteQueueStore(tmp_path / "elsewhere.db") as store:
        store.enable_journal()
        queue = PersistentQueue[Any]("orders", store=store)
        queue.put({"order_id": 66, "city": "Hell"})
        environment["LOCALQUEUE_URL"] = url
        register(spark)
        try:
            yield queue
        finally:
            del environment["LOCALQUEUE_URL"]
            register(spark)


def refused(run: Any) -> str:
    with pytest.raises(Exception, match=r"localqueue|Spark|column") as raised:
        run()
    return root_cause(raised.value)


def test_tables_of_the_catalog_are_read_inserted_into_and_streamed(
    spark: Any, shop: tuple[PersistentQueue[Any], str], tmp_path: Path
) -> None:
    queue, options = shop
    spark.sql(
        f"CREATE TABLE orders USING localqueue OPTIONS ({options}, schema 'order_id long, city string, _id string')"
    )
    assert spark.sql("SELECT order_id, city FROM orders WHERE _id IS NOT NULL").collect() == [(1, "Oslo")]
    spark.sql("INSERT INTO orders (order_id, city) VALUES (2, 'Lima')")
    new = spark.createDataFrame([(3, "Bonn", None)], "order_id long, city string, _id string")
    new.write.insertInto("orders")
    new.writeTo("orders").append()
    new.write.format("localqueue").mode("append").saveAsTable("orders")
    assert sorted(row["order_id"] for row in spark.table("orders").collect()) == [1, 2, 3, 3, 3]
    named = new.fillna("x")
    assert "column '_id' is filled by the store" in refused(lambda: named.write.insertInto("orders"))
    shape = "schema 'order_id long, city string, _id string'"
    spark.sql(f"CREATE TABLE copied USING localqueue OPTIONS ({options.replace('orders', 'copied')}, {shape})")
    spark.sql("INSERT INTO copied SELECT order_id, city, CAST(NULL AS STRING) AS _id FROM orders")
    assert spark.table("copied").count() == 5

    spark.sql(f"CREATE TABLE raw USING localqueue OPTIONS ({options})")
    spark.sql("INSERT INTO raw (value, priority) SELECT '{\"order_id\": 4}', 7")
    assert [row["value"] for row in spark.table("raw").where("priority = 7").collect()] == ['{"order_id": 4}']
    assert queue.stats().ready == 6

    # What has no options of its own says so, and is not the store of what it was selected from.
    spark.sql(f"CREATE TABLE columned (order_id long, city string, _id string) USING localqueue OPTIONS ({options})")
    new.write.format("localqueue").option("url", f"sqlite:///{tmp_path}/shop.db").option("queue", "b").saveAsTable(
        "saved"
    )
    for run in (
        lambda: spark.table("columned").collect(),
        lambda: spark.table("saved").collect(),
        lambda: spark.sql("INSERT INTO columned SELECT * FROM orders").collect(),
    ):
        assert LOST in refused(run)
    assert queue.stats().ready == 6
    again = (
        f"SELECT city FROM columned WITH ('url'='sqlite:///{tmp_path}/shop.db', 'queue'='orders') WHERE order_id = 2"
    )
    assert spark.sql(again).collect() == [("Lima",)]


def run_to_end(rows: Any, checkpoint: Path) -> None:
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start().awaitTermination(60)


def test_a_table_that_has_lost_its_options_never_touches_the_store_of_the_environment(
    spark: Any, shop: tuple[PersistentQueue[Any], str], elsewhere: PersistentQueue[Any], tmp_path: Path
) -> None:
    _, options = shop
    spark.sql(f"CREATE TABLE columned (order_id long, city string) USING localqueue OPTIONS ({options})")
    new = spark.createDataFrame([(3, "Bonn")], "order_id long, city string")
    claim = spark.readStream.option("mode", "consume").option("consumer", "etl").option("queue", "orders")
    for number, run in enumerate(
        (
            lambda at: spark.sql("SELECT * FROM columned WITH ('numPartitions' = '2')").collect(),
            lambda at: spark.read.option("numPartitions", "2").table("columned").collect(),
            lambda at: run_to_end(spark.readStream.table("columned"), at),
            lambda at: run_to_end(spark.readStream.option("mode", "subscribe").table("columned"), at),
            lambda at: run_to_end(claim.table("columned"), at),
            lambda at: spark.sql("INSERT INTO columned WITH ('delivery' = 'steps') SELECT 7, 'Oslo'").collect(),
            lambda at: new.write.format("localqueue").mode("append").saveAsTable("columned"),
        )
    ):
        assert LOST in refused(partial(run, tmp_path / f"checkpoint-{number}"))
    stats = elsewhere.stats()
    assert (stats.ready, stats.total) == (1, 1)

    new.write.format("localqueue").option("queue", "orders").mode("append").save()
    assert elsewhere.stats().ready == 2
    read = spark.read.format("localqueue").option("queue", "orders").option("schema", "order_id long").load()
    assert sorted(row["order_id"] for row in read.collect()) == [3, 66]
