"""What do 20 blocked consumers cost a producer?

They wait on an empty queue of the same file, in 20 threads of one other process and in 20
processes. The producer runs with and without them in turns.
"""

from __future__ import annotations

import statistics
import time

from harness import Bench, Child, Table
from systems import US

WAITERS = 20
PEERS = ("localqueue 1.4.1", "localqueue 0.5.0")


def produce(child: Child, waiting: list[Child], threads: int, n: int) -> float:
    if waiting:
        for waiter in waiting:
            waiter.send("block", seconds=1.5, threads=threads)
        time.sleep(0.4)
    rate = n / float(child.ask("put", n=n)["seconds"])
    for waiter in waiting:
        waiter.answer()
    return rate


def run(bench: Bench) -> list[Table]:
    rounds = 3 if bench.quick else 9
    rows, data = [], {}
    for system in bench.pick(US, *PEERS):
        shape = {"20 threads": (1, WAITERS), "20 processes": (WAITERS, 1)}
        for label, (processes, threads) in shape.items():
            with (
                bench.fresh_directory() as path,
                bench.children([system] * (processes + 1), quiet=True) as children,
            ):
                producer, *waiting = children
                bench.open(producer, path)
                for waiter in waiting:
                    bench.open(waiter, path, queue="idle")
                # As many puts as fit while the consumers are blocked.
                n = int(0.7 * produce(producer, [], 0, 1000))
                pairs = []
                for number in range(rounds + 1):
                    alone = produce(producer, [], 0, n)
                    beside = produce(producer, waiting, threads, n)
                    if number:
                        pairs.append((alone, beside))
                for child in children:
                    child.ask("close")
            cost = 1 - statistics.median(beside / alone for alone, beside in pairs)
            alone, beside = (statistics.median(side) for side in zip(*pairs, strict=True))
            rows.append([system.name, label, f"{alone:,.0f}", f"{beside:,.0f}", f"{cost:.1%}"])
            data[f"{system.name}, {label}"] = {"alone": alone, "beside": beside, "cost": cost}
    columns = ["", "blocked", "puts a second alone", "beside them", "cost"]
    return [Table(f"a producer beside {WAITERS} blocked consumers", columns, rows, data)]
