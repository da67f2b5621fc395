"""Results for people, drawn with rich."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from localqueue.cli.output import write

_MOMENTS = ("_at", "_until")
_FLOWING = ("value", "error")
_LEAST = 8
_NUMBERS = (
    "attempts",
    "ready",
    "delayed",
    "inflight",
    "waiting",
    "blocked",
    "dead",
    "expired",
    "total",
    "priority",
    "held",
    "lag_rows",
    "released",
)


def facts(facts: Mapping[str, Any], title: str | None = None) -> None:
    """Names and values below each other; what is not set is left out."""
    table = Table(box=None, show_header=False, title=title, title_justify="left", pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value not in (None, {}, []):
            table.add_row(Text(name), _cell(name, value))
    _draw(table if table.row_count else Text("nothing is set"))


def rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], nothing: str) -> None:
    """A table, a line for each row: what does not fit is cut. Columns that would say nothing are left out."""
    if not rows:
        return _draw(Text(nothing))
    shown = [name for place, name in enumerate(columns) if place < 2 or any(row.get(name) for row in rows)]
    cells = [[_cell(name, row.get(name), brief=True) for name in shown] for row in rows]
    widths = [max(len(name), *(line[at].cell_len for line in cells)) for at, name in enumerate(shown)]
    flowing = [width for width, name in zip(widths, shown, strict=True) if name in _FLOWING]
    room = _console().width - (sum(widths) - sum(flowing)) - 2 * len(shown)
    most = max(room // max(len(flowing), 1), _LEAST)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for width, name in zip(widths, shown, strict=True):
        justify: Any = "right" if name in _NUMBERS else "left"
        fitting = min(width, most) if name in _FLOWING else width
        table.add_column(name.replace("_", " "), no_wrap=True, overflow="ellipsis", justify=justify, width=fitting)
    for line in cells:
        table.add_row(*line)
    _draw(table)


def _console() -> Console:
    # into a pipe or a file lines are as long as they need to be
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else 10_000)


def _draw(what: Any) -> None:
    console = _console()
    with console.capture() as drawn:
        console.print(what, highlight=False)
    write("\n".join(line.rstrip() for line in drawn.get().strip("\n").split("\n")))


def _cell(name: str, value: Any, *, brief: bool = False) -> Text:
    if value is None:
        return Text("-", style="dim")
    if isinstance(value, float) and f"_{name}".endswith(_MOMENTS):
        moment = datetime.fromtimestamp(value)
        is_today = brief and moment.date() == datetime.now().date()
        return Text(moment.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S"))
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, float):
        return Text(f"{value:.3f}".rstrip("0").rstrip("."))
    text = value if isinstance(value, str) and name != "value" else json.dumps(value, ensure_ascii=False, default=repr)
    return Text("".join(one if one.isprintable() else repr(one)[1:-1] for one in text))
