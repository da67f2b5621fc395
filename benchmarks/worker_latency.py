"""From put in one thread to the start of a handler in another thread, or on an event loop in it."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

from harness import Bench, Child, Table, percentile
from systems import RAW_SAME, US

PEERS = ("localqueue 1.4.1", "persist-queue", "huey")
VARIANTS: dict[str, dict[str, Any]] = {
    "Worker, InProcessNotification": {"notification": "thread"},
    "Worker, nothing configured": {},
    "AsyncWorker, InProcessNotification": {"notification": "thread", "asynchronous": True},
    "AsyncWorker, AsyncNotification": {"notification": "asyncio", "asynchronous": True},
    "AsyncWorker, nothing configured": {"asynchronous": True},
}


def run(bench: Bench) -> list[Table]:
    n, rounds = (40, 3) if bench.quick else (100, 9)
    systems = [
        replace(us, name=f"{US} {name}", options={**us.options, **options})
        for us in bench.pick(US)
        for name, options in VARIANTS.items()
    ]

    def measure(child: Child) -> dict[str, float]:
        # An odd pause, so that the puts do not fall in step with anybody's polling.
        answer = child.ask("put_to_handler", n=n, pause=0.0237)
        laps, puts = answer["laps"], answer["puts"]
        return {
            "p50": percentile(laps, 50),
            "p99": percentile(laps, 99),
            "max": max(laps),
            "put": percentile(puts, 50),
            "after": percentile([lap - put for lap, put in zip(laps, puts, strict=True)], 50),
        }

    samples = bench.interleave(systems + bench.pick(RAW_SAME, *PEERS), measure, rounds=rounds)
    rows, data = [], {}
    for name in samples["p50"]:
        figures = {what: statistics.median(samples[what][name]) for what in samples}
        rows.append([name, *(f"{value * 1000:.2f} ms" for value in figures.values())])
        data[name] = figures
    return [
        Table(
            "put in one thread to handler start in another",
            ["", "p50", "p99", "max", "the put", "after it"],
            rows,
            data,
            note=f"medians of {rounds} rounds of {n} puts; {RAW_SAME!r} is what put, wake-up and lease take by hand",
        )
    ]
