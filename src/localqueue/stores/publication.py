"""A backup gets its name when it is whole, checked and on disk, and never takes that of something else. It is for its
owner alone, whoever may read the store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localqueue.errors import QueueStoreCorruptError
from localqueue.stores.port import CheckReport
from localqueue.stores.privacy import make_directory


@contextmanager
def published(path: str) -> Iterator[Path]:
    """Where to write a file or a directory that is published as `path` when the block has ended well."""
    target = Path(path)
    exists = FileExistsError(f"backup target {path!r} exists; choose a new name, a backup never overwrites")
    if target.exists():
        raise exists
    make_directory(target.parent)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.part")
    _remove(unfinished)  # what a process of that number left behind
    try:
        yield unfinished
        if unfinished.is_dir():
            for part in (*unfinished.iterdir(), unfinished):
                sync(part)
            try:
                unfinished.rename(target)
            except OSError as error:
                raise exists from error
        else:
            sync(unfinished)
            os.link(unfinished, target)
    finally:
        _remove(unfinished)
    sync(target.parent)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def require_sound(report: CheckReport, path: str) -> None:
    if not report.ok:
        raise QueueStoreCorruptError(
            f"the backup was not kept because it failed its check: {report.problems[0]}", path=path
        )


def sync(path: str | Path) -> None:
    """Have a file, or the names in a directory, on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
