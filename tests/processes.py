"""The other processes of tests: forked from a server that has imported what they need, so each starts in no time."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import tempfile
from pathlib import Path

from localqueue.stores import open_store
from localqueue.stores.sqlite import statements

_NOBODY = 65534

_PR_SET_SECUREBITS, _SECBIT_NOROOT = 28, 1
_LINUX_CAPABILITY_VERSION_3 = 0x20080522

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(
    [
        *("pytest", "localqueue.contracts.contract", "tests.stores", "tests.crash.children", "tests.workflows.killed"),
        *("localqueue.stores.sqlite", "localqueue.stores.lmdb", "localqueue.stores.postgres"),
        *("localqueue.stores.redis", "localqueue.stores.mongodb", "lmdb", "psycopg", "redis", "pymongo"),
    ]
)


def obey_permissions() -> None:
    """Permissions do not bind root, so root lays its privileges down: it stays the user that it is, and whatever is
    loaded later can be read."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_LINUX_CAPABILITY_VERSION_3, 0)
    if libc.prctl(_PR_SET_SECUREBITS, _SECBIT_NOROOT, 0, 0, 0) or libc.capset(header, (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno(), "the privileges of root could not be laid down")


def become_nobody() -> None:
    """Permissions do not bind root, so root becomes nobody, who may not be able to read this checkout: what stores load
    on first use is loaded before."""
    if os.geteuid() != 0:
        return
    for file in Path(statements.__file__).parent.glob("sql/*.sql"):
        getattr(statements, file.stem.upper())
    with tempfile.TemporaryDirectory() as scratch:
        for url in (f"sqlite:///{scratch}/file", f"lmdb:///{scratch}/folder"):
            for read_only in (False, True):
                with open_store(url, read_only=read_only) as store:
                    if not read_only:
                        store.put_one("jobs", "x", None)
                    assert len(store.scan("jobs")) == 1 and store.check().ok
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)
