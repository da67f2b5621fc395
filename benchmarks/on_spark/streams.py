"""Streams: subscribe and consume over the same messages, and how long one message takes through an idle stream."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

from harness import Table
from localqueue import PersistentQueue
from localqueue.stores.url import open_store
from on_spark.bench import Bench
from on_spark.reads import fill


def drain(bench: Bench, url: str, checkpoint: str, **options: str) -> None:
    stream = bench.spark.readStream.format("localqueue").options(url=url, queue="orders", **options).load()
    query = (
        stream.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    )
    query.awaitTermination()


def run(bench: Bench) -> Iterator[Table]:
    def filled(*, journal: bool = True, **options: str) -> float:
        with bench.fresh() as folder:
            url = f"sqlite:///{folder}/stream.db"
            with open_store(url) as store:
                if journal:
                    store.enable_journal()
            fill(url, bench)
            begun = time.perf_counter()
            drain(bench, url, str(folder / "checkpoint"), maxOffsetsPerTrigger="50000", **options)
            return time.perf_counter() - begun

    yield bench.table(
        f"A stream over {bench.rows:,} messages on SQLite, 50,000 a batch",
        {
            "subscribe": lambda: filled(mode="subscribe"),
            "consume": lambda: filled(mode="consume", consumer="bench", journal=False),
            "consume, journal on": lambda: filled(mode="consume", consumer="bench"),
        },
        {"consume": ["subscribe"], "consume, journal on": ["subscribe"]},
    )
    yield tiny(bench)


def tiny(bench: Bench, count: int = 20) -> Table:
    """From the put of one message to its row in foreachBatch, with nothing else going on."""
    rows, data = [], {}
    for mode in ("subscribe", "consume"):
        seconds = _tiny(bench, mode, count)
        p50, p90 = statistics.median(seconds), statistics.quantiles(seconds, n=10)[-1]
        rows.append([mode, f"{p50 * 1000:.0f} ms", f"{p90 * 1000:.0f} ms"])
        data[mode] = {"p50": p50, "p90": p90}
    return Table(
        "One message through an idle stream (SQLite, trigger as fast as it can)", ["", "p50", "p90"], rows, data
    )


def _tiny(bench: Bench, mode: str, count: int) -> list[float]:
    arrived = threading.Event()

    def batch(frame: Any, _: int) -> None:
        if frame.count():
            arrived.set()

    with bench.fresh() as folder, open_store(f"sqlite:///{folder}/tiny.db") as store:
        store.enable_journal()
        queue: PersistentQueue[Any] = PersistentQueue("orders", store=store)
        options = {"mode": mode, **({"consumer": "bench"} if mode == "consume" else {})}
        stream = bench.spark.readStream.format("localqueue").options(
            url=f"sqlite:///{folder}/tiny.db", queue="orders", **options
        )
        query = (
            stream.load()
            .writeStream.foreachBatch(batch)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        seconds = []
        for turn in range(count + 3):
            arrived.clear()
            begun = time.perf_counter()
            queue.put({"turn": turn})
            if not arrived.wait(120):
                raise TimeoutError("the stream did not deliver a message")
            if turn >= 3:
                seconds.append(time.perf_counter() - begun)
        query.stop()
        return seconds
