"""Beside Spark's Kafka source and sink and the MongoDB connector: a batch written, read, and drained as a stream.

Jars of connectors are taken from the folder that LOCALQUEUE_BENCH_JARS names; a connector without jars is left out. All
servers have their defaults and are on this machine, with a topic of two partitions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from harness import Table
from on_spark.bench import CORES, ROOT, Bench, connector_jars, noop

sys.path.insert(0, str(ROOT))


def run(bench: Bench) -> Iterator[Table]:
    from tests.broker_servers import Kafka
    from tests.servers import MongoDB, shared

    spark = bench.spark
    rows = spark.createDataFrame([(value,) for value in bench.values], "value string").repartition(CORES).cache()
    rows.count()
    names = " ".join(connector_jars())
    places: dict[str, tuple[Any, Any]] = {}
    if "kafka" in names:
        places["Kafka"] = kafka(bench, shared(Kafka))
    if "mongo" in names:
        places["MongoDB"] = mongodb(bench, shared(MongoDB))
    number = 0

    def writing(place: str) -> Callable[[], float]:
        def timed() -> float:
            nonlocal number
            number += 1
            made, begun = places[place][1](rows, f"w{number}"), time.perf_counter()
            made()
            return time.perf_counter() - begun

        return timed

    places["localqueue, SQLite"] = ours(bench, lambda: f"sqlite:///{bench.folder}/connectors-{number}.db")
    places["localqueue, PostgreSQL"] = ours(bench, lambda: bench.postgres)
    beside = [name for name in places if not name.startswith("localqueue")]
    against = {name: beside for name in places if name.startswith("localqueue")}
    yield bench.table(f"Writing {bench.rows:,} messages by Spark", {name: writing(name) for name in places}, against)
    queues = {}
    for name, (_, write) in places.items():
        number += 1
        queues[name] = (number, f"w{number}")
        write(rows, f"w{number}")()

    def reading(place: str, stream: bool) -> Callable[[], None]:
        def read() -> None:
            nonlocal number
            number = queues[place][0]
            places[place][0](queues[place][1], stream)

        return read

    yield bench.table(
        f"Reading {bench.rows:,} messages by Spark", {name: reading(name, False) for name in places}, against
    )
    streams = {name: reading(name, True) for name in places if name != "MongoDB"}
    yield bench.table(
        f"{bench.rows:,} messages as a stream, 50,000 a batch, availableNow",
        streams,
        {name: [one for one in beside if one in streams] for name in against},
    )


def drain(bench: Bench, stream: Any) -> None:
    with bench.fresh() as folder:
        query = stream.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()


def kafka(bench: Bench, server: Any) -> tuple[Any, Any]:
    from confluent_kafka.admin import AdminClient, NewTopic

    spark = bench.spark
    at = {"kafka.bootstrap.servers": f"127.0.0.1:{server.port}"}
    admin = AdminClient({"bootstrap.servers": at["kafka.bootstrap.servers"]})

    def read(topic: str, stream: bool) -> None:
        reader = (spark.readStream if stream else spark.read).format("kafka").options(**at, subscribe=topic)
        reader = reader.option("startingOffsets", "earliest")
        if stream:
            drain(bench, reader.option("maxOffsetsPerTrigger", 50_000).load())
        else:
            noop(reader.load())

    def write(rows: Any, topic: str) -> Callable[[], None]:
        for done in admin.create_topics([NewTopic(topic, CORES, 1)]).values():
            done.result()
        return lambda: rows.write.format("kafka").options(**at, topic=topic).save()

    return read, write


def mongodb(bench: Bench, server: Any) -> tuple[Any, Any]:
    spark = bench.spark
    at = {"connection.uri": server.url.split("?")[0], "database": "bench"}

    def read(name: str, stream: bool) -> None:
        noop(spark.read.format("mongodb").options(**at, collection=name).load())

    def write(rows: Any, name: str) -> Callable[[], None]:
        return lambda: rows.write.format("mongodb").options(**at, collection=name).mode("append").save()

    return read, write


def ours(bench: Bench, url: Callable[[], str]) -> tuple[Any, Any]:
    from localqueue.stores.url import open_store

    spark = bench.spark

    def read(queue: str, stream: bool) -> None:
        reader = (
            (spark.readStream if stream else spark.read)
            .format("localqueue")
            .options(url=url(), queue=queue, namespace=queue)
        )
        if stream:
            reader = reader.options(mode="subscribe", maxOffsetsPerTrigger="50000")
            drain(bench, reader.load())
        else:
            noop(reader.load())

    def write(rows: Any, queue: str) -> Callable[[], None]:
        at = url()
        with open_store(at, namespace=queue) as store:
            store.enable_journal()
        return lambda: (
            rows.write.format("localqueue").options(url=at, queue=queue, namespace=queue).mode("append").save()
        )

    return read, write
