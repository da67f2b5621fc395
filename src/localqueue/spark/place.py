"""Opening the store that the options name, in the driver and in tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from localqueue.spark.options import Options
from localqueue.stores.port import QueueStore
from localqueue.stores.url import open_store

#: How long a server may take to answer before the plan or the task fails.
PATIENCE = 10.0


@contextmanager
def opened(options: Options, *, read_only: bool = False) -> Iterator[QueueStore]:
    """The store, closed at the end: a Python worker of Spark goes on to other tasks. What only looks says so."""
    store = open_store(options.store_url, namespace=options.namespace, read_only=read_only)
    try:
        yield store
    finally:
        store.close()
