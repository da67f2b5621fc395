"""Turns on one server: every system has a place of its own for the whole benchmark, and they take turns on it.

A place is opened once: a queue on a server lives for months, so what it leaves behind (dead rows, a grown log) belongs
to the figures.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import Child, Samples
from on_servers.places import Places
from systems import DEFAULT_VENVS, System


@dataclass
class Turn:
    """What one system did in one turn: rates by what was done, the seconds of single calls, and the processor time
    that a call took in the process of the system (not in the server)."""

    rates: dict[str, float] = field(default_factory=dict)
    laps: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)


@dataclass
class Measured:
    """samples[what][system]: a rate for each round, cpu as well; laps[what][system]: the calls of all rounds."""

    samples: dict[str, Samples] = field(default_factory=dict)
    laps: dict[str, Samples] = field(default_factory=dict)
    cpu: dict[str, Samples] = field(default_factory=dict)

    def add(self, name: str, turn: Turn) -> None:
        for what, rate in turn.rates.items():
            self.samples.setdefault(what, {}).setdefault(name, []).append(rate)
        for what, seconds in turn.cpu.items():
            self.cpu.setdefault(what, {}).setdefault(name, []).append(seconds)
        for what, laps in turn.laps.items():
            self.laps.setdefault(what, {}).setdefault(name, []).extend(laps)


class ServerBench:
    """The systems of one kind of server, and the ways to measure that several benchmarks share."""

    def __init__(
        self,
        kind: str,
        places: Places,
        systems: list[System],
        *,
        quick: bool,
        minutes: float,
        venvs: Path = DEFAULT_VENVS,
        only: Collection[str] = (),
    ) -> None:
        self.kind = kind
        self.places = places
        self.systems = systems
        self.quick = quick
        self.minutes = minutes
        self.venvs = venvs
        self.only = only

    def pick(self, *names: str) -> list[System]:
        return [system for system in self.systems if system.name in names]

    @contextmanager
    def opened(self, system: System, url: str, **options: Any) -> Iterator[Child]:
        child = Child(system)
        try:
            child.ask("open", path=url, **{**system.options, **options})
            yield child
            child.ask("close")
        finally:
            child.stop()

    def open_all(self, stack: ExitStack, systems: list[System]) -> list[Child]:
        """A place and a process for each; who can not be opened is left out, and why is printed."""
        children = []
        for system in systems:
            url = stack.enter_context(self.places.fresh())
            try:
                children.append(stack.enter_context(self.opened(system, url)))
            except RuntimeError as problem:
                print(f"{system.name} is left out: {problem}", flush=True)
        return children

    def interleave(self, systems: list[System], measure: Callable[[Child], Turn], *, rounds: int) -> Measured:
        """`measure` once a round for each system; the first round warms up and is thrown away. Every other round goes
        the other way round, so that nobody always follows the same neighbour."""
        measured = Measured()
        with ExitStack() as stack:
            children = self.open_all(stack, systems)
            for number in range(rounds + 1):
                for child in children[:: -1 if number % 2 else 1]:
                    try:
                        turn = measure(child)
                    except RuntimeError as problem:
                        print(f"{child.system.name} is left out: {problem}", flush=True)
                        children.remove(child)
                        continue
                    if number:
                        measured.add(child.system.name, turn)
        return measured


def ratio(samples: Samples, name: str, base: str) -> float | None:
    """The median of the ratios of each round, so that a slow round weighs on both sides."""
    if name not in samples or base not in samples:
        return None
    return statistics.median(ours / theirs for ours, theirs in zip(samples[name], samples[base], strict=False))


def offers(child: Child, *names: str) -> bool:
    return bool(child.ask("offers", names=list(names))["offers"])


def drain(child: Child, n: int) -> float:
    """Messages a second of the system's own worker, or of a loop that takes and deletes many where it has none."""
    if offers(child, "work") or offers(child, "work_with"):
        return n / float(child.ask("work", n=n)["seconds"])
    return n / float(child.ask("get_ack_many", n=n, batch=50)["seconds"])
