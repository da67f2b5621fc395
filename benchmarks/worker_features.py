"""What effectively-once, the journal and a hook cost a worker, each beside a worker without it."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness import Bench, Child, Table
from systems import US, System
from workers import ratio

PLAIN = "plain"
PREFETCH = 50


def variants(bench: Bench, options: dict[str, dict[str, Any]]) -> list[System]:
    return [
        replace(us, name=name, options={**us.options, **chosen})
        for us in bench.pick(US)
        for name, chosen in {PLAIN: {}, **options}.items()
    ]


def compare(
    bench: Bench,
    title: str,
    systems: list[System],
    measure: Callable[[Child], dict[str, float]],
    *,
    rounds: int,
) -> Table:
    samples = bench.interleave(systems, measure, rounds=rounds)
    rows, data = [], {}
    for what, rates in samples.items():
        for name in rates:
            median, share = statistics.median(rates[name]), ratio(rates, name, PLAIN)
            rows.append([f"{what}: {name}", f"{median:,.0f}", f"{share:.2f}", f"{1 - share:.0%}"])
            data[f"{what}: {name}"] = {"per_second": median, "of_plain": share}
    return Table(title, ["", "a second", "of plain", "cost"], rows, data)


def run(bench: Bench) -> list[Table]:
    n, rounds = (1000, 5) if bench.quick else (2000, 15)
    once = {"effectively-once": {"once": True}, "results kept": {"once": True, "keep_results": True}}
    extras = {"journal": {"journal": True}, "a hook": {"hook": True}}
    batched = {name: {**options, "prefetch": PREFETCH} for name, options in ({PLAIN: {}} | once).items()}
    batched_extras = {name: {**options, "prefetch": PREFETCH} for name, options in ({PLAIN: {}} | extras).items()}

    def work(child: Child) -> dict[str, float]:
        child.ask("fill", n=n)
        return {"worker": n / child.ask("work", n=n)["seconds"]}

    def put_and_work(child: Child) -> dict[str, float]:
        put, get_ack = child.ask("put", n=n)["seconds"], child.ask("get_ack", n=n)["seconds"]
        put_again, worker = child.ask("put", n=n)["seconds"], child.ask("work", n=n)["seconds"]
        return {
            "put": 2 * n / (put + put_again),
            "get + ack": n / get_ack,
            "put, get, ack": n / (put + get_ack),
            "worker": n / worker,
            "put, worker": n / (put_again + worker),
        }

    def put_and_work_batched(child: Child) -> dict[str, float]:
        put, worker = child.ask("put", n=n)["seconds"], child.ask("work", n=n)["seconds"]
        put_many = child.ask("put_many", n=n, batch=500)["seconds"]
        worker_again = child.ask("work", n=n)["seconds"]
        return {
            "put_many": n / put_many,
            "worker": 2 * n / (worker + worker_again),
            "put, worker": n / (put + worker),
            "put_many, worker": n / (put_many + worker_again),
        }

    def table(title: str, options: dict[str, dict[str, Any]], measure: Callable[[Child], dict[str, float]]) -> Table:
        return compare(bench, title, variants(bench, options), measure, rounds=rounds)

    return [
        table("effectively-once, ledger in the queue's store (prefetch=1)", once, work),
        table(f"effectively-once, ledger in the queue's store (prefetch={PREFETCH})", batched, work),
        table("journal and hooks (prefetch=1)", extras, put_and_work),
        table(f"journal and hooks (prefetch={PREFETCH})", batched_extras, put_and_work_batched),
    ]
