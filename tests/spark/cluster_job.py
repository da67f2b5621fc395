"""What is done on the cluster, by whoever asks for it: `cluster_job.py SOCKET [sc://SERVER]`.

spark-submit runs it as the driver of an application; with the address of a Spark Connect server it is a client of that.
It imports nothing of the tests, because there are none where it runs. It does what it is told through the socket and
answers with what it found. Tasks stop where they are told to, until somebody lets them go: they say so by files, which
they share with the test because the machines of this cluster are one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

from localqueue.spark import doctor, process, register, session

PATIENCE = 240.0


def hold(folder: str, number: int) -> None:
    """Say that this process has come to the row of this number, and wait until it may go on."""
    leave = Path(folder, f"go-{number}")
    if leave.exists():
        return
    Path(folder, f"held-{number}.{os.getpid()}").touch()
    deadline = time.monotonic() + PATIENCE
    while not leave.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody said {leave}")
        time.sleep(0.02)


def read(spark: Any, source: dict[str, str], parts: int) -> dict[str, Any]:
    """The numbers in a queue, and where the tasks ran that read them."""

    def where(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        import localqueue

        for batch in batches:
            told = [[os.getcwd()] * len(batch), [localqueue.__file__] * len(batch)]
            yield pa.RecordBatch.from_arrays([batch.column(0), *map(pa.array, told)], names=["n", "place", "package"])

    rows = spark.read.format("localqueue").options(**source, numPartitions=str(parts)).schema("n bigint").load()
    found = rows.mapInArrow(where, "n bigint, place string, package string").collect()
    return {
        "numbers": sorted(row.n for row in found),
        "places": sorted({row.place for row in found}),
        "packages": sorted({row.package for row in found}),
    }


def stopping(folder: str, stops: tuple[int, ...]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The same rows, from tasks that are held at these numbers."""

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in set(batch.column(0).to_pylist()) & set(stops):
                hold(folder, number)
            yield batch

    return pass_on


def write(spark: Any, source: dict[str, str], rows: int, folder: str, stops: tuple[int, ...] = ()) -> None:
    """The numbers below `rows` into a queue, from four tasks."""
    numbers = spark.range(0, rows, 1, 4).selectExpr("id AS n").mapInArrow(stopping(folder, stops), "n bigint")
    numbers.write.format("localqueue").options(**source).mode("append").save()


def consume(spark: Any, source: dict[str, str], folder: str, stops: tuple[int, ...] = ()) -> list[int]:
    """A queue into files, until nothing is left; what is in the files."""
    options = {**source, "mode": "consume", "consumer": "etl", "maxOffsetsPerTrigger": "100", "minPartitions": "2"}
    rows = spark.readStream.format("localqueue").options(**options).schema("n bigint").load()
    query = (
        rows.mapInArrow(stopping(folder, stops), "n bigint")
        .writeStream.format("parquet")
        .options(path=f"{folder}/table", checkpointLocation=f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(row.n for row in spark.read.parquet(f"{folder}/table").collect())


def forward(spark: Any, source: dict[str, str], folder: str, stops: tuple[int, ...] = ()) -> None:
    """A queue into the queue `out`, by a stream that sinks what it consumes, until nothing is left."""
    options = {**source, "mode": "consume", "consumer": "forward", "maxOffsetsPerTrigger": "100", "minPartitions": "2"}
    rows = spark.readStream.format("localqueue").options(**options).schema("n bigint").load()
    query = (
        rows.mapInArrow(stopping(folder, stops), "n bigint")
        .writeStream.format("localqueue")
        .options(**{**source, "queue": "out"}, checkpointLocation=f"{folder}/forward")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def work(spark: Any, source: dict[str, str], folder: str, stops: tuple[int, ...] = ()) -> dict[str, Any]:
    """A handler for every message of a queue, on the executors."""

    def handle(value: dict[str, int]) -> None:
        if value["n"] in stops:
            hold(folder, value["n"])
        with Path(folder, "handled").open("a") as handled:
            handled.write(f"{value['n']}\n")

    done = process(spark, **source, handler=handle, lease_timeout=5.0, prefetch=1)
    return {"processed": done.processed, "attempts": sorted(task.attempt for task in done.tasks)}


def look(spark: Any, **store: str) -> list[tuple[str, str, str]]:
    """What the doctor says."""
    return [(check.name, check.state, check.found) for check in doctor(spark, **store)]


WORK: dict[str, Callable[..., Any]] = {one.__name__: one for one in (read, write, consume, forward, work, look)}


def main(address: str, server: str | None = None) -> None:
    if server is None:
        from pyspark.sql import SparkSession

        spark = register(SparkSession.builder.getOrCreate())
    else:
        spark = session(master=server)
    with Client(address) as asked, suppress(EOFError):
        while True:
            name, arguments = asked.recv()
            try:
                asked.send((True, WORK[name](spark, **arguments)))
            except Exception as error:
                asked.send((False, f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main(*sys.argv[1:])
