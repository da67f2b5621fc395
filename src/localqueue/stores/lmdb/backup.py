"""A verified copy of an environment, made while it is in use."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from localqueue.errors import QueueStoreCorruptError
from localqueue.stores.lmdb import check, errors
from localqueue.stores.lmdb.connection import MAX_READERS, Environment
from localqueue.stores.port import CheckReport


def backup(source: Environment, path: str) -> None:
    """Copy a snapshot, verify the copy, then publish it under its name in one step."""
    target = Path(path)
    exists = f"backup target {path!r} exists; choose a new name, a backup never overwrites"
    if target.exists():
        raise FileExistsError(exists)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.part")
    unfinished.mkdir()
    try:
        try:
            source.copy(str(unfinished))
        except (source.driver.Error, OSError) as error:
            raise errors.translate(error, str(unfinished)) from error
        report = _check(source, unfinished)
        if not report.ok:
            raise QueueStoreCorruptError(
                f"the backup was not kept because it failed its check: {report.problems[0]}", path=path
            )
        for name in ("data.mdb", ""):
            _sync(unfinished / name)
        try:
            unfinished.rename(target)
        except OSError as error:
            raise FileExistsError(exists) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    _sync(target.parent)


def _check(source: Environment, copy: Path) -> CheckReport:
    try:
        opened = source.driver.open(str(copy), readonly=True, lock=False, max_readers=MAX_READERS)
        try:
            with opened.begin() as txn:
                return check.check(txn)
        finally:
            opened.close()
    except source.driver.Error as error:
        raise errors.translate(error, str(copy)) from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
