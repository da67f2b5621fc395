"""A verified copy of an environment, made while it is in use."""

from __future__ import annotations

from pathlib import Path

from localqueue.stores.lmdb import check, errors
from localqueue.stores.lmdb.connection import DATA_FILE, MAX_READERS, Environment
from localqueue.stores.port import CheckReport
from localqueue.stores.privacy import make_directory
from localqueue.stores.publication import published, require_sound


def backup(source: Environment, path: str) -> None:
    """Copy a snapshot and verify the copy, before it gets its name."""
    with published(path) as unfinished:
        make_directory(unfinished)
        try:
            source.copy(str(unfinished / DATA_FILE))
        except (source.driver.Error, OSError) as error:
            raise errors.translate(error, str(unfinished)) from error
        require_sound(_check(source, unfinished), path)


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
