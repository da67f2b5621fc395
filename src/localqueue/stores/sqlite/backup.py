"""Backup: a copy of the file, checked before it gets its name."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from localqueue.errors import QueueStoreCorruptError
from localqueue.stores.sqlite.check import check
from localqueue.stores.sqlite.errors import translated


def backup(source: sqlite3.Connection, path: str) -> None:
    """Copy the database page by page, verify the copy, then publish it under its name in one step."""
    publish(path, source.backup)


def publish(path: str, fill: Callable[[sqlite3.Connection], object]) -> None:
    """Make a new file at `path` that appears whole, checked and on disk, or not at all."""
    target = Path(path)
    if target.exists():
        raise FileExistsError(f"backup target {path!r} exists; choose a new name, a backup never overwrites")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with translated(str(unfinished)):
            copy = sqlite3.connect(unfinished, isolation_level=None)
            try:
                fill(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
                report = check(copy)
            finally:
                copy.close()
        if not report.ok:
            raise QueueStoreCorruptError(
                f"the backup was not kept because it failed its check: {report.problems[0]}", path=path
            )
        _sync(unfinished)
        os.link(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
    _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
