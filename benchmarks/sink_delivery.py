"""What the driver's commit of Spark's sink costs without Spark: staged rows into a SQLite queue.

python benchmarks/sink_delivery.py [--rows 300000] [--rounds 3] [--delivery atomic|steps]

For plain rows and rows with keys: seconds, also of the processor, beside `executemany` of the same texts into a table;
and the longest that another process had to wait for its put meanwhile.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

from localqueue import SQLiteQueueStore
from localqueue.spark.sink import staged_rows
from localqueue.spark.sink.delivery import deliver_staged, step_of
from localqueue.spark.sink.target import Target

BATCH = 10_000
KEYS: dict[str, Callable[[int], dict[str, str]]] = {
    "plain": lambda n: {},
    "dedupe keys": lambda n: {"dedupe_key": f"order-{n}"},
    "ordering keys, 100 of each": lambda n: {"ordering_key": f"customer-{n // 100}"},
    "both keys": lambda n: {"dedupe_key": f"order-{n}", "ordering_key": f"customer-{n // 10}"},
}


def texts(rows: int) -> list[str]:
    return [f'{{"n": {n}, "text": "{n * 7919 % 1000003:0>160}"}}' for n in range(rows)]


def batches(values: list[str], kind: str) -> Iterator[Any]:
    for start in range(0, len(values), BATCH):
        part = values[start : start + BATCH]
        keys = [KEYS[kind](n) for n in range(start, start + len(part))]
        yield pa.record_batch({"value": part} | {name: [one[name] for one in keys] for name in keys[0]})


def executemany(folder: Path, values: list[str]) -> tuple[float, float]:
    connection = sqlite3.connect(folder / "raw.db")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, payload TEXT NOT NULL)")
    began, cpu = time.perf_counter(), time.process_time()
    with connection:
        connection.executemany("INSERT INTO messages (payload) VALUES (?)", zip(values, strict=True))
    taken = time.perf_counter() - began, time.process_time() - cpu
    connection.close()
    return taken


def put_meanwhile(path: str, ends: Connection) -> None:
    """Put one message after the other; the longest that one of them took."""
    longest = 0.0
    with SQLiteQueueStore(path, timeout=300.0) as store:
        ends.send("ready")
        while not ends.poll(0.01):
            began = time.perf_counter()
            store.put_one("other", "1", None)
            longest = max(longest, time.perf_counter() - began)
    ends.send(longest)


def deliver(folder: Path, values: list[str], kind: str, delivery: str) -> dict[str, float]:
    path = str(folder / "queue.db")
    with SQLiteQueueStore(path) as store:
        chunks = staged_rows.stage(store, "bench:0", batches(values, kind))
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        other = multiprocessing.get_context("spawn").Process(target=put_meanwhile, args=(path, theirs))
        other.start()
        ours.recv()
        began, cpu = time.perf_counter(), time.process_time()
        deliver_staged(
            store, key="bench", batch=0, chunks=chunks, target=Target(queue="jobs"), step=step_of("sqlite", delivery)
        )
        taken = time.perf_counter() - began, time.process_time() - cpu
        ours.send("end")
        waited = ours.recv()
        other.join()
    return {"seconds": taken[0], "cpu": taken[1], "waited": waited}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delivery", choices=("atomic", "steps"), default="atomic")
    given = parser.parse_args()
    values = texts(given.rows)
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in KEYS}
    for _ in range(given.rounds):
        for kind in KEYS:
            with tempfile.TemporaryDirectory() as folder:
                seconds, cpu = executemany(Path(folder), values)
                done = deliver(Path(folder), values, kind, given.delivery)
            found[kind].append(done | {"ratio": seconds / done["seconds"], "cpu ratio": cpu / done["cpu"]})
    print(f"{given.rows:,} rows, {given.delivery}, medians of {given.rounds}\n")
    print(f"{'':28}{'seconds':>9}{'cpu':>7}{'of executemany':>16}{'by cpu':>8}{'others waited':>15}")
    for kind, rounds in found.items():
        of = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        print(
            f"{kind:28}{of['seconds']:9.2f}{of['cpu']:7.2f}{of['ratio']:16.2f}{of['cpu ratio']:8.2f}"
            f"{of['waited']:13.2f} s"
        )


if __name__ == "__main__":
    main()
