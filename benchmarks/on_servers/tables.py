"""Rates and times as tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from harness import Samples, Table, percentile
from on_servers.bench import ratio
from on_servers.systems import RAW, RAW_SAME


def rates(
    title: str,
    samples: Samples,
    laps: Samples | None = None,
    cpu: Samples | None = None,
    *,
    bases: Sequence[str] = (RAW, RAW_SAME),
    note: str = "",
) -> Table:
    """Operations a second, their ratio to each base that was measured, and where calls were timed the slow ones and
    the processor time of a call."""
    bases = [base for base in bases if base in samples]
    rows, data = [], {}
    for name in sorted(samples, key=lambda name: -statistics.median(samples[name])):
        per_second = samples[name]
        median = statistics.median(per_second)
        ratios = {base: ratio(samples, name, base) or 0.0 for base in bases}
        row = [name, f"{median:,.0f}", *(f"{value:.2f}" for value in ratios.values())]
        figures: dict[str, Any] = {"per_second": median, "of": ratios}
        if laps is not None:
            row += [f"{percentile(laps[name], percent) * 1000:.2f} ms" for percent in (50, 99)]
            figures |= {"p50": percentile(laps[name], 50), "p99": percentile(laps[name], 99)}
        if cpu is not None:
            figures["cpu"] = statistics.median(cpu[name])
            row.append(f"{figures['cpu'] * 1e6:.0f} us")
        rows.append([*row, f"{min(per_second):,.0f} - {max(per_second):,.0f}"])
        data[name] = figures
    timed = ["p50", "p99"] if laps is not None else []
    timed += ["cpu"] if cpu is not None else []
    columns = ["", "a second", *(f"of {base}" for base in bases), *timed, "slowest - fastest round"]
    return Table(title, columns, rows, data, note)


def times(title: str, laps: Samples, *, note: str = "") -> Table:
    rows, data = [], {}
    for name, values in laps.items():
        figures = {"p50": percentile(values, 50), "p99": percentile(values, 99), "max": max(values)}
        rows.append([name, *(f"{value * 1000:.2f} ms" for value in figures.values())])
        data[name] = figures
    return Table(title, ["", "p50", "p99", "max"], rows, data, note)
