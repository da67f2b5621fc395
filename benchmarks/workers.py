"""Each queue's own worker with a handler that does nothing, beside our bare get_message + ack loop."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

from harness import Bench, Child, Samples, Table
from systems import US, System

PEERS = ("localqueue 1.4.1", "persist-queue", "huey")
LOOP = f"{US}, get_message + ack"
WORKER = f"{US} Worker"
BATCH = f"{US} Worker, prefetch=50"

VARIANTS: dict[str, dict[str, Any]] = {
    WORKER: {},
    BATCH: {"prefetch": 50},
    f"{US} Worker, 4 threads, prefetch=50": {"concurrency": 4, "prefetch": 50},
    f"{US} AsyncWorker": {"asynchronous": True},
    f"{US} AsyncWorker, prefetch=50": {"asynchronous": True, "prefetch": 50},
}


def systems(bench: Bench) -> list[System]:
    ours = [
        replace(us, name=name, options={**us.options, **options})
        for us in bench.pick(US)
        for name, options in {LOOP: {}, **VARIANTS}.items()
    ]
    return ours + bench.pick(*PEERS)


def run(bench: Bench) -> list[Table]:
    n, rounds = (1000, 5) if bench.quick else (2000, 15)

    def measure(child: Child) -> dict[str, float]:
        child.ask("fill", n=n)
        verb = "get_ack" if child.system.name == LOOP else "work"
        return {"rate": n / child.ask(verb, n=n)["seconds"]}

    samples = bench.interleave(systems(bench), measure, rounds=rounds)["rate"]
    bases = [base for base in (LOOP, *PEERS) if base in samples]
    rows, data = [], {}
    for name in sorted(samples, key=lambda name: -statistics.median(samples[name])):
        median = statistics.median(samples[name])
        ratios = {base: ratio(samples, name, base) for base in bases}
        rows.append([name, f"{median:,.0f}", *(f"{value:.2f}" for value in ratios.values())])
        data[name] = {"per_second": median, "of": ratios}
    columns = ["", "a second", *("of the loop" if base == LOOP else f"of {base}" for base in bases)]
    note = "persist-queue and huey sync every commit; huey deletes on get and has nothing to acknowledge"
    return [Table(f"workers, a handler that does nothing (backlog {n} down to 0)", columns, rows, data, note)]


def ratio(samples: Samples, name: str, base: str) -> float:
    """The median of the ratios of each round."""
    return statistics.median(ours / theirs for ours, theirs in zip(samples[name], samples[base], strict=True))
