"""Giving space back: a file that others have mapped can not shrink, so a compacted copy is put in its place.

Whoever has an environment open holds a lock on the first byte of LMDB's own lock file, and whoever opens one waits for
it. The copy is made under the exclusive one. Those who waited do not look at the file for the number of its last
transaction, but go on from the one in the lock file, which was that of the old file; LMDB then reads the one of its two
meta pages that goes with an odd or an even number. So both pages of the copy must lead to all that is in it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from localqueue.errors import QueueStoreLockedError
from localqueue.stores.port import Compacted
from localqueue.stores.privacy import make_file
from localqueue.stores.publication import sync

_NO_KEY = b"\xff"  # names no table


def compact(driver: Any, path: str, file: str) -> Compacted:
    """Replace a file that is not open in this process, and whose writers wait."""
    copy = f"{file}.compact"
    with _alone(path):
        before = os.stat(file)
        with suppress(FileNotFoundError):
            os.unlink(copy)  # which a process that was killed left behind
        try:
            make_file(copy, like=file)
            made = os.stat(copy)
            if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
                os.chown(copy, before.st_uid, before.st_gid)
            _copy(driver, path, copy)
            _lead_from_both_pages(driver, copy)
            after = os.path.getsize(copy)
            sync(copy)
            os.replace(copy, file)
            sync(path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(copy)
            raise
    return Compacted(before.st_size, after)


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Nobody has the environment open, and who opens it waits."""
    with open(os.path.join(path, "lock.mdb"), "r+b") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
        except OSError as error:
            raise QueueStoreLockedError(
                f"LMDB queue store at {path!r} is open in other processes, and a file that they have mapped can not be "
                "replaced: nothing was changed; stop them and compact again, or make a backup, which is compact as "
                "well. Free pages are reused meanwhile",
                path=path,
            ) from error
        yield


def _copy(driver: Any, path: str, copy: str) -> None:
    source = driver.open(path, readonly=True, lock=False)
    try:
        with open(copy, "r+b") as file:
            source.copyfd(file.fileno(), compact=True)
    finally:
        source.close()


def _lead_from_both_pages(driver: Any, copy: str) -> None:
    target = driver.open(copy, subdir=False, lock=False, map_size=os.path.getsize(copy) + (1 << 20), max_dbs=0)
    try:
        for _ in range(2):
            with target.begin(write=True) as txn:
                txn.put(_NO_KEY, b"")
                txn.delete(_NO_KEY)
    finally:
        target.close()
