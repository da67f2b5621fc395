"""Writing into a queue: the atomic sink and the direct one, beside the store's own fastest way."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator

from harness import Table
from localqueue import PersistentQueue
from localqueue.stores.url import open_store
from on_spark.bench import Bench


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
        {"executemany": executemany, "localqueue": into_sqlite},
        {"localqueue": ["executemany"]},
    )

    def emptied(work: Callable[[], None]) -> Callable[[], float | None]:
        def run() -> float:
            import time

            begun = time.perf_counter()
            work()
            seconds = time.perf_counter() - begun
            with open_store(bench.postgres) as store:
                PersistentQueue("sink", store=store).purge()
            return seconds

        return run

    yield bench.table(
        f"Writing {bench.rows:,} messages into PostgreSQL",
        {
            "two COPYs": lambda: copies(bench),
            "localqueue, direct": emptied(lambda: sink(bench.postgres, "sink", delivery="direct")),
            "localqueue, atomic": emptied(lambda: sink(bench.postgres, "sink")),
        },
        {"localqueue, direct": ["two COPYs"], "localqueue, atomic": ["two COPYs"]},
    )


def copies(bench: Bench) -> None:
    """Two connections at the same time, each with half of the rows, into a plain table."""
    import psycopg

    with psycopg.connect(bench.postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS raw_copy")
        connection.execute("CREATE TABLE raw_copy (id bigserial PRIMARY KEY, payload text NOT NULL)")

    def half(start: int) -> None:
        with (
            psycopg.connect(bench.postgres) as connection,
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
