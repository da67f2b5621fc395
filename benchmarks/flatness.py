"""Does an operation cost the same on an empty queue and above a million ready messages?

Files with different backlogs are open at the same time and take turns. A turn puts, leases and
acks the same number of messages, so that each backlog stays what it is.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack

from harness import Bench, Child, Table
from systems import RAW, US, System

OPERATIONS = ["put", "bounded put", "lease", "ack", "qsize", "stats"]
PEER = "localqueue 1.4.1"


def turn(child: Child, bounded: Child | None, n: int, calls: int) -> dict[str, float]:
    """Seconds an operation, for each that the queue has."""
    seconds = {what: child.ask(what, n=n)["seconds"] / n for what in ("put", "lease", "ack")}
    for method in ("qsize", "stats"):
        if child.ask("offers", names=[method])["offers"]:
            seconds[method] = child.ask("call", name=method, n=calls)["seconds"] / calls
    if bounded is not None:
        seconds["bounded put"] = bounded.ask("put", n=n)["seconds"] / n
        bounded.ask("lease", n=n)
        bounded.ask("ack", n=n)
    return seconds


def measure(bench: Bench, system: System, levels: list[int], n: int, rounds: int) -> Table:
    can_bound = system.name != RAW
    samples: dict[int, dict[str, list[float]]] = {level: {} for level in levels}
    with ExitStack() as stack:
        pairs: dict[int, tuple[Child, Child | None]] = {}
        for level in levels:
            child, bounded = stack.enter_context(bench.children([system, system]))
            path = stack.enter_context(bench.fresh_directory())
            bench.open(child, path)
            child.ask("fill", n=level)
            child.ask("close")  # so that the log of the filling is not checkpointed in a turn
            bench.open(child, path, first=level)
            if can_bound:
                bench.open(bounded, path, maxsize=10 * levels[-1])
            pairs[level] = (child, bounded if can_bound else None)
        for number in range(rounds + 1):
            for level, (child, bounded) in pairs.items():
                for what, seconds in turn(child, bounded, n, calls=20).items():
                    if number:
                        samples[level].setdefault(what, []).append(seconds)
    medians = {level: {what: statistics.median(values) for what, values in samples[level].items()} for level in levels}
    return table(system, levels, medians)


def table(system: System, levels: list[int], medians: dict[int, dict[str, float]]) -> Table:
    columns = ["microseconds each", *(f"{level:,} ready" for level in levels), "last : first"]
    rows = []
    for what in OPERATIONS:
        if what not in medians[levels[0]]:
            continue
        cost = [medians[level][what] for level in levels]
        rows.append([what, *(f"{value * 1e6:,.1f}" for value in cost), f"{cost[-1] / cost[0]:.2f}"])
    return Table(f"{system.name}: cost against backlog", columns, rows, {"medians": medians})


def run(bench: Bench) -> list[Table]:
    n, rounds = (200, 7) if bench.quick else (300, 21)
    levels = [0, 10_000, 100_000] if bench.quick else [0, 10_000, 100_000, 1_000_000]
    tables = [measure(bench, system, levels, n, rounds) for system in bench.pick(US, RAW)]
    for system in bench.pick(PEER):
        # Its lease reads the whole backlog: a few rounds up to 100,000 tell the story.
        tables.append(measure(bench, system, [0, 10_000, 100_000], 20, 3))
    return tables
