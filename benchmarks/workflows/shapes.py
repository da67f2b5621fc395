"""The shapes that a run may have, ours on each store: start to end, the worker in another process; and a batch of rows
over five of them."""

from __future__ import annotations

import statistics

from harness import Table, percentile
from workflows.adapters.ours import CHUNK, ROWS
from workflows.bench import Bench, Measured
from workflows.systems import POSTGRES, POWER, REDIS, SQLITE, System

SHAPES = {
    "linear4": "linear, 4 steps",
    "diamond": "diamond, 4 steps",
    "dag": "the 7-step DAG",
    "tree": "tree, 8 steps",
    "conditional": "conditional, 5 steps, one of them skipped",
}
WORKERS = 5


def run(bench: Bench) -> list[Table]:
    rounds, samples, warm = (2, 10, 2) if bench.quick else (13, 40, 5)
    ours = bench.pick(SQLITE, POWER, POSTGRES, REDIS)

    def measure(system: System) -> dict[str, list[float]]:
        figures = {}
        with bench.turn(system) as starter:
            for shape in SHAPES:
                starter.ask("one_by_one", shape=shape, n=warm)
                figures[shape] = starter.ask("one_by_one", shape=shape, n=samples)["laps"]
        with bench.turn(system, workers=WORKERS, concurrency=1) as starter:
            starter.ask("one_by_one", shape="batch", n=1)
            figures["batch"] = starter.ask("one_by_one", shape="batch", n=max(2, samples // 4))["laps"]
        return figures

    taken = bench.rounds(rounds, measure, ours)
    note = f"{rounds} rounds of {samples} runs"
    tables = [_table(f"{what}: start to end", taken[shape], note) for shape, what in SHAPES.items() if shape in taken]
    return [*tables, _batch(taken["batch"])] if "batch" in taken else tables


def _table(title: str, turns: Measured, note: str) -> Table:
    rows, data = [], {}
    for name in turns:
        laps = [lap for turn in turns[name] for lap in turn]
        figures = {f"p{percent}": percentile(laps, percent) for percent in (50, 95, 99)}
        rows.append([name, *(f"{seconds * 1000:.1f} ms" for seconds in figures.values())])
        data[name] = figures
    return Table(title, ["", "p50", "p95", "p99"], rows, data, note)


def _batch(turns: Measured) -> Table:
    rows, data = [], {}
    for name in turns:
        laps = [lap for turn in turns[name] for lap in turn]
        seconds = statistics.median(laps)
        rows.append(
            [name, f"{seconds * 1000:.1f} ms", f"{percentile(laps, 95) * 1000:.1f} ms", f"{ROWS / seconds:,.0f}"]
        )
        data[name] = {"p50": seconds, "p95": percentile(laps, 95), "rows_per_second": ROWS / seconds}
    note = f"{CHUNK} rows a message, a checkpoint every 50, {WORKERS} worker processes; {len(laps)} runs"
    return Table(
        f"batch of {ROWS:,} rows over {WORKERS} workers", ["", "p50", "p95", "rows a second"], rows, data, note
    )
