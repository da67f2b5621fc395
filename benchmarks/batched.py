"""Lease and ack 100 messages a call, beside one at a time on the same backlog."""

from __future__ import annotations

import statistics

from harness import Bench, Child, Table
from systems import RAW, RAW_BYTES, RAW_SAME, US

BATCH = 100


def run(bench: Bench) -> list[Table]:
    n, rounds = (1000, 5) if bench.quick else (2000, 15)

    def measure(child: Child) -> dict[str, float]:
        child.need("lease_many", "ack_many")
        child.ask("fill", n=2 * n)
        single = n / child.ask("get_ack", n=n)["seconds"]
        batched = n / child.ask("get_ack_many", n=n, batch=BATCH)["seconds"]
        return {"single": single, "batched": batched, "gain": batched / single}

    samples = bench.interleave(bench.pick(US, RAW, RAW_BYTES, RAW_SAME), measure, rounds=rounds)
    rows, data = [], {}
    for name in samples["gain"]:
        medians = {what: statistics.median(samples[what][name]) for what in samples}
        shown = [f"{medians[what]:,.0f}" for what in ("single", "batched")]
        rows.append([name, *shown, f"{medians['gain']:.1f}x"])
        data[name] = medians
    columns = ["", "one at a time", f"{BATCH} a call", "gain"]
    return [Table("lease + ack, messages a second", columns, rows, data)]
