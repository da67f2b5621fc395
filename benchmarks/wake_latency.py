"""From put in one process to a blocked get in another, with no notification configured."""

from __future__ import annotations

from harness import Bench, Table, percentile
from systems import US

PEERS = ("localqueue 1.4.1", "localqueue 0.5.0")


def run(bench: Bench) -> list[Table]:
    n = 60 if bench.quick else 300
    rows, data = [], {}
    for system in bench.pick(US, *PEERS):
        with (
            bench.fresh_directory() as path,
            bench.children([system, system]) as (producer, consumer),
        ):
            bench.open(producer, path)
            bench.open(consumer, path)
            consumer.send("receive_stamped", n=n)
            # An odd pause, so that the puts do not fall in step with anybody's polling.
            producer.ask("put_stamped", n=n, pause=0.0237)
            laps = consumer.answer()["laps"]
            producer.ask("close")
            consumer.ask("close")
        figures = {"p50": percentile(laps, 50), "p99": percentile(laps, 99), "max": max(laps)}
        rows.append([system.name, *(f"{value * 1000:.2f} ms" for value in figures.values())])
        data[system.name] = figures
    return [Table("put to blocked get in another process", ["", "p50", "p99", "max"], rows, data)]
