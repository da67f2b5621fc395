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
_FLOWING = ("value", "error", "queue")
_NUMBERS = ("attempts", "ready", "delayed", "inflight", "waiting", "blocked", "dead", "expired", "total", "priority")


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
    """A table. A column that would say nothing in any row is left out, except the first few."""
    if not rows:
        return _draw(Text(nothing))
    shown = [name for place, name in enumerate(columns) if place < 2 or any(row.get(name) for row in rows)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for name in shown:
        flows = name in _FLOWING
        justify: Any = "right" if name in _NUMBERS else "left"
        table.add_column(name.replace("_", " "), overflow="fold", no_wrap=not flows, justify=justify)
    for row in rows:
        table.add_row(*(_cell(name, row.get(name)) for name in shown))
    _draw(table)


def _draw(what: Any) -> None:
    # into a pipe or a file lines are as long as they need to be
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 10_000)
    with console.capture() as drawn:
        console.print(what, highlight=False)
    write("\n".join(line.rstrip() for line in drawn.get().strip("\n").split("\n")))


def _cell(name: str, value: Any) -> Text:
    if value is None:
        return Text("-", style="dim")
    if isinstance(value, float) and name.endswith(_MOMENTS):
        return Text(datetime.fromtimestamp(value).strftime("%Y-%m-%d %H:%M:%S"))
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, float):
        return Text(f"{value:.3f}".rstrip("0").rstrip("."))
    text = value if isinstance(value, str) and name != "value" else json.dumps(value, ensure_ascii=False, default=repr)
    return Text("".join(one if one.isprintable() else repr(one)[1:-1] for one in text))
