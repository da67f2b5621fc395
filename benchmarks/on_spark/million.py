"""A whole pipeline, end to end and once: ingest, process, archive, report, replay."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from harness import Table
from localqueue import PersistentQueue
from localqueue.spark import archive, ingest, process, replay, report
from localqueue.stores.url import open_store
from on_spark.bench import CORES, Bench


def handle(value: Any) -> None:
    if value["order_id"] % 1000 == 7:
        raise ValueError(f"order {value['order_id']} has no address")


def run(bench: Bench) -> Iterator[Table]:
    spark, rows, data = bench.spark, [], {}
    with bench.fresh() as folder:
        url = f"sqlite:///{folder}/million.db"
        with open_store(url) as store:
            store.enable_journal()
        source = folder / "orders"
        spark.createDataFrame([(value,) for value in bench.values], "value string").write.parquet(str(source))

        def step(name: str, work: Callable[[], Any]) -> Any:
            begun = time.perf_counter()
            found = work()
            seconds = time.perf_counter() - begun
            rows.append([name, f"{seconds:.1f} s", f"{bench.rows / seconds:,.0f} messages/s", str(found)[:90]])
            data[name] = seconds
            print(f"  {name}: {seconds:.1f} s  {found}", flush=True)
            return found

        def processed() -> str:
            done = process(spark, url=url, queue="orders", handler=handle, workers=CORES, max_tries=1, prefetch=100)
            return f"{done.processed:,} processed, {done.dead_lettered:,} dead letters"

        def reported() -> str:
            return report(spark, events=folder / "archive", html=folder / "report.html").summary.splitlines()[0]

        step("ingest", lambda: ingest(spark, source, url=url, queue="orders", value="value"))
        step("process", processed)
        step("archive", lambda: archive(spark, url=url, path=folder / "archive"))
        step("report", reported)
        step("replay", lambda: replay(spark, source=folder / "archive", url=url, queue="orders", to="again"))
        with open_store(url) as store:
            again = PersistentQueue("again", store=store).qsize()
        assert again == bench.rows, again
    yield Table(f"A pipeline over {bench.rows:,} messages on SQLite", ["", "time", "rate", "result"], rows, data)
