"""A backup gets its name when it is whole, checked and on disk, and never takes that of something else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localqueue.errors import QueueStoreCorruptError
from localqueue.stores.port import CheckReport


@contextmanager
def published(path: str) -> Iterator[Path]:
    """Where to write a file or a directory that is published as `path` when the block has ended well."""
    target = Path(path)
    exists = FileExistsError(f"backup target {path!r} exists; choose a new name, a backup never overwrites")
    if target.exists():
        raise exists
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        yield unfinished
        if unfinished.is_dir():
            for part in (*unfinished.iterdir(), unfinished):
                _sync(part)
            try:
                unfinished.rename(target)
            except OSError as error:
                raise exists from error
        else:
            _sync(unfinished)
            os.link(unfinished, target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True) if unfinished.is_dir() else unfinished.unlink(missing_ok=True)
    _sync(target.parent)


def require_sound(report: CheckReport, path: str) -> None:
    if not report.ok:
        raise QueueStoreCorruptError(
            f"the backup was not kept because it failed its check: {report.problems[0]}", path=path
        )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
