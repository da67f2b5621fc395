"""Streams into tables of Iceberg and Delta, and views kept in them: the part of `lake_job` that runs queries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from localqueue import PersistentQueue, SQLiteQueueStore
from localqueue.spark import archive, materialise, read_view, replay
from tests.spark.test_jobs_archive import Journal

KEYED = {"key": "k", "schema": "n long"}
COUNTED = "SELECT k, count(*) AS n FROM messages GROUP BY k"


class Orders:
    """A queue of numbers, a table, and the query that consumes the one into the other."""

    def __init__(self, spark: Any, folder: Path, table: str, format: str) -> None:
        self.spark, self.table, self.format = spark, table, format
        self.checkpoint = folder / "checkpoint"
        self.url = f"sqlite:///{folder / 'orders.db'}"
        self.store = SQLiteQueueStore(folder / "orders.db")
        self.queue = PersistentQueue("orders", store=self.store)
        self.put = 0

    def add(self, count: int) -> None:
        self.queue.put_many({"n": n} for n in range(self.put, self.put + count))
        self.put += count

    def start(self, **trigger: Any) -> Any:
        source = self.spark.readStream.format("localqueue").options(url=self.url, queue="orders", mode="consume")
        rows = source.options(consumer="etl", maxOffsetsPerTrigger="20").schema("n long").load()
        writer = rows.writeStream.format(self.format).option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).toTable(self.table)

    def drain(self) -> list[int]:
        query = self.start()
        query.processAllAvailable()
        query.stop()
        return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]

    def one_batch(self) -> None:
        self.start(availableNow=True).awaitTermination()

    def found(self) -> list[int]:
        """Messages that the queue has, rows that the table has, and how many of these are different."""
        self.spark.sql(f"REFRESH TABLE {self.table}")
        numbers = [row["n"] for row in self.spark.table(self.table).collect()]
        return [self.queue.stats().total, len(numbers), len(set(numbers))]


def lose_last_commit(checkpoint: Path) -> None:
    """Leave a checkpoint as it is when Spark dies between the commit of the table and its own."""
    commits = checkpoint / "commits"
    last = max(int(one.name) for one in commits.iterdir() if one.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink()


def consumed(spark: Any, folder: Path, namespace: str, format: str) -> dict[str, Any]:
    orders = Orders(spark, folder, f"{namespace}.order_rows", format)
    found: dict[str, Any] = {}
    orders.add(50)
    found["drained"] = [orders.drain(), orders.found()]
    orders.add(10)
    orders.one_batch()
    found["one batch"] = orders.found()
    lose_last_commit(orders.checkpoint)
    found["without its commit"] = [orders.drain(), orders.found()]
    if format == "iceberg":  # the same for the stream, whatever the table is
        orders.add(10)
        orders.one_batch()
        orders.add(5)
        found["after a commit"] = [orders.drain(), orders.found()]
    orders.store.close()
    return found


def copied(spark: Any, folder: Path) -> list[str]:
    """What a stream that follows the journal has put into another queue."""
    journal = Journal(folder)
    options = {"url": journal.url, "queue": "things", "columns": "value", "maxOffsetsPerTrigger": "2"}
    rows = spark.readStream.format("localqueue").options(**options).load()
    writer = rows.writeStream.format("localqueue").options(url=journal.url, queue="copy")
    query = writer.option("checkpointLocation", str(folder / "copy")).start()
    query.processAllAvailable()
    query.stop()
    copy = spark.read.format("localqueue").options(url=journal.url, queue="copy", columns="value").load()
    return sorted(row["value"] for row in copy.collect())


def materialised(spark: Any, folder: Path, namespace: str, said: Callable[[Callable[[], Any]], str]) -> dict[str, Any]:
    journal = Journal(folder)
    found: dict[str, Any] = {}
    given: dict[str, Any] = {"url": journal.url, "queue": "things"}
    by_key = {**given, **KEYED, "table": f"{namespace}.latest_things", "checkpoint": folder / "latest"}
    counted = {**given, "sql": COUNTED, "schema": "k string", "table": f"{namespace}.n", "checkpoint": folder / "n"}

    def put(**values: str) -> None:
        for key, value in values.items():
            journal.put(value, queue="things", ordering_key=key)

    def rows(given: dict[str, Any], *columns: str) -> list[list[Any]]:
        return sorted([*row] for row in spark.table(given["table"]).select(*columns).collect())

    put(a='{"k":"a","n":1}', b='{"k":"b","n":2}')
    put(a='{"k":"a","n":3}')
    first = materialise(spark, **by_key)
    found["view"] = [first.path, first.format, first.batches > 0, rows(by_key, "key", "n")]
    materialise(spark, **counted)
    put(b='{"k":"b","n":4}', c='{"k":"c","n":5}', a='{"k":"a","n":6,"m":"x"}')
    wider = {**by_key, "schema": "n long, m string"}
    again = materialise(spark, **wider, max_entries=2)
    found["went on"] = [again.batches, rows(by_key, "key", "n", "m")]
    lose_last_commit(folder / "latest" / "_checkpoint")
    found["repeated"] = [materialise(spark, **wider).batches, rows(by_key, "key", "n", "m")]
    materialise(spark, **counted)
    found["counted"] = rows(counted, "k", "n")
    found["refused"] = [
        said(lambda: materialise(spark, **{**wider, "queue": "jobs"})),
        said(lambda: materialise(spark, **{**wider, "table": f"{namespace}.journal", "checkpoint": folder / "x"})),
        said(lambda: read_view(spark, folder / "n")),
        (folder / "x").exists(),
    ]
    if namespace == "default":  # the rest goes the same ways
        return found
    past = f"{namespace}.past"
    archive(spark, url=journal.url, table=past, prune=True)
    put(c="null")
    anew: dict[str, Any] = {**wider, "key": "ordering_key"}
    found["pruned"] = said(lambda: materialise(spark, **anew, rebuild=True))
    materialise(spark, **anew, rebuild=True, archive=past)
    found["rebuilt"] = rows(by_key, "key", "n")
    window: dict[str, Any] = {"url": journal.url, "queue": "things", "to": "again"}
    found["replayed"] = replay(spark, source=past, **window, where="ordering_key = 'a'").put
    found["no archive"] = said(lambda: replay(spark, source=by_key["table"], **window))
    put(a="null")
    found["removed"] = [materialise(spark, **anew).batches, rows(by_key, "key", "n")]
    spark.sql(f"DROP TABLE {by_key['table']}")
    found["dropped"] = said(lambda: materialise(spark, **anew))
    return found
