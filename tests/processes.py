"""The other processes of tests: forked from a server that has imported what they need, so each starts in no time."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from pathlib import Path

from localqueue.stores import open_store
from localqueue.stores.sqlite import statements

_NOBODY = 65534

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(
    [
        *("pytest", "localqueue.testing.contract", "tests.stores", "tests.crash.children"),
        *("localqueue.stores.sqlite", "localqueue.stores.lmdb", "localqueue.stores.postgres"),
        *("localqueue.stores.redis", "localqueue.stores.mongodb", "lmdb", "psycopg", "redis", "pymongo"),
    ]
)


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
