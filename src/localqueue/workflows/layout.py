"""Where the boxes of a graph go: in layers, each box below those it comes after, with few crossings and short lines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

Point = tuple[float, float]

_BESIDE = 28.0
_BELOW = 46.0
_LINE = 8.0  # the room that a line takes where it passes a layer
_BENDS = 20_000  # lines that pass more layers than this, all together, are drawn straight
_SWEEPS = 8
_MANY = 4000


class Layout(NamedTuple):
    """The centre of each box, the points that each line goes through, and the size of it all."""

    centres: list[Point]
    lines: list[list[Point]]
    width: float
    height: float


def layout_of(sizes: Sequence[Point], edges: Sequence[tuple[int, int]]) -> Layout:
    """Lay out boxes of these widths and heights; `edges` go from a box to one below it, by their numbers.

    The work grows with the number of boxes and lines, not with its square.
    """
    layers = _layers(len(sizes), edges)
    widths = [width for width, _ in sizes]
    paths = _paths(layers, edges, widths)
    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    for path in paths:
        for one, other in pairwise(path):
            below[one].append(other)
            above[other].append(one)
    rows: list[list[int]] = [[] for _ in range(max(layers, default=-1) + 1)]
    for one in _by_descent(above, below):
        rows[layers[one]].append(one)
    rows = _with_few_crossings(rows, above, below)
    x = _across(rows, widths, above, below)
    tops, heights = _down(rows, sizes)
    centres = [(x[n], tops[layers[n]] + heights[layers[n]] / 2) for n in range(len(sizes))]
    lines = []
    for path in paths:
        first, last = path[0], path[-1]
        points = [(x[first], centres[first][1] + sizes[first][1] / 2)]
        for bend in path[1:-1]:
            top = tops[layers[bend]]
            points += [(x[bend], top), (x[bend], top + heights[layers[bend]])]
        points.append((x[last], centres[last][1] - sizes[last][1] / 2))
        lines.append(points)
    right = max((x[n] + widths[n] / 2 for n in range(len(widths))), default=0.0)
    return Layout(centres, lines, right, tops[-1] + heights[-1] if rows else 0.0)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The length of the longest way to each box."""
    below: list[list[int]] = [[] for _ in range(count)]
    left = [0] * count
    for one, other in edges:
        below[one].append(other)
        left[other] += 1
    layers = [0] * count
    ready = [n for n in range(count) if not left[n]]
    for one in ready:
        for other in below[one]:
            layers[other] = max(layers[other], layers[one] + 1)
            left[other] -= 1
            if not left[other]:
                ready.append(other)
    return layers


def _paths(layers: list[int], edges: Sequence[tuple[int, int]], widths: list[float]) -> list[list[int]]:
    """The way of each line: its ends, and a bend in each layer that it passes, which takes room there like a box."""
    straight = sum(layers[other] - layers[one] - 1 for one, other in edges) > _BENDS
    paths = []
    for one, other in edges:
        passed = () if straight else range(layers[one] + 1, layers[other])
        bends = range(len(layers), len(layers) + len(passed))
        layers.extend(passed)
        widths.extend(_LINE for _ in passed)
        paths.append([one, *bends, other])
    return paths


def _by_descent(above: list[list[int]], below: list[list[int]]) -> list[int]:
    """All boxes and bends, what comes after one close to it."""
    found, seen = [], [False] * len(above)
    for root in (n for n, over in enumerate(above) if not over):
        stack = [root]
        while stack:
            one = stack.pop()
            if not seen[one]:
                seen[one] = True
                found.append(one)
                stack.extend(reversed(below[one]))
    return found


def _with_few_crossings(rows: list[list[int]], above: list[list[int]], below: list[list[int]]) -> list[list[int]]:
    """The rows, each in the order of the middle of its neighbours, from above and from below in turn."""
    best, least = rows, _crossings(rows, below)
    rows = [list(row) for row in rows]
    for sweep in range(2 if len(above) > _MANY else _SWEEPS):
        if not least:
            break
        neighbours = below if sweep % 2 else above
        place = {one: at for row in rows for at, one in enumerate(row)}
        for row in reversed(rows) if sweep % 2 else rows:
            means = {
                one: sum(place[other] for other in near) / len(near) if (near := neighbours[one]) else place[one]
                for one in row
            }
            row.sort(key=means.__getitem__)
            place.update((one, at) for at, one in enumerate(row))
        count = _crossings(rows, below)
        if count < least:
            best, least = [list(row) for row in rows], count
    return best


def _crossings(rows: list[list[int]], below: list[list[int]]) -> int:
    """How often lines cross, counted with a tree of sums over the places of each row."""
    total = 0
    for row, under in pairwise(rows):
        place = {one: at for at, one in enumerate(under)}
        sums, passed = [0] * (len(under) + 1), 0
        for one in row:
            ends = [place[other] for other in below[one] if other in place]
            for end in ends:
                at, not_right = end + 1, 0
                while at:
                    not_right += sums[at]
                    at &= at - 1
                total += passed - not_right
            for end in ends:
                at = end + 1
                while at < len(sums):
                    sums[at] += 1
                    at += at & -at
            passed += len(ends)
    return total


def _across(rows: list[list[int]], widths: list[float], above: list[list[int]], below: list[list[int]]) -> list[float]:
    """How far to the right each one is: near the middle of those above and below it."""
    x = [0.0] * len(widths)
    for row in rows:
        _place(row, [0.0] * len(row), widths, x)
    for sweep in range(2 if len(widths) > _MANY else _SWEEPS):
        neighbours = below if sweep % 2 else above
        for row in reversed(rows) if sweep % 2 else rows:
            wanted = [
                sum(x[other] for other in near) / len(near) if (near := neighbours[one]) else x[one] for one in row
            ]
            _place(row, wanted, widths, x)
    left = min((x[one] - widths[one] / 2 for row in rows for one in row), default=0.0)
    return [one - left for one in x]


def _place(row: list[int], wanted: list[float], widths: list[float], x: list[float]) -> None:
    """Put a row as near to where it wants to be as it goes without overlaps, by the squares of the distances.

    Without the room that each takes, this is a regression to what never falls: neighbours that want to swap become a
    block, which stands at the mean of its wishes.
    """
    offsets, right = [], 0.0
    for n, one in enumerate(row):
        right += (widths[row[n - 1]] + widths[one]) / 2 + _BESIDE if n else 0.0
        offsets.append(right)
    blocks: list[tuple[float, int]] = []
    for wish, offset in zip(wanted, offsets, strict=True):
        total, count = wish - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            before, many = blocks.pop()
            total, count = total + before, count + many
        blocks.append((total, count))
    n = 0
    for total, count in blocks:
        for _ in range(count):
            x[row[n]] = total / count + offsets[n]
            n += 1


def _down(rows: list[list[int]], sizes: Sequence[Point]) -> tuple[list[float], list[float]]:
    """The upper edge and the height of each row."""
    heights = [max((sizes[one][1] for one in row if one < len(sizes)), default=0.0) for row in rows]
    tops, bottom = [], 0.0
    for height in heights:
        tops.append(bottom)
        bottom += height + _BELOW
    return tops, heights
