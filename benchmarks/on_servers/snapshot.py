"""PostgreSQL with an old snapshot held open: dead rows can not be removed, and who walks over them gets slower.

A report, a dump or a forgotten session does this in real life. Each system first has its turns without it. Then a
REPEATABLE READ transaction is opened on each database and stays open while the systems go on taking turns, the same
number of messages each, until the time is over. The last turns are compared with the first, and ours with pgmq's.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from typing import Any

import psycopg

from harness import Child, Table, verdict
from on_servers.bench import ServerBench
from on_servers.systems import BATCH, RAW
from on_servers.targets import SNAPSHOT
from systems import US

PGMQ = "pgmq, autocommit"
BEFORE = 5  # turns without the snapshot
OPERATIONS = ("put", "get + ack", f"{BATCH} a call")
DEAD = "SELECT coalesce(sum(n_dead_tup), 0), coalesce(sum(pg_total_relation_size(relid)), 0) FROM pg_stat_user_tables"


def turn(child: Child, n: int) -> dict[str, float]:
    put, get = child.ask("put", n=n)["seconds"], child.ask("get_ack", n=n)["seconds"]
    child.ask("fill", n=5 * n)
    many = child.ask("get_ack_many", n=5 * n, batch=BATCH)["seconds"]
    return {"put": n / put, "get + ack": n / get, f"{BATCH} a call": 5 * n / many}


def hold(stack: ExitStack, url: str) -> None:
    connection = stack.enter_context(psycopg.connect(url))
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.execute("SELECT count(*) FROM pg_class").fetchone()


def run(bench: ServerBench, wanted: set[str]) -> list[Table]:
    if bench.kind != "postgres":
        return []
    n = 100
    samples: dict[str, dict[str, list[dict[str, float]]]] = {"before": {}, "during": {}}
    waste: dict[str, Any] = {}
    with ExitStack() as stack:
        taking_turns: list[tuple[str, Child]] = []
        for system in bench.pick(US, PGMQ, RAW):
            url = stack.enter_context(bench.places.fresh())
            try:
                taking_turns.append((url, stack.enter_context(bench.opened(system, url))))
            except RuntimeError as problem:
                print(f"{system.name} is left out: {problem}", flush=True)

        def everybody(when: str) -> None:
            for _, child in taking_turns:
                samples[when].setdefault(child.system.name, []).append(turn(child, n))

        for _ in range(BEFORE):
            everybody("before")
        with ExitStack() as snapshots:
            for url, _ in taking_turns:
                hold(snapshots, url)
            deadline = time.monotonic() + bench.minutes * 60
            while time.monotonic() < deadline:
                everybody("during")
            for url, child in taking_turns:
                with psycopg.connect(url) as connection:
                    connection.execute("SELECT pg_stat_clear_snapshot()")
                    waste[child.system.name] = connection.execute(DEAD).fetchone()
    return [table(samples, waste, n, bench.minutes)]


def table(samples: dict[str, Any], waste: dict[str, Any], n: int, minutes: float) -> Table:
    turns = min(len(found) for found in samples["during"].values())
    few = max(1, turns // 10)
    medians: dict[str, dict[str, dict[str, float]]] = {}
    for name, during in samples["during"].items():
        parts = {"before": samples["before"][name][1:], "first": during[:few], "last": during[-few:]}
        medians[name] = {
            what: {when: statistics.median(one[what] for one in part) for when, part in parts.items()}
            for what in OPERATIONS
        }
    rows = []
    for what in OPERATIONS:
        for name, figures in medians.items():
            one = figures[what]
            against = one["last"] / medians[PGMQ][what]["last"] if PGMQ in medians else None
            judged = verdict(against >= SNAPSHOT) if against is not None and name == US else ""
            dead, size = waste[name]
            rows.append(
                [
                    f"{what}: {name}",
                    *(f"{one[when]:,.0f}" for when in ("before", "first", "last")),
                    f"{one['last'] / one['before']:.2f}",
                    "-" if against is None else f"{against:.2f}",
                    judged,
                    f"{dead:,}",
                    f"{size / 2**20:,.0f} MiB",
                ]
            )
    columns = [
        "a second",
        "no snapshot",
        "first turns",
        "last turns",
        "last : none",
        "of pgmq",
        "",
        "dead rows",
        "size",
    ]
    title = f"postgres: a snapshot held open for {minutes:g} min ({turns} turns of {7 * n} messages each)"
    return Table(title, columns, rows, medians)
