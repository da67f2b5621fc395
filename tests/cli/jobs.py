"""Handlers that the tests name on the command line."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any


def note(value: Any) -> None:
    """Leaves a trace."""
    with open("seen.txt", "a") as seen:
        seen.write(f"{value}\n")


async def note_async(value: Any) -> None:
    note(value)


def fail(value: Any) -> None:
    note(value)
    raise ValueError(f"no {value}")


def fail_once(value: Any) -> None:
    note(value)
    if Path("seen.txt").read_text().count("\n") < 2:
        raise ValueError("not yet")


def import_something(value: Any) -> None:
    note(value)
    raise ModuleNotFoundError("no module named 'something'")


def wait_for_file(value: str) -> None:
    """Runs until the file `value` exists."""
    note("started")
    while not Path(value).exists():
        time.sleep(0.01)
    note("finished")


def leave(value: Any) -> None:
    os._exit(9)


class Group:
    @staticmethod
    def note(value: Any) -> None:
        note(value)


not_callable = 5
