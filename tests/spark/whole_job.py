"""Everything once, on the session it is told: `python -m tests.spark.whole_job cluster|connect URL FOLDER`.

Prints one line of JSON about what it found. The test beside it says what that must be.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from localqueue import PersistentQueue
from localqueue.spark import ingest, process, register, session
from localqueue.spark.host import use_address
from localqueue.spark.java import use_java
from localqueue.spark.sink import ledger, staged_rows
from localqueue.stores.url import open_store

ROWS = 400

#: Short jobs: compiling them well costs more than running them badly.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def start(kind: str, folder: str) -> Any:
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.executor.extraJavaOptions": QUICK,
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": f"{folder}/local",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    if kind == "cluster":
        return session("cluster", master="local-cluster[2,1,1024]", conf=conf)
    from pyspark.sql import SparkSession

    use_java()
    use_address("local[2]", conf)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.remote("local[2]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    return register(builder.getOrCreate())


def handle(value: dict[str, Any]) -> None:
    """What `process` runs on the executors."""
    assert value["number"] >= 0


def stumbling(batches: Iterator[Any]) -> Iterator[Any]:
    """The same rows, from tasks of which every first attempt fails at the end."""
    from pyspark import TaskContext

    yield from batches
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        raise RuntimeError("stumbled")


def retried(spark: Any, url: str) -> dict[str, list[int]]:
    """What a queue has after a job whose tasks all failed once, for each way to deliver, and what the store keeps."""
    found = {}
    for delivery in ("atomic", "direct"):
        rows = spark.range(0, ROWS, 1, 4).mapInArrow(stumbling, "id long")
        rows.write.format("localqueue").options(url=url, queue=delivery, delivery=delivery).mode("append").save()
        values = spark.read.format("localqueue").options(url=url, queue=delivery).load().select("value")
        with open_store(url) as store:
            left = sum(len(store.records(kind)) for kind in (staged_rows.KIND, ledger.PART_KIND))
        found[delivery] = [values.count(), values.distinct().count(), left]
    return found


def run(spark: Any, url: str, folder: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def source(queue: str) -> Any:
        return spark.read.format("localqueue").options(url=url, queue=queue)

    numbers = spark.range(ROWS).selectExpr("id AS number", "concat('k', id % 7) AS name").repartition(4)
    numbers.write.format("localqueue").options(url=url, queue="in").mode("append").save()

    typed = source("in").schema("number long, name string").load()
    found["read"] = typed.selectExpr("count(*)", "count(DISTINCT number)", "max(number)").first().asDict()

    whole = source("in").schema("_id string, _value variant, number long").load()
    found["variant"] = whole.selectExpr("sum(_value:number::long)", "sum(number)").first().asDict()

    def stream(**options: str) -> Any:
        return spark.readStream.format("localqueue").options(url=url, queue="in", **options)

    (
        stream(mode="subscribe")
        .schema("id string, value variant")
        .load()
        .select("value")
        .writeStream.format("localqueue")
        .options(url=url, queue="copied", checkpointLocation=f"{folder}/subscribe")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    (
        stream(mode="consume", consumer="etl", maxOffsetsPerTrigger="300")
        .load()
        .select("id", "value")
        .writeStream.format("parquet")
        .option("path", f"{folder}/table")
        .option("checkpointLocation", f"{folder}/consume")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    table = spark.read.parquet(f"{folder}/table")
    found["table"] = [table.count(), table.select("id").distinct().count()]
    found["left"] = source("in").load().count()
    found["copied"] = source("copied").load().select("value").distinct().count()
    found["processed"] = process(spark, url=url, queue="copied", handler=handle, workers=2).processed
    return found


def wrong_rule(spark: Any, url: str) -> str:
    """What is said of a rule over a column that is not there, of rows whose columns are known already."""
    rows = spark.range(3)
    assert rows.schema
    try:
        ingest(spark, rows, url=url, queue="ruled", expect={"positive": "nn > 1"})
    except ValueError as error:
        return str(error)
    return ""


def main(kind: str, url: str, folder: str) -> None:
    with open_store(url) as store:
        store.enable_journal()
        PersistentQueue("in", store=store).close()
    spark = start(kind, folder)
    try:
        found = run(spark, url, folder)
        if kind == "cluster":  # a task of a local session fails for good
            found["retried"] = retried(spark, url)
        else:
            found["wrong rule"] = wrong_rule(spark, url)
        print(json.dumps(found), flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
