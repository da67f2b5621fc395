"""The data pipeline over a shop's evening: from the journal of a queue to tables, a report and a second chance.

    python examples/pipeline.py [--orders 8000] [--path FOLDER]

Everything is on one SQLite file and needs no server. The shop (`examples/shop.py`) leaves a history with retries and
dead letters. Spark archives it, measures it, groups what failed, and hands the orders that deserve it back to the
workers, exactly once each.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import shop
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from localqueue import PersistentQueue, SQLiteQueueStore
from localqueue.spark import archive, process, replay, report, session, triage

STARTED = time.monotonic()


def say(text: str) -> None:
    print(f"  {time.monotonic() - STARTED:5.1f} s  {text}", flush=True)


@contextmanager
def quietly(log: Path) -> Iterator[None]:
    """What is started in this block writes its stderr to a file: Spark has much to say that nobody needs."""
    sys.stderr.flush()
    saved = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def step(title: str) -> None:
    print(f"\n{title}", flush=True)


def show(frame: Any, count: int = 6) -> None:
    for line in frame.limit(count).toPandas().to_string(index=False).splitlines():
        print(f"           {line}", flush=True)


def revenue(spark: SparkSession, url: str, folder: Path) -> Any:
    """A stream of the orders that were put, into a table; it can be stopped and started anywhere."""
    stream = (
        spark.readStream.format("localqueue")
        .options(url=url, queue="orders", mode="subscribe")
        .schema("order_id long, customer string, city string, product string, amount double, _created_at timestamp")
        .load()
    )
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(folder / "orders"))
        .option("checkpointLocation", str(folder / "checkpoints" / "orders"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.read.parquet(str(folder / "orders"))


def refused(value: dict[str, Any]) -> None:
    """The cards that were declined are accepted now: somebody called the bank."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", type=Path, default=Path("demo-output"), help="where the files go; replaced each time")
    parser.add_argument("--orders", type=int, default=6000)
    arguments = parser.parse_args()
    folder = arguments.path.absolute()
    if folder.exists() and not (folder / "shop.db").exists() and any(folder.iterdir()):
        sys.exit(f"{folder} holds something else; give another folder with --path")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    url = f"sqlite:///{folder}/shop.db"

    step("An evening at the shop: orders arrive, workers charge and ship them, services fail")
    shop.evening(folder / "shop.db", orders=arguments.orders, say=say)

    step("Spark over the journal")
    with quietly(folder / "spark.log"):
        spark = session("demo", master="local[*]")
    say(f"Spark {spark.version} is up")
    say(str(archive(spark, url=url, path=folder / "archive")))
    made = report(spark, events=folder / "archive", html=folder / "report.html", title="An evening at the shop")
    for line in made.summary.splitlines():
        print(f"           {line}")

    step("A table that follows the queue: every order, with its fields as columns")
    orders = revenue(spark, url, folder)
    in_table = orders.select("order_id").distinct().count()
    say(f"{in_table:,} orders in a Parquet table")
    cities = orders.groupBy("city").agg(F.count("*").alias("orders"), F.round(F.sum("amount"), 2).alias("revenue"))
    show(cities.orderBy(F.desc("revenue")), 3)

    step("What failed for good, by the shape of the error")
    for queue in ("shipping", "orders"):
        say(f"dead letters of queue {queue!r}")
        show(triage(spark, url=url, queue=queue).groups().select("shape", "count"))

    step("A second chance: the declined cards go back, and Spark's executors are the workers")
    where, declined = "last_error.type = 'ValueError'", triage(spark, url=url, queue="orders")
    say(str(declined.replay(where=where, dry_run=True)))
    say(str(declined.replay(where=where)))
    done = process(spark, url=url, queue="orders", handler=refused, workers=2)
    say(f"{done.processed:,} processed by {len(done.tasks)} tasks")

    step("What if the first orders had to be done again?")
    say(str(replay(spark, source=folder / "archive", url=url, queue="orders", to="again", to_seq=400, dry_run=True)))
    say(str(replay(spark, source=folder / "archive", url=url, queue="orders", to="again", to_seq=400)))
    say(str(replay(spark, source=folder / "archive", url=url, queue="orders", to="again", to_seq=400)))

    with SQLiteQueueStore(folder / "shop.db") as store:
        journal = store.journal_span()[1]
        left = {name: PersistentQueue(name, store=store).stats() for name in ("orders", "shipping")}
    spark.stop()
    step("Summary")
    facts = [
        ("orders in the table", arguments.orders, in_table),
        ("orders left in the queue", 0, left["orders"].total - left["orders"].dead),
        ("parcels left in the queue", 0, left["shipping"].total - left["shipping"].dead),
    ]
    say(f"{journal:,} journal entries")
    print(f"  {'':<28} {'expected':>9} {'found':>9}")
    for what, expected, found in facts:
        print(f"  {what:<28} {expected:>9,} {found:>9,}{'' if expected == found else '   <- wrong'}")
    print(f"\nThe report: {folder / 'report.html'}")
    if any(expected != found for _, expected, found in facts):
        sys.exit("Something is wrong: see the lines marked above.")


if __name__ == "__main__":
    main()
