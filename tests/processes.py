"""The other processes of tests: forked from a server that has imported what they need, so each starts in no time."""

from __future__ import annotations

import multiprocessing

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(
    [
        *("pytest", "localqueue.testing.contract", "tests.stores", "tests.crash.children"),
        *("localqueue.stores.sqlite", "localqueue.stores.lmdb", "localqueue.stores.postgres"),
        *("localqueue.stores.redis", "localqueue.stores.mongodb", "lmdb", "psycopg", "redis", "pymongo"),
    ]
)
