"""From the start of a run to its end as the starter sees it, one run after the other; the worker in another process."""

from __future__ import annotations

import statistics
from typing import Any

from harness import Table, percentile, verdict
from workflows.bench import Bench, Measured
from workflows.systems import BASES, POSTGRES, REDIS, SQLITE, System

WHAT = {"linear": "three steps, one after the other", "dag": "the 7-step DAG"}
FLOW = ", flow"

#: p50 in seconds
AT_MOST = {("dag", SQLITE): 0.013, ("dag", POSTGRES): 0.040, ("dag", REDIS): 0.020, ("linear", SQLITE): 0.005}


def run(bench: Bench) -> list[Table]:
    rounds, samples, warm = (3, 10, 3) if bench.quick else (13, 40, 5)

    def measure(system: System) -> dict[str, list[float]]:
        with bench.turn(system) as starter:
            figures = {}
            for shape in system.shapes:
                starter.ask("one_by_one", shape=shape, n=warm)
                figures[shape] = starter.ask("one_by_one", shape=shape, n=samples)["laps"]
            return figures

    taken = bench.rounds(rounds, measure)
    linear = taken.setdefault("linear", {})
    for name, turns in taken.pop("flow", {}).items():
        linear[name + FLOW] = turns
    note = f"{rounds} rounds of {samples} runs; a ratio is the median of the ratios of the rounds' medians"
    tables = [table(f"{what}: start to end", taken[shape], note) for shape, what in WHAT.items() if taken.get(shape)]
    return [*tables, *judged(taken)]


def table(title: str, turns: Measured, note: str) -> Table:
    rows, data = [], {}
    bases = [base for base in BASES if base in turns]
    for name in turns:
        laps = [lap for turn in turns[name] for lap in turn]
        figures: dict[str, Any] = {"samples": len(laps)}
        figures |= {f"p{percent}": percentile(laps, percent) for percent in (50, 95, 99)}
        figures["ratios"] = {base: ratio(turns[name], turns[base]) for base in bases}
        rows.append(
            [
                name,
                *(f"{figures[what] * 1000:.1f} ms" for what in ("p50", "p95", "p99")),
                *(f"{one:.2f}" for one in figures["ratios"].values()),
                str(len(laps)),
            ]
        )
        data[name] = figures
    columns = ["", "p50", "p95", "p99", *(f"of {base.removeprefix('localqueue, ')}" for base in bases), "samples"]
    return Table(title, columns, rows, data, note)


def ratio(turns: list[list[float]], base: list[list[float]]) -> float:
    """The median of the ratios within a round, so that a slow round weighs on both sides."""
    pairs = zip(turns, base, strict=False)
    return statistics.median(statistics.median(one) / statistics.median(other) for one, other in pairs)


def judged(taken: dict[str, Measured]) -> list[Table]:
    rows, data = [], {}
    for (shape, name), at_most in AT_MOST.items():
        if name in taken.get(shape, {}):
            p50 = percentile([lap for turn in taken[shape][name] for lap in turn], 50)
            what = f"{WHAT[shape]}, {name}"
            rows.append([what, f"{p50 * 1000:.1f} ms", f"{at_most * 1000:.0f} ms", verdict(p50 <= at_most)])
            data[what] = {"p50": p50, "at_most": at_most}
    return [Table("start to end, targets", ["p50", "is", "at most", ""], rows, data)] if rows else []
