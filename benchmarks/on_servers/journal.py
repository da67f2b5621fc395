"""What the journal costs on this store: the same work with it and without it, side by side."""

from __future__ import annotations

from dataclasses import replace

from harness import Child, Table
from on_servers.bench import ServerBench, Turn, ratio
from on_servers.systems import BATCH
from systems import US

OFF, ON = "journal off", "journal on"


def run(bench: ServerBench, wanted: set[str]) -> list[Table]:
    n, rounds = (200, 3) if bench.quick else (1000, 11)
    many = 5 * n

    def measure(child: Child) -> Turn:
        put, get = child.ask("put", n=n), child.ask("get_ack", n=n)
        bulk, work = child.ask("put_many", n=many, batch=500), child.ask("work", n=many)
        return Turn(
            {
                "put": n / put["seconds"],
                "get + ack": n / get["seconds"],
                "bulk put, 500 a call": many / bulk["seconds"],
                f"worker, prefetch={BATCH}": many / work["seconds"],
            }
        )

    systems = [
        replace(us, name=name, options={"prefetch": BATCH, "journal": journal})
        for us in bench.pick(US)
        for name, journal in ((OFF, False), (ON, True))
    ]
    samples = bench.interleave(systems, measure, rounds=rounds).samples
    rows, data = [], {}
    for what, rates in samples.items():
        share = ratio(rates, ON, OFF)
        if share is None:
            continue
        medians = [sorted(rates[name])[len(rates[name]) // 2] for name in (OFF, ON)]
        rows.append([what, *(f"{value:,.0f}" for value in medians), f"{share:.2f}", f"{1 - share:.0%}"])
        data[what] = {"off": medians[0], "on": medians[1], "ratio": share}
    columns = ["a second", OFF, ON, "on : off", "cost"]
    return [Table(f"{bench.kind}: what the journal costs {US}", columns, rows, data)] if rows else []
