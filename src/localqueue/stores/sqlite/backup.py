"""Backup: a copy of the file, checked before it gets its name."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from localqueue.stores.privacy import make_file
from localqueue.stores.publication import published, require_sound
from localqueue.stores.sqlite.check import check
from localqueue.stores.sqlite.errors import translated


def publish(path: str, fill: Callable[[sqlite3.Connection], object]) -> None:
    """Make a new database at `path`, filled, checked and on disk, or none at all."""
    with published(path) as unfinished, translated(str(unfinished)):
        make_file(unfinished)
        copy = sqlite3.connect(unfinished, isolation_level=None)
        try:
            fill(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            report = check(copy)
        finally:
            copy.close()
        require_sound(report, path)
