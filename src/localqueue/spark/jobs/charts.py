"""Pictures of a report as HTML: plots in SVG that stretch with the page, their texts beside them.

A plot is drawn on a field of 100 by 100 that the browser stretches, lines keep their width, and every label is text of
the page, so it stays readable on any screen. Nothing here needs a script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from localqueue.spark.jobs.report_text import ceiling, moment, ticks

Write = Callable[[float | None], str]


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line, or one layer of stacked columns. `colour` is a class of the page's style sheet."""

    name: str
    colour: str
    values: Sequence[float | None]


def chart(
    times: Sequence[datetime],
    *,
    write: Write,
    lines: Sequence[Series] = (),
    columns: Sequence[Series] = (),
    area: bool = False,
    durations: bool = False,
    label: str,
) -> str:
    """Columns on top of each other, and lines over them, along the time. `durations` are values in seconds."""
    stacked = [sum(series.values[at] or 0.0 for series in columns) for at in range(len(times))]
    tops = [value for series in lines for value in series.values if value is not None]
    top, step = ceiling(max([*stacked, *tops, 0.0]), time=durations)
    grid = [step * at for at in range(round(top / step) + 1)]
    parts = [f'<line class="grid" x1="0" x2="100" y1="{_y(value, top)}" y2="{_y(value, top)}"/>' for value in grid]
    parts += _columns(columns, len(times), top)
    for series in lines:
        parts.append(_line(series, top, area=area))
    parts += _hovers(times, [*lines, *columns], write)
    left = "".join(f'<span style="top:{_y(value, top)}%">{escape(write(value))}</span>' for value in grid)
    below = "".join(
        f'<span style="left:{_x(at, len(times))}%">{escape(text)}</span>' for at, text in ticks(list(times))
    )
    return (
        f'<div class="chart">{_legend([*lines, *columns])}<div class="plot"><div class="left">{left}</div>'
        f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
        f'{"".join(parts)}</svg><div class="below">{below}</div></div></div>'
    )


def bars(rows: Sequence[tuple[str, float, str]], *, colour: str, most: float | None = None) -> str:
    """Lying bars: a name, a length and the text at its end. The longest, or `most`, is the whole width; what is longer
    than that has no bar, only its text."""
    longest = most or max((value for _, value, _ in rows), default=0.0) or 1.0
    lines = (
        f'<li><span class="name">{escape(name)}</span>{_track(value / longest, colour)}'
        f'<span class="value">{escape(text)}</span></li>'
        for name, value, text in rows
    )
    return f'<ul class="bars">{"".join(lines)}</ul>'


def _track(part: float, colour: str) -> str:
    return f'<span class="track">{bar(part, colour)}</span>' if part <= 1 else "<span></span>"


def bar(part: float, colour: str) -> str:
    """A bar of a part of the width there is; what is not nothing can be seen."""
    width = 0.0 if part <= 0 else min(100.0, max(0.6, 100 * part))
    return f'<i class="bar {colour}" style="width:{width:.4g}%"></i>'


def _legend(series: Sequence[Series]) -> str:
    names = (f'<span><i class="key {one.colour}"></i>{escape(one.name)}</span>' for one in series)
    return f'<p class="legend">{"".join(names)}</p>'


def _x(at: int, count: int) -> str:
    """The middle of a place on the time axis."""
    return f"{100 * (at + 0.5) / max(1, count):.5g}"


def _y(value: float, top: float) -> str:
    return f"{100 - 100 * value / top:.5g}"


def _columns(columns: Sequence[Series], count: int, top: float) -> list[str]:
    parts = []
    wide = 100 / max(1, count)
    floor = [0.0] * count
    for series in columns:
        path = []
        for at, value in enumerate(series.values):
            if value:
                left, right = wide * (at + 0.08), wide * (at + 0.92)
                low, high = _y(floor[at], top), _y(floor[at] + value, top)
                path.append(f"M{left:.5g} {low}V{high}H{right:.5g}V{low}Z")
                floor[at] += value
        parts.append(f'<path class="column {series.colour}" d="{"".join(path)}"/>')
    return parts


def _line(series: Series, top: float, *, area: bool) -> str:
    """A line that is broken where there is no value; a single point is a short dash."""
    runs: list[list[tuple[str, str]]] = [[]]
    for at, value in enumerate(series.values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((_x(at, len(series.values)), _y(value, top)))
    drawn = []
    for run in filter(None, runs):
        points = "L".join(f"{x} {y}" for x, y in run)
        if area and len(run) > 1:
            drawn.append(f'<path class="area {series.colour}" d="M{run[0][0]} 100L{points}L{run[-1][0]} 100Z"/>')
        dot = "h0.01" if len(run) == 1 else ""
        drawn.append(f'<path class="line {series.colour}" d="M{points}{dot}"/>')
    return "".join(drawn)


def _hovers(times: Sequence[datetime], series: Sequence[Series], write: Write) -> list[str]:
    """What a pointer that rests on the plot is told, by a field of its own for every place."""
    wide = 100 / max(1, len(times))
    fields = []
    for at, time in enumerate(times):
        told = [f"{one.name}: {write(one.values[at])}" for one in series if one.values[at] is not None]
        text = escape("\n".join([moment(time), *told]))
        fields.append(f'<rect class="hover" x="{wide * at:.5g}" y="0" width="{wide:.5g}" height="100">')
        fields.append(f"<title>{text}</title></rect>")
    return fields
