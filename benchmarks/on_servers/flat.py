"""Does an operation cost the same on an empty queue and above a million ready messages?

Places with different backlogs are open at the same time and take turns. A turn puts as many as it takes, so that each
backlog stays what it is.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from dataclasses import replace

from harness import Child, Table, verdict
from on_servers.bench import ServerBench, offers
from on_servers.systems import BATCH, RAW
from on_servers.targets import FLAT
from systems import US, System

OPERATIONS = ("put", "lease", "ack", "worker step")


def turn(child: Child, n: int) -> dict[str, float]:
    """Seconds an operation; a worker step is what the worker takes for 50 messages."""
    seconds = {what: child.ask(what, n=n)["seconds"] / n for what in ("put", "lease", "ack")}
    if offers(child, "work_some"):
        child.ask("fill", n=10 * BATCH)
        answer = child.ask("work_some", n=10 * BATCH)
        seconds["worker step"] = answer["seconds"] * BATCH / answer["done"]
    return seconds


def measure(bench: ServerBench, system: System, levels: list[int], n: int, rounds: int) -> Table | None:
    samples: dict[int, dict[str, list[float]]] = {level: {} for level in levels}
    with ExitStack() as stack:
        children: dict[int, Child] = {}
        for level in levels:
            url = stack.enter_context(bench.places.fresh())
            try:
                children[level] = stack.enter_context(bench.opened(system, url))
                children[level].ask("fill", n=level)
                # So that a worker that looks ahead never sees the end of the empty one.
                children[level].ask("fill", n=2 * BATCH)
            except RuntimeError as problem:
                print(f"{system.name} is left out: {problem}", flush=True)
                return None
        for number in range(rounds + 1):
            for level, child in children.items():
                for what, seconds in turn(child, n).items():
                    if number:
                        samples[level].setdefault(what, []).append(seconds)
    medians = {level: {what: statistics.median(values) for what, values in samples[level].items()} for level in levels}
    return table(bench.kind, system, levels, medians)


def table(kind: str, system: System, levels: list[int], medians: dict[int, dict[str, float]]) -> Table:
    columns = ["microseconds each", *(f"{level:,} ready" for level in levels), "last : first", f"at most {FLAT}"]
    rows = []
    for what in OPERATIONS:
        if what not in medians[levels[0]]:
            continue
        cost = [medians[level][what] for level in levels]
        share = cost[-1] / cost[0]
        rows.append([what, *(f"{value * 1e6:,.0f}" for value in cost), f"{share:.2f}", verdict(share <= FLAT)])
    return Table(f"{kind}: {system.name}, cost against backlog", columns, rows, {"medians": medians})


def run(bench: ServerBench, wanted: set[str]) -> list[Table]:
    n, rounds = (100, 3) if bench.quick else (300, 15)
    levels = [0, 50_000] if bench.quick else [0, 100_000, 1_000_000]
    systems = [replace(us, options={"prefetch": BATCH}) for us in bench.pick(US)] + bench.pick(RAW)
    tables = [measure(bench, system, levels, n, rounds) for system in systems]
    return [table for table in tables if table is not None]
