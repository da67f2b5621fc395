"""A streaming job that can be killed and started again: from a queue into a table, or from a journal into a queue.

`python -m tests.spark.kill_driver table|queue URL NAMESPACE FOLDER` works off what is there and ends with one line of
JSON about what it left.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from localqueue.spark import session

#: Small batches, so that a kill meets every part of one.
ROWS_A_BATCH = 150


def start(spark: Any, direction: str, url: str, namespace: str, folder: str) -> Any:
    stream = (
        spark.readStream.format("localqueue")
        .options(url=url, namespace=namespace, queue="in", maxOffsetsPerTrigger=str(ROWS_A_BATCH))
        .option("minPartitions", "2")
    )
    if direction == "table":
        stream = stream.options(mode="consume", consumer="etl", corruptRows="dead-letter")
        rows = stream.schema("n bigint, _id string, _ordering_key string").load()
        writer = rows.writeStream.format("parquet").option("path", f"{folder}/table")
    else:
        rows = stream.options(mode="subscribe").load().where("queue = 'in'").select("value")
        writer = rows.writeStream.format("localqueue").options(url=url, namespace=namespace, queue="out")
    return writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()


def main(direction: str, url: str, namespace: str, folder: str) -> None:
    spark = session(
        "kills",
        master="local[2,8]",  # a task may be tried again
        conf={
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.codegen.wholeStage": "false",
            "spark.local.dir": f"{folder}/local",
        },
    )
    start(spark, direction, url, namespace, folder).awaitTermination()
    if direction == "table":
        values = [row.n for row in spark.read.parquet(f"{folder}/table").select("n").collect()]
    else:
        found = spark.read.format("localqueue").options(url=url, namespace=namespace, queue="out").load()
        values = [row.value for row in found.select("value").collect()]
    print(json.dumps({"rows": len(values), "different": len(set(values))}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
