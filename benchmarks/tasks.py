"""One function of two arguments as the handler of a plain Worker, as a task of ours, and as a task of others.

First ours beside each other, in many short turns; then the peers. One at a time, and with the usual concurrency.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import Bench, Child, Samples, Table, verdict
from systems import HERE, PEERS, US, Peer, System, venv_python

PLAIN = f"{US} Worker"
TASKS = f"{US} Tasks"
KEPT = ", results kept"
FETCHED = " and fetched"

OURS: dict[str, dict[str, bool]] = {
    PLAIN: {"tasks": False, "results": False},
    TASKS: {"tasks": True, "results": False},
    PLAIN + KEPT: {"tasks": False, "results": True},
    TASKS + KEPT: {"tasks": True, "results": True},
}
OUR_CONCURRENCY = 8

#: how long a job may take, enqueue and work together, against one of a plain worker that keeps nothing
AT_MOST = {TASKS: 1.25, TASKS + KEPT: 1.45}


@dataclass(frozen=True)
class Others:
    """How a peer is measured with tasks: where, how many at a time it usually runs (None: only one), whether it has
    results, and its share of a turn where it is slow."""

    kinds: tuple[str, ...]
    usual: int | None
    has_results: bool = True
    share: float = 1.0


OTHERS = {
    "huey": Others(("sqlite", "redis"), OUR_CONCURRENCY, share=0.5),
    "dramatiq": Others(("redis",), 8),
    "taskiq": Others(("redis",), 100),
    "saq": Others(("redis",), 10),
    "rq": Others(("redis",), None, share=0.25),
    "procrastinate": Others(("postgres",), OUR_CONCURRENCY, has_results=False, share=0.25),
}

#: measures each system once a round: samples[what][system]
Interleave = Callable[[list[System], Callable[[Child], dict[str, float]], int], dict[str, Samples]]


def run(bench: Bench) -> list[Table]:
    def interleave(
        systems: list[System], measure: Callable[[Child], dict[str, float]], rounds: int
    ) -> dict[str, Samples]:
        return bench.interleave(systems, measure, rounds=rounds)

    sizes = (300, 5) if bench.quick else (500, 20)
    return compare("sqlite", PEERS, bench.venvs, bench.only, interleave, sizes=sizes, quick=bench.quick)


def compare(
    kind: str,
    known: Iterable[Peer],
    venvs: Path,
    only: Collection[str],
    interleave: Interleave,
    *,
    sizes: tuple[int, int],
    quick: bool,
) -> list[Table]:
    def measured(systems: list[System], n: int, rounds: int) -> dict[str, Samples]:
        return interleave(systems, lambda child: turn(child, int(n * child.system.share)), rounds)

    tables = []
    for together in (False, True):
        title = f"{kind}: tasks, {'the usual concurrency' if together else 'one at a time'}"
        ours = _ours(together)
        n, rounds = sizes
        samples = measured(ours, n, rounds)
        tables += [_table(f"{title} ({n} a turn, {rounds} rounds)", samples), _judged(f"{title}, targets", samples)]
        peers = _others(kind, known, venvs, only, together)
        if peers:
            n, rounds = (100, 3) if quick else (200, 5)
            samples = measured([one for one in ours if one.name != PLAIN + KEPT] + peers, n, rounds)
            tables.append(_table(f"{title}, peers ({n} a turn, {rounds} rounds)", samples))
    return tables


def turn(child: Child, n: int) -> dict[str, float]:
    """Seconds a job, by the clock and of processor time."""
    figures = {"enqueue": child.ask("put_laps", n=n), "work": child.ask("work", n=n)}
    if child.ask("offers", names=["fetch"])["offers"]:
        figures["fetch"] = child.ask("fetch")
    child.ask("forget")
    clock = {what: answer["seconds"] / n for what, answer in figures.items()}
    return clock | {f"{what} cpu": answer["cpu"] / n for what, answer in figures.items()}


def _ours(together: bool) -> list[System]:
    concurrency = OUR_CONCURRENCY if together else 1
    return [
        System(name, sys.executable, HERE / "task_ours.py", {**options, "concurrency": concurrency})
        for name, options in OURS.items()
    ]


def _others(kind: str, known: Iterable[Peer], venvs: Path, only: Collection[str], together: bool) -> list[System]:
    found = []
    for peer in known:
        how = OTHERS.get(peer.name)
        if how is None or kind not in how.kinds or (only and peer.name not in only):
            continue
        python = venv_python(venvs, peer)
        concurrency = how.usual if together else 1
        if concurrency is None or not python.exists():
            continue
        for name, results in ((peer.name, False), (peer.name + KEPT, True)):
            if how.has_results or not results:
                options: dict[str, Any] = {"results": results, "concurrency": concurrency}
                found.append(System(name, str(python), HERE / "task_peers" / peer.adapter, options, how.share))
    return found


def _table(title: str, samples: dict[str, Samples]) -> Table:
    rows, data = [], {}
    for name in sorted(samples["work"], key=_place):
        for shown, whats in _ways(samples, name):
            cost = {what: statistics.median(samples[what][name]) for what in whats}
            clock, cpu = _sum(samples, whats, name), _sum(samples, [f"{what} cpu" for what in whats], name)
            of_plain = {
                "clock": against_plain(samples, whats, name),
                "cpu": against_plain(samples, whats, name, " cpu"),
            }
            per_second = {what: 1 / seconds for what, seconds in cost.items()} | {"all": 1 / statistics.median(clock)}
            rates = [
                f"{per_second[what]:,.0f}" if what in per_second else "" for what in ("enqueue", "work", "fetch", "all")
            ]
            processor = statistics.median(cpu)
            rows.append([shown, *rates, f"{processor * 1e6:.0f} us", *(f"{one:.2f}" for one in of_plain.values())])
            data[shown] = {"per_second": per_second, "cpu": processor, "of_plain": of_plain}
    columns = ["", "enqueue", "work", "fetch", "all", "cpu", "time of plain", "cpu of plain"]
    note = "jobs a second; cpu is of the system's own process, a job; of plain: less is better"
    return Table(title, columns, rows, data, note)


def _place(name: str) -> tuple[bool, int, str]:
    """Ours first, then the peers by name."""
    return name not in OURS, list(OURS).index(name) if name in OURS else 0, name


def _ways(samples: dict[str, Samples], name: str) -> list[tuple[str, list[str]]]:
    ways = [(name, ["enqueue", "work"])]
    if name in samples.get("fetch", {}):
        ways.append((name + FETCHED, ["enqueue", "work", "fetch"]))
    return ways


def _judged(title: str, samples: dict[str, Samples]) -> Table:
    rows, data = [], {}
    for name, at_most in AT_MOST.items():
        for how, suffix in (("by the clock", ""), ("by processor time", " cpu")):
            found = against_plain(samples, ["enqueue", "work"], name, suffix)
            rows.append([f"{name}, {how}", f"{found:.2f}", f"{at_most:.2f}", verdict(found <= at_most)])
            data[f"{name}, {how}"] = {"of_plain": found, "at_most": at_most}
    return Table(title, ["", "is", "at most", ""], rows, data)


def against_plain(samples: dict[str, Samples], whats: list[str], name: str, suffix: str = "") -> float:
    """What a job costs of one that a plain worker does with the same handler: the median of the rounds' ratios."""
    costs = _sum(samples, [what + suffix for what in whats], name)
    plain = _sum(samples, [f"enqueue{suffix}", f"work{suffix}"], PLAIN)
    return statistics.median(one / base for one, base in zip(costs, plain, strict=False))


def _sum(samples: dict[str, Samples], whats: list[str], name: str) -> list[float]:
    return [sum(parts) for parts in zip(*(samples[what][name] for what in whats), strict=True)]
