"""Coroutines in a test that is none."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

R = TypeVar("R")


def run_to_end(coroutine: Coroutine[Any, Any, R]) -> R:
    """The result of a coroutine, on an event loop of its own; in a thread of its own where a loop runs here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(contextvars.copy_context().run, asyncio.run, coroutine).result()
