"""The stores that live in files, and how a crash test opens one and hooks into its commits."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

OPENERS = {
    "sqlite": ("localqueue.stores.sqlite", "SQLiteQueueStore"),
    "lmdb": ("localqueue.stores.lmdb", "LMDBQueueStore"),
}


def open_store(kind: str, path: str | os.PathLike[str], **options: Any) -> Any:
    module, name = OPENERS[kind]
    return getattr(importlib.import_module(module), name)(os.fspath(path), **options)


def watch_edges(store: Any, on_edge: Callable[[str], None] | None) -> None:
    """Call `on_edge` with "begun", "applied" and "committed" in every write transaction of the store."""
    store._writer.on_edge = on_edge


def kill_at(edge: str, nth: int) -> Callable[[str], None]:
    """A hook that ends this process, as `kill -9` would, at the nth time the edge is reached."""
    seen = 0

    def on_edge(name: str) -> None:
        nonlocal seen
        if name == edge:
            seen += 1
            if seen == nth:
                die()

    return on_edge


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()  # the signal ends the process before this returns


def copy_of(source: Path, target: Path) -> Path:
    """A copy of a closed store."""
    return shutil.copytree(source, target) if source.is_dir() else Path(shutil.copyfile(source, target))


class Clock:
    """Stands still until it is moved, so that two runs of the same steps write the same times."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
