"""Two ways to do the same thing, in turns, and what they make of a second."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness import verdict

#: What is measured, how many messages it is, and the two ways to do it: ours and the bare client's.
Pair = tuple[str, int, Callable[[], Any], Callable[[], Any]]


class Turns:
    """Rounds in which each way of each pair has its turn; the first round warms up and is thrown away.

    A row says what was measured, our median and the bare client's in messages a second, the median of the ratios of the
    rounds, and whether that meets the target, which may be another for each first word of what is measured.
    """

    columns = ("", "ours", "bare client", "ratio", "target")

    def __init__(self, rounds: int, target: float | Mapping[str, float]) -> None:
        self._rounds = rounds
        self._target = target

    def __call__(self, pairs: Sequence[Pair]) -> list[list[str]]:
        taken: dict[str, list[tuple[float, float]]] = {}
        for number in range(self._rounds + 1):
            for what, _, ours, bare in pairs:
                ways = (ours, bare) if number % 2 else (bare, ours)
                seconds = {way: _seconds(way) for way in ways}
                if number:
                    taken.setdefault(what, []).append((seconds[ours], seconds[bare]))
        return [_row(what, count, taken[what], self._wanted(what)) for what, count, _, _ in pairs]

    def _wanted(self, what: str) -> float:
        target = self._target
        return target[re.split(r"\W", what)[0]] if isinstance(target, Mapping) else target


def _row(what: str, count: int, taken: list[tuple[float, float]], target: float) -> list[str]:
    ours, bare = (statistics.median(count / seconds for seconds in side) for side in zip(*taken, strict=True))
    ratio = statistics.median(theirs / mine for mine, theirs in taken)
    return [what, f"{ours:,.0f}", f"{bare:,.0f}", f"{ratio:.2f}", f"{target:g} {verdict(ratio >= target)}"]


def _seconds(way: Callable[[], Any]) -> float:
    since = time.perf_counter()
    way()
    return time.perf_counter() - since
