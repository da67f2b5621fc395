"""`--watch`: show something again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer

from localqueue.cli.errors import Mistake

Watch = Annotated[bool, typer.Option("--watch", help="Show it again until interrupted.")]


def _seconds(interval: float) -> float:
    if not 0 < interval < float("inf"):
        raise Mistake(f"--interval must be a number of seconds greater than zero, not {interval}")
    return interval


Interval = Annotated[float, typer.Option(help="With --watch: seconds in between.", callback=_seconds)]


def again_and_again(show: Callable[[], None], *, watch: bool, interval: float) -> None:
    """Show it once, or with `watch` every `interval` seconds until Ctrl-C, which is a normal end."""
    try:
        show()
        while watch:
            time.sleep(interval)
            show()
    except KeyboardInterrupt:
        if not watch:
            raise
