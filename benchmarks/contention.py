"""Four producer and four consumer processes on one file.

A backlog is put first, so that consumers do not wait for producers. Each process does its fixed
share; every call is timed; an exception is counted and the call tried again. What consumers saw is
compared with what went in.
"""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any

from harness import Bench, Child, Table, percentile
from systems import RAW_BYTES, US, System

PROCESSES = 4
BACKLOG = 500
BATCH = 20
COLUMNS = ["", "a second", "put p50", "put p99", "get+ack p50", "get+ack p99", "errors", "twice"]


def open_all(bench: Bench, children: list[Child], path: str, share: int) -> None:
    # The first alone: creating a file is not what is measured here.
    for number, child in enumerate(children):
        bench.open(child, path, first=number * (share + BACKLOG))
    children[0].ask("fill", n=BACKLOG)


def one_run(bench: Bench, system: System, share: int, batch: int = 1) -> dict[str, Any]:
    with (
        bench.fresh_directory() as path,
        bench.children([system] * (2 * PROCESSES), quiet=True) as children,
    ):
        open_all(bench, children, path, share)
        producers, consumers = children[:PROCESSES], children[PROCESSES:]
        for child in producers:
            child.send("produce", n=share) if batch == 1 else child.send("produce_batches", n=share, batch=batch)
        for child in consumers:
            child.send("consume", n=share) if batch == 1 else child.send("consume_batches", n=share, batch=batch)
        puts = [child.answer() for child in producers]
        gets = [child.answer() for child in consumers]
        for child in children:
            child.ask("close")
    answers = puts + gets
    span = max(a["ended"] for a in answers) - min(a["started"] for a in answers)
    seen = Counter(number for answer in gets for number in answer["seen"])
    return {
        "rate": PROCESSES * share / span,
        "put": [lap for answer in puts for lap in answer["laps"]],
        "get": [lap for answer in gets for lap in answer["laps"]],
        "errors": sum(answer["errors"] for answer in answers),
        "twice": sum(count - 1 for count in seen.values()),
    }


def run(bench: Bench) -> list[Table]:
    share, rounds = (300, 2) if bench.quick else (1000, 5)
    results: dict[str, list[dict[str, Any]]] = {}
    for _ in range(rounds):
        for system in bench.systems:
            if system.name == RAW_BYTES:
                continue  # it can not tell its messages apart
            results.setdefault(system.name, []).append(one_run(bench, system, share))
            if system.name == US:
                name = f"{US}, {BATCH} a call"
                results.setdefault(name, []).append(one_run(bench, system, share, BATCH))
    rows, data = [], {}
    for name, runs in results.items():
        rate = statistics.median(one["rate"] for one in runs)
        laps = {what: [lap for one in runs for lap in one[what]] for what in ("put", "get")}
        row = [name, f"{rate:,.0f}"]
        for what in ("put", "get"):
            for percent in (50, 99):
                row.append(f"{percentile(laps[what], percent) * 1000:.2f} ms")
        row += [str(sum(one[what] for one in runs)) for what in ("errors", "twice")]
        rows.append(row)
        data[name] = {"rate": rate, "p99_put": percentile(laps["put"], 99)} | {
            "p99_get_ack": percentile(laps["get"], 99),
            "errors": sum(one["errors"] for one in runs),
            "delivered_twice": sum(one["twice"] for one in runs),
        }
    rows.sort(key=lambda row: -float(row[1].replace(",", "")))
    title = f"{PROCESSES} producers and {PROCESSES} consumers, messages a second through the file"
    return [Table(title, COLUMNS, rows, data)]
