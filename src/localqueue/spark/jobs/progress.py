"""How a job tells how far it is: it calls what it was given with a line of text."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]


def silent(line: str) -> None:
    """For callers who do not want to know."""
