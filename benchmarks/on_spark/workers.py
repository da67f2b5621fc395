"""Handlers on Spark's executors, beside the same number of plain worker processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from harness import Table
from localqueue.spark import process
from localqueue.stores.url import open_store
from on_spark.bench import CORES, Bench, python

ROWS = 40_000

PLAIN = """
import sys
from localqueue import PersistentQueue, Worker
from localqueue.stores.url import open_store
with open_store(sys.argv[1]) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    Worker(PersistentQueue("orders", store=store), lambda value: None, prefetch=50).run_until_empty()
"""


def handle(value: Any) -> None:
    pass


def run(bench: Bench) -> Iterator[Table]:
    rows, bench.rows = bench.rows, min(ROWS, bench.rows)
    values = bench.values[: bench.rows]

    def filled(url: str) -> None:
        with open_store(url) as store:
            store.put_batch("orders", values, None)

    def plain() -> float:
        with bench.fresh() as folder:
            url = f"sqlite:///{folder}/work.db"
            filled(url)
            children = [python(PLAIN, url) for _ in range(CORES)]
            for child in children:
                assert child.stdout is not None
                child.stdout.readline()
            begun = time.perf_counter()
            for child in children:
                child.communicate(b"go\n")
            return time.perf_counter() - begun

    def spark() -> float:
        with bench.fresh() as folder:
            url = f"sqlite:///{folder}/work.db"
            filled(url)
            begun = time.perf_counter()
            done = process(bench.spark, url=url, queue="orders", handler=handle, workers=CORES, prefetch=50)
            assert done.processed == bench.rows, done
            return time.perf_counter() - begun

    try:
        yield bench.table(
            f"{CORES} workers over {bench.rows:,} messages, a handler that does nothing (SQLite, prefetch 50)",
            {"plain workers": plain, "process on Spark": spark},
            {"process on Spark": ["plain workers"]},
        )
    finally:
        bench.rows = rows
