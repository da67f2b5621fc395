"""What a step costs beside a plain message: the same number of messages, put and worked off with the same concurrency.

Everything happens in one process, so that its processor time is all there is on our side. A run is started by one
commit, and its steps are then handled like messages; the figure is start and work together, for each step.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from harness import Table, verdict
from localqueue import PersistentQueue, Worker, open_store
from workflows.adapters.ours import SHAPES, STEPS
from workflows.bench import Bench
from workflows.systems import CONCURRENCY, POSTGRES, POWER, REDIS, SQLITE, System

PLAIN = "plain message"
KEPT = "plain message, result kept"
AT_MOST = 1.5
_KEEP = 3600.0

Cost = tuple[float, float]  # seconds a message: by the clock, and of processor time


def run(bench: Bench) -> list[Table]:
    messages, rounds = (210, 3) if bench.quick else (2_100, 10)
    tables, targets = [], []
    for system in bench.pick(SQLITE, POWER, POSTGRES, REDIS):
        for concurrency in (1, CONCURRENCY):
            taken = _measure(bench, system, concurrency, messages, rounds)
            title = f"a step beside a plain message: {system.name}, concurrency {concurrency}"
            note = f"{messages} messages, {rounds} rounds; put or start, and work, together; a ratio is within a round"
            tables.append(_table(title, taken, note))
            targets += [
                [f"{system.name}, concurrency {concurrency}, {shape}", *_judged(taken, shape)] for shape in STEPS
            ]
    return [*tables, Table("a step of a plain message, targets", ["", "is", "at most", ""], targets)] if targets else []


def _measure(bench: Bench, system: System, concurrency: int, messages: int, rounds: int) -> dict[str, list[Cost]]:
    """Each way has a place of its own, for all rounds; the first round is thrown away."""
    durability = system.options.get("durability", "process")
    ways: dict[str, Callable[[Any, int, int], None]] = {PLAIN: _plain, KEPT: _kept}
    ways |= {shape: _steps_of(shape) for shape in STEPS}
    taken: dict[str, list[Cost]] = {name: [] for name in ways}
    stores = {name: open_store(bench.new_address(system.place), durability=durability) for name in ways}
    try:
        for number in range(rounds + 1):
            for name, way in ways.items():
                clock, cpu = time.perf_counter(), time.process_time()
                way(stores[name], messages, concurrency)
                cost = (time.perf_counter() - clock) / messages, (time.process_time() - cpu) / messages
                if number:
                    taken[name].append(cost)
    finally:
        for store in stores.values():
            store.close()
    return taken


def _plain(store: Any, messages: int, concurrency: int, keep: float | None = None) -> None:
    with PersistentQueue("bench", store=store, keep_results=keep) as queue:
        for number in range(messages):
            queue.put({"number": number})
        _require(Worker(queue, lambda item: item["number"] + 1, concurrency=concurrency).run_until_empty(), messages)


def _kept(store: Any, messages: int, concurrency: int) -> None:
    _plain(store, messages, concurrency, keep=_KEEP)


def _steps_of(shape: str) -> Callable[[Any, int, int], None]:
    made, _ = SHAPES[shape]

    def work(store: Any, messages: int, concurrency: int) -> None:
        for _ in range(messages // STEPS[shape]):
            made.start(store, None)
        _require(made.worker(store, concurrency=concurrency).run_until_empty(), messages)

    return work


def _require(done: Any, messages: int) -> None:
    if done.acked != messages:
        raise RuntimeError(f"{done.acked} messages were done where {messages} were to be")


def _table(title: str, taken: dict[str, list[Cost]], note: str) -> Table:
    rows, data = [], {}
    for name, costs in taken.items():
        clock, cpu = (statistics.median(side) for side in zip(*costs, strict=True))
        ratios = {
            f"{what} of {base}": _ratio(costs, taken[base], side)
            for base in (PLAIN, KEPT)
            for side, what in enumerate(("time", "cpu"))
        }
        shown = name if name in (PLAIN, KEPT) else f"a step of {name}, {STEPS[name]} in a run"
        rows.append(
            [shown, f"{clock * 1e6:,.0f} us", f"{cpu * 1e6:,.0f} us", *(f"{one:.2f}" for one in ratios.values())]
        )
        data[name] = {"seconds": clock, "cpu": cpu, "ratios": ratios}
    columns = ["", "time", "cpu", "time of plain", "cpu of plain", "time of kept", "cpu of kept"]
    return Table(title, columns, rows, data, note)


def _ratio(costs: list[Cost], base: list[Cost], side: int) -> float:
    return statistics.median(one[side] / other[side] for one, other in zip(costs, base, strict=True))


def _judged(taken: dict[str, list[Cost]], shape: str) -> list[str]:
    found = _ratio(taken[shape], taken[PLAIN], 0)
    return [f"{found:.2f}", f"{AT_MOST:.2f}", verdict(found <= AT_MOST)]
