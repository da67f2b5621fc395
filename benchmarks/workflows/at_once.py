"""Many runs at once: from the start of the first to the end of the last, in runs a second."""

from __future__ import annotations

import statistics

from harness import Table, verdict
from workflows.bench import Bench, Measured
from workflows.latency import FLOW, WHAT, ratio
from workflows.systems import BASES, SQLITE, System

MANY, MORE = 100, 500  # the peers do the first
AT_LEAST = 100.0  # of the 7-step DAG a second, on SQLite


def run(bench: Bench) -> list[Table]:
    rounds, many, more = (1, 30, 60) if bench.quick else (3, MANY, MORE)
    ours = {system.name for system in bench.systems if "flow" in system.shapes}

    def measure(system: System) -> dict[str, list[float]]:
        with bench.turn(system) as starter:
            figures = {}
            for shape in system.shapes:
                starter.ask("one_by_one", shape=shape, n=3)
                for n in (many, more) if system.name in ours else (many,):
                    figures[f"{shape} {n}"] = [starter.ask("at_once", shape=shape, n=n)["seconds"] / n]
            return figures

    taken = bench.rounds(rounds, measure)
    tables = []
    for shape, what in WHAT.items():
        for n in (many, more):
            turns = dict(taken.get(f"{shape} {n}", {}))
            if shape == "linear":
                turns |= {name + FLOW: found for name, found in taken.get(f"flow {n}", {}).items()}
            if turns:
                tables.append(_table(f"{what}: {n} runs at once ({rounds} rounds)", turns))
    return [*tables, *_judged(taken, f"dag {many}")]


def _table(title: str, turns: Measured) -> Table:
    rows, data = [], {}
    bases = [base for base in BASES if base in turns]
    for name in turns:
        per_second = 1 / statistics.median(lap for turn in turns[name] for lap in turn)
        ratios = {base: 1 / ratio(turns[name], turns[base]) for base in bases}
        rows.append([name, f"{per_second:,.1f}", *(f"{one:.3f}" for one in ratios.values())])
        data[name] = {"runs_per_second": per_second, "ratios": ratios}
    columns = ["", "runs a second", *(f"of {base.removeprefix('localqueue, ')}" for base in bases)]
    return Table(title, columns, rows, data, "of: more is better")


def _judged(taken: dict[str, Measured], what: str) -> list[Table]:
    rows = []
    if SQLITE in taken.get(what, {}):
        rate = 1 / statistics.median(lap for turn in taken[what][SQLITE] for lap in turn)
        rows.append([f"{SQLITE}, {what} at once", f"{rate:,.0f}", f"{AT_LEAST:.0f}", verdict(rate >= AT_LEAST)])
    return [Table("runs at once, targets", ["runs a second", "is", "at least", ""], rows)] if rows else []
