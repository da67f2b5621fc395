"""Tells several stores the same, on one clock, and compares what they answer and what they show.

    stores = {"memory": MemoryQueueStore, "mine": lambda **options: MyStore(fresh_path(), **options)}
    found = differ(stores, seed=7, length=120)
    assert found is None, found

Time passes unobserved: nobody claims between two steps of the clock, so what a store makes of timers that have passed,
when it is asked something else, must be the same everywhere. An opener is called with `clock=` for every round and must
open a place with nothing in it. `Disagreement` prints the shortest sequence of operations that was found to show it.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.operation import Operation, simpler_ones
from localqueue.contracts.picture import differences
from localqueue.contracts.side import Side
from localqueue.contracts.teller import Situation, Teller
from localqueue.stores.port import QueueStore

Openers = Mapping[str, Callable[..., QueueStore]]

#: Everything is looked at in every way after each so many operations, and after the last. What is cheap, after each.
LOOK_CLOSELY_EVERY = 12

BEGAN = 1_700_000_000.0


@dataclasses.dataclass
class Disagreement:
    """The operations that were told, and after the last of them how each store differs from the first of the most."""

    operations: list[Operation]
    most: tuple[str, ...]
    odd: dict[str, list[str]]

    def __str__(self) -> str:
        told = [f"  {n}. {operation}" for n, operation in enumerate(self.operations, 1)]
        differs = [f"  {name}: {line}" for name, lines in self.odd.items() for line in lines[:8]]
        return "\n".join([f"{', '.join(self.odd)} against {', '.join(self.most)}:", *told, "  differs", *differs])


def differ(openers: Openers, *, seed: int | str, length: int = 120) -> Disagreement | None:
    """One round of random operations; the shortest disagreement that could be made of the first one."""
    found = play(openers, Teller(seed), length)
    return None if found is None else shrink(openers, found)


def play(openers: Openers, told: Teller | Sequence[Operation], length: int = 0) -> Disagreement | None:
    """Tell new stores the operations until they disagree. Given ones are looked at closely after each."""
    clock = FakeClock(BEGAN)
    with ExitStack() as opened:
        sides = [Side(name, _entered(opened, open_store(clock=clock))) for name, open_store in openers.items()]
        pool = opened.enter_context(ThreadPoolExecutor(len(sides)))  # servers answer beside each other
        situation = Situation()
        done: list[Operation] = []
        length = length or len(told)  # type: ignore[arg-type]
        for n in range(1, length + 1):
            operation = told.next(situation) if isinstance(told, Teller) else told[n - 1]
            done.append(operation)
            if operation.verb == "advance":
                clock.advance(*operation.arguments)
            closely = n == length or n % LOOK_CLOSELY_EVERY == 0 or not isinstance(told, Teller)
            told_all = pool.map(functools.partial(Side.tell, operation=operation, closely=closely), sides)
            found = _compare({side.name: one for side, one in zip(sides, told_all, strict=True)})
            if found is None and n == length:
                found = _compare({side.name: {"problems": len(side.store.check().problems)} for side in sides})
            if found is not None:
                return Disagreement(done, *found)
            sides[0].describe(situation)
        return None


def _entered(opened: ExitStack, store: Any) -> Any:
    opened.callback(store.close)
    return store


def _compare(seen: Mapping[str, Any]) -> tuple[tuple[str, ...], dict[str, list[str]]] | None:
    """Those that agree with the most, and where the others differ; None when all agree."""
    groups: list[list[str]] = []
    for name, one in seen.items():
        for group in groups:
            if seen[group[0]] == one:
                group.append(name)
                break
        else:
            groups.append([name])
    if len(groups) == 1:
        return None
    most = max(groups, key=len)
    return tuple(most), {name: differences(seen[most[0]], seen[name]) for name in seen if name not in most}


def shrink(openers: Openers, found: Disagreement) -> Disagreement:
    """A shorter sequence of simpler operations over which one of the odd stores and one of the others disagree."""
    pair = {name: openers[name] for name in (found.most[0], next(iter(found.odd)))}
    best = play(pair, found.operations)
    if best is None:  # these two do not disagree by themselves
        return found
    best = _shortened(pair, _simplified(pair, _shortened(pair, best)))
    return play(openers, best.operations) or best


def _shortened(pair: Openers, best: Disagreement) -> Disagreement:
    """Without the operations that do not matter, tried in parts that get smaller."""
    size = max(1, len(best.operations) // 2)
    while True:
        before = len(best.operations)
        start = 0
        while start < len(best.operations):
            less = best.operations[:start] + best.operations[start + size :]
            if (again := _again(pair, best, less)) is not None:
                best = again
            else:
                start += size
        if size > 1:
            size //= 2
        elif len(best.operations) == before:
            return best


def _simplified(pair: Openers, best: Disagreement) -> Disagreement:
    """With as few options as do it."""
    n = 0
    while n < len(best.operations):
        for simpler in simpler_ones(best.operations[n]):
            again = _again(pair, best, [*best.operations[:n], simpler, *best.operations[n + 1 :]])
            if again is not None and len(again.operations) == len(best.operations):
                best = again
                break
        else:
            n += 1
    return best


def _again(pair: Openers, best: Disagreement, operations: list[Operation]) -> Disagreement | None:
    """The same disagreement, if these operations lead to it as well."""
    again = play(pair, operations) if operations else None
    return again if again is not None and _places(again) & _places(best) else None


def _places(found: Disagreement) -> set[str]:
    """Where in what the stores answer and show they differ, without names and numbers."""
    lines = (line for lines in found.odd.values() for line in lines)
    return {re.sub(r"\d+|\.(one|two|spill)\b", "", line.partition(":")[0]) for line in lines}
