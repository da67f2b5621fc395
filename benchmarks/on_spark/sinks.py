"""Writing into a queue: the atomic sink and the direct one, beside the store's own fastest way, and beside the same
messages put from memory, without Spark: the most that a sink could reach."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator

from harness import Table
from localqueue import PersistentQueue
from localqueue.stores.port import Page
from localqueue.stores.url import open_store
from on_spark.bench import Bench

PAGE = 20_000


def run(bench: Bench) -> Iterator[Table]:
    spark = bench.spark
    source = str(bench.folder / "rows")
    bench.spark.createDataFrame([(value,) for value in bench.values], "value string").repartition(2).write.parquet(
        source
    )

    def sink(url: str, queue: str, **options: str) -> None:
        frame = spark.read.parquet(source)
        frame.write.format("localqueue").options(url=url, queue=queue, **options).mode("append").save()

    def into_sqlite() -> None:
        with bench.fresh() as folder:
            sink(f"sqlite:///{folder}/out.db", "out")

    def without_spark(url: str) -> None:
        with open_store(url) as store:
            store.put_pages([Page(bench.values[start : start + PAGE], "out") for start in range(0, bench.rows, PAGE)])

    def into_sqlite_without_spark() -> None:
        with bench.fresh() as folder:
            without_spark(f"sqlite:///{folder}/out.db")

    def executemany() -> None:
        with bench.fresh() as folder:
            connection = sqlite3.connect(folder / "raw.db")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, payload TEXT NOT NULL)")
            with connection:
                connection.executemany("INSERT INTO messages (payload) VALUES (?)", zip(bench.values))
            connection.close()

    yield bench.table(
        f"Writing {bench.rows:,} messages into SQLite",
        {"executemany": executemany, "localqueue": into_sqlite, "localqueue, no Spark": into_sqlite_without_spark},
        {"localqueue": ["executemany"], "localqueue, no Spark": ["executemany"]},
    )

    def into(work: Callable[[str], None], prepare: Callable[[str], None]) -> Callable[[], float | None]:
        def run() -> float:
            with bench.fresh_database() as url:
                prepare(url)
                begun = time.perf_counter()
                work(url)
                return time.perf_counter() - begun

        return run

    yield bench.table(
        f"Writing {bench.rows:,} messages into PostgreSQL",
        {
            "two COPYs": into(lambda url: copies(bench, url), new_table),
            "localqueue, direct": into(lambda url: sink(url, "out", delivery="direct"), new_queue),
            "localqueue, atomic": into(lambda url: sink(url, "out"), new_queue),
            "localqueue, no Spark": into(without_spark, new_queue),
        },
        {f"localqueue, {how}": ["two COPYs"] for how in ("direct", "atomic", "no Spark")},
    )


def new_queue(url: str) -> None:
    with open_store(url) as store:
        PersistentQueue("out", store=store)


def new_table(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE raw_copy (id bigserial PRIMARY KEY, payload text NOT NULL)")


def copies(bench: Bench, url: str) -> None:
    """Two connections at the same time, each with half of the rows, into a plain table."""
    import psycopg

    def half(start: int) -> None:
        with (
            psycopg.connect(url) as connection,
            connection.cursor() as cursor,
            cursor.copy("COPY raw_copy (payload) FROM STDIN") as copy,
        ):
            for value in bench.values[start::2]:
                copy.write_row((value,))

    threads = [threading.Thread(target=half, args=(start,)) for start in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
