"""The threads in which stores are called for event loops: few for each store, whatever number of coroutines calls.

A store whose calls take turns anyway (SQLite, LMDB, memory) has one. A server works on several calls at a time, so its
store has some, and no thread ever waits for a message.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

from localqueue.stores.port import QueueStore

R = TypeVar("R")

_OPENERS = 4

_of_stores: weakref.WeakKeyDictionary[QueueStore, ThreadPoolExecutor] = weakref.WeakKeyDictionary()


def threads_of(store: QueueStore) -> ThreadPoolExecutor:
    """Those of this store object, in all loops of the process. They end with it."""
    threads = _of_stores.get(store)
    if threads is None:
        count = getattr(store, "calls_at_once", 1)
        made = ThreadPoolExecutor(count, thread_name_prefix="localqueue-aio")
        threads = _of_stores.setdefault(store, made)
    return threads


@cache
def opener() -> ThreadPoolExecutor:
    """For what is done before there is a store."""
    return ThreadPoolExecutor(_OPENERS, thread_name_prefix="localqueue-open")


def call(threads: ThreadPoolExecutor, work: Callable[..., R], *arguments: Any) -> asyncio.Future[R]:
    """Work off the loop, in the context of the caller (its trace, say).

    Cancelled before a thread has begun with it, it is not done; later it ends by itself.
    """
    return asyncio.get_running_loop().run_in_executor(threads, copy_context().run, work, *arguments)


async def outlast(*futures: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Wait until they are done, also when cancelled: the caller raises what is returned once it has tidied up."""
    cancelled: asyncio.CancelledError | None = None
    while not all(future.done() for future in futures):
        try:
            await asyncio.wait(futures)
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


def _in_child() -> None:
    """The threads stayed in the parent."""
    _of_stores.clear()
    opener.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
