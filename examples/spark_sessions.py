"""Shopping sessions out of a stream of messages: a window that closes when a customer is quiet for a while.

    python examples/spark_sessions.py

Clicks are put on a queue, and workers may handle them as they like: the stream follows the journal and touches nothing.
Spark keeps the open sessions as its state, in the checkpoint, so the job can be stopped and started at any time. A
session is written when the watermark has passed its end: exactly once, also after a crash.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from localqueue import PersistentQueue, SQLiteQueueStore
from localqueue.spark import session

START = 1_767_225_600  # 2026-01-01


def put_clicks(store: SQLiteQueueStore, customers: int = 40) -> int:
    """Three visits of each customer, hours apart; the number of clicks."""
    rng = random.Random(5)
    clicks = []
    for customer in range(customers):
        for visit in range(3):
            at = START + visit * 4 * 3600 + customer * 60
            for _ in range(rng.randint(2, 9)):
                clicks.append({"customer": f"c{customer}", "page": rng.choice(["lamp", "chair", "cart"]), "at": at})
                at += rng.randint(5, 240)
    clicks.append({"customer": "closing-time", "page": "none", "at": START + 24 * 3600})  # moves the watermark on
    clicks.sort(key=lambda click: click["at"])
    PersistentQueue("clicks", store=store).put_many(clicks)
    return len(clicks)


def sessions(spark: SparkSession, url: str) -> DataFrame:
    """One row a visit: from the first click to ten minutes after the last."""
    clicks = (
        spark.readStream.format("localqueue")
        .options(url=url, queue="clicks", mode="subscribe", maxOffsetsPerTrigger="200")
        .schema("customer string, page string, at long")
        .load()
        .withColumn("at", F.col("at").cast("timestamp"))
    )
    return (
        clicks.withWatermark("at", "30 minutes")
        .groupBy("customer", F.session_window("at", "10 minutes").alias("visit"))
        .agg(F.count("*").alias("clicks"), F.max(F.col("page") == "cart").alias("bought"))
        .select("customer", "visit.start", "visit.end", "clicks", "bought")
    )


def run(spark: SparkSession, url: str, folder: Path) -> DataFrame:
    query = (
        sessions(spark, url)
        .writeStream.format("parquet")
        .option("path", str(folder / "sessions"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.read.parquet(str(folder / "sessions"))


def main() -> None:
    spark = session("sessions")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with SQLiteQueueStore(folder / "clicks.db") as store:
            store.enable_journal()
            count = put_clicks(store)
        found = run(spark, f"sqlite:///{folder}/clicks.db", folder)
        print(f"{count} clicks, {found.count()} sessions")
        found.orderBy(F.desc("clicks")).show(5, truncate=False)
    spark.stop()


if __name__ == "__main__":
    main()
