"""put_many, 500 messages a call."""

from __future__ import annotations

from harness import Bench, Child, Table, rate_table

BATCH = 500


def run(bench: Bench) -> list[Table]:
    n, rounds = (5_000, 5) if bench.quick else (20_000, 15)

    def measure(child: Child) -> dict[str, float]:
        child.need("put_many")
        return {"put_many": n / child.ask("put_many", n=n, batch=BATCH)["seconds"]}

    samples = bench.interleave(bench.systems, measure, rounds=rounds)
    return [rate_table(f"put_many, {BATCH} a call", samples["put_many"])]
