"""Dependencies by the thousand, beside as many plain messages; each also at a tenth of the size.

One process declares, starts and works with the usual concurrency. The time of a job is that of start and work, divided
by the steps that have a function; "growth" is what a job costs at full size of what it costs at a tenth: where cost
grows linearly it is 1.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness import Table
from localqueue import PersistentQueue, Worker, open_store
from localqueue.workflows import Workflow
from workflows.bench import Bench
from workflows.systems import CONCURRENCY, POSTGRES, SQLITE, System

FULL, QUICK = 10_000, 1_000
LAYERS = 20
PLAIN = "plain messages"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds; `jobs` is how often a function was called."""

    declare: float = 0.0
    start: float
    work: float
    jobs: int

    @property
    def each(self) -> float:
        return (self.start + self.work) / self.jobs


class Count:
    """The function of every step."""

    def __init__(self) -> None:
        self.calls = 0
        self._lock = threading.Lock()

    def job(self, ctx: Any) -> int:
        with self._lock:
            self.calls += 1
        return 1


def no_edges(made: Workflow, job: Callable[..., Any], size: int) -> None:
    for number in range(size):
        made.step(name=f"job{number}")(job)


def fan_out(made: Workflow, job: Callable[..., Any], size: int) -> None:
    made.step(name="root")(job)
    for number in range(size - 1):
        made.step(name=f"job{number}", after=["root"])(job)


def fan_in(made: Workflow, job: Callable[..., Any], size: int) -> None:
    jobs = [made.step(name=f"job{number}")(job) for number in range(size - 1)]
    made.step(name="join", after=jobs)(job)


def layers(made: Workflow, job: Callable[..., Any], size: int) -> None:
    above: list[Any] = []
    for layer in range(LAYERS):
        jobs = [made.step(name=f"job{layer}-{number}", after=above)(job) for number in range(size // LAYERS)]
        if layer < LAYERS - 1:
            above = [made.gate(f"gate{layer}", after=jobs)]


def chain(made: Workflow, job: Callable[..., Any], size: int) -> None:
    above: list[Any] = []
    for number in range(size):
        above = [made.step(name=f"job{number}", after=above)(job)]


def items(made: Workflow, job: Callable[..., Any], size: int) -> None:
    """The same fan-out and fan-in over a list that is known only when the run is under way."""

    @made.step
    def find(ctx: Any) -> list[int]:
        job(ctx)
        return list(range(size - 2))

    each = made.step(name="each", after=[find], each="find")(job)
    made.step(name="join", after=[each])(job)


PATTERNS: dict[str, Callable[[Workflow, Callable[..., Any], int], None]] = {
    "steps without edges": no_edges,
    "fan-out, 1 to all": fan_out,
    "fan-in, all to 1": fan_in,
    f"{LAYERS} layers, all to all by gates": layers,
    "chain": chain,
    "1 to items of a list to 1": items,
}


def run(bench: Bench) -> list[Table]:
    size = QUICK if bench.quick else FULL
    tables = []
    for system in bench.pick(SQLITE, POSTGRES):
        rounds = 3 if system.name == SQLITE and not bench.quick else 1
        taken: dict[tuple[str, int], list[Cost]] = {}
        for _ in range(rounds):
            for count in (size // 10, size):
                taken.setdefault((PLAIN, count), []).append(_plain(bench, system, count))
                for name, declare in PATTERNS.items():
                    taken.setdefault((name, count), []).append(_pattern(bench, system, declare, count))
        tables.append(_table(f"dependencies, {size:,} jobs: {system.name}", taken, size, rounds))
    return tables


def _plain(bench: Bench, system: System, size: int) -> Cost:
    with open_store(bench.new_address(system.place)) as store, PersistentQueue[Any]("bench", store=store) as queue:
        count, began = Count(), time.perf_counter()
        queue.put_many({"number": number} for number in range(size))
        started = time.perf_counter()
        Worker(queue, count.job, concurrency=CONCURRENCY).run_until_empty()
        ended = time.perf_counter()
    return _cost(count, size, start=started - began, work=ended - started)


def _pattern(
    bench: Bench, system: System, declare: Callable[[Workflow, Callable[..., Any], int], None], size: int
) -> Cost:
    with open_store(bench.new_address(system.place)) as store:
        count, made, began = Count(), Workflow("pattern"), time.perf_counter()
        declare(made, count.job, size)
        made.validate()
        declared = time.perf_counter()
        run = made.start(store, None)
        started = time.perf_counter()
        made.worker(store, concurrency=CONCURRENCY).run_until_empty()
        ended = time.perf_counter()
        run.wait(timeout=60)
    return _cost(count, size, declare=declared - began, start=started - declared, work=ended - started)


def _cost(count: Count, size: int, **seconds: float) -> Cost:
    if count.calls != size:
        raise RuntimeError(f"{count.calls} jobs were done where {size} were to be")
    return Cost(jobs=size, **seconds)


def _table(title: str, taken: dict[tuple[str, int], list[Cost]], size: int, rounds: int) -> Table:
    rows, data = [], {}
    for name in (PLAIN, *PATTERNS):
        costs, small, plain = taken[name, size], taken[name, size // 10], taken[PLAIN, size]
        parts = {
            what: statistics.median(getattr(cost, what) for cost in costs) for what in ("declare", "start", "work")
        }
        each, tenth = (statistics.median(cost.each for cost in some) for some in (costs, small))
        of_plain = statistics.median(one.each / other.each for one, other in zip(costs, plain, strict=True))
        growth = statistics.median(one.each / other.each for one, other in zip(costs, small, strict=True))
        rows.append(
            [
                name,
                *(f"{seconds:.2f} s" for seconds in parts.values()),
                *(f"{seconds * 1e6:,.0f} us" for seconds in (each, tenth)),
                f"{growth:.2f}",
                f"{of_plain:.2f}",
            ]
        )
        data[name] = {**parts, "each": each, "each_at_a_tenth": tenth, "growth": growth, "of_plain": of_plain}
    columns = ["", "declare", "start", "work", "a job", "at a tenth", "growth", "of plain"]
    note = f"rounds: {rounds}; plain messages are put by one put_many; a job is start and work"
    return Table(title, columns, rows, data, note)
