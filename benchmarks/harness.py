"""Children, rounds, medians and tables: what every benchmark file needs.

A round gives each system its turn before any has a second one, so that a slow minute of the
machine is shared by all. The first round warms up and is thrown away. Figures are medians.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from systems import DEFAULT_VENVS, HERE, RAW, RAW_SAME, System

Samples = dict[str, list[float]]


class Unsupported(Exception):
    """The queue has no such operation."""


class Child:
    """One queue in its own process. `ask` sends a request and returns the answer."""

    def __init__(self, system: System, *, quiet: bool = False) -> None:
        self.system = system
        self.process = subprocess.Popen(
            [system.python, "-P", str(HERE / "serve.py"), str(system.adapter)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            text=True,
        )

    def send(self, verb: str, **arguments: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": verb, **arguments}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.system.name} stopped with {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.system.name}: {answer['error']}")
        return answer

    def ask(self, verb: str, **arguments: Any) -> dict[str, Any]:
        self.send(verb, **arguments)
        return self.answer()

    def need(self, *methods: str) -> None:
        if not self.ask("offers", names=list(methods))["offers"]:
            raise Unsupported(f"{self.system.name} has no {', '.join(methods)}")

    def stop(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.process.wait(timeout=60)


@dataclass
class Table:
    """A result: printed for people, `as_dict` for programs."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    data: dict[str, Any] = field(default_factory=dict)
    note: str = ""

    def print(self) -> None:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        print(f"\n{self.title}")
        for line in lines:
            cells = [line[0].ljust(widths[0])]
            cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
            print("  " + "  ".join(cells))
        if self.note:
            print(f"  {self.note}")
        sys.stdout.flush()


class Bench:
    """The run's settings, and the ways to measure that several benchmarks share."""

    def __init__(
        self,
        systems: list[System],
        *,
        directory: str | None,
        quick: bool,
        venvs: Path = DEFAULT_VENVS,
        only: Collection[str] = (),
    ) -> None:
        self.systems = systems
        self.quick = quick
        self.venvs = venvs
        self.only = only
        self.root = Path(tempfile.mkdtemp(prefix="localqueue-bench-", dir=directory))

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def pick(self, *names: str) -> list[System]:
        return [system for system in self.systems if system.name in names]

    @contextmanager
    def fresh_directory(self) -> Iterator[str]:
        path = tempfile.mkdtemp(dir=self.root)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def children(self, systems: Iterable[System], *, quiet: bool = False) -> Iterator[list[Child]]:
        started = [Child(system, quiet=quiet) for system in systems]
        try:
            yield started
        finally:
            for child in started:
                child.stop()

    def open(self, child: Child, path: str, **options: Any) -> None:
        child.ask("open", path=path, **options, **child.system.options)

    def interleave(
        self,
        systems: list[System],
        measure: Callable[[Child], dict[str, float]],
        *,
        rounds: int,
    ) -> dict[str, Samples]:
        """samples[what][system]: `measure` once a round with a fresh file for each system."""
        samples: dict[str, Samples] = {}
        with self.children(systems) as children:
            left = list(children)
            for number in range(rounds + 1):
                for child in list(left):
                    with self.fresh_directory() as path:
                        self.open(child, path)
                        try:
                            figures = measure(child)
                        except Unsupported:
                            left.remove(child)
                            figures = {}
                        child.ask("close")
                    for what, figure in figures.items() if number else ():
                        samples.setdefault(what, {}).setdefault(child.system.name, [])
                        samples[what][child.system.name].append(figure)
        return samples


def rate_table(title: str, samples: Samples, *, note: str = "") -> Table:
    """Operations a second, and their ratio to SQLite by hand: a plain table, and our own SQL."""
    rows = []
    data: dict[str, Any] = {}
    for name in sorted(samples, key=lambda name: -statistics.median(samples[name])):
        rates = samples[name]
        median = statistics.median(rates)
        ratios = [_ratio(rates, samples.get(base)) for base in (RAW, RAW_SAME)]
        shown = ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        rows.append([name, f"{median:,.0f}", *shown, f"{min(rates):,.0f} - {max(rates):,.0f}"])
        data[name] = {"per_second": median, "of_raw": ratios[0], "of_our_sql": ratios[1]}
    columns = ["", "a second", "of raw", "of our SQL", "slowest - fastest round"]
    return Table(title, columns, rows, data, note)


def _ratio(rates: list[float], base: list[float] | None) -> float | None:
    """The median of the ratios of each round, so that a slow round weighs on both sides."""
    if base is None:
        return None
    return statistics.median(ours / theirs for ours, theirs in zip(rates, base, strict=True))


def percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"
