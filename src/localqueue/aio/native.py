"""Which calls need no thread: the everyday ones of a queue that nobody watches, in a store that has them on loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from localqueue.aio.threads import call, threads_of
from localqueue.queue import PersistentQueue
from localqueue.stores.port import AsyncCalls, QueueStore

R = TypeVar("R")


def calls_of(queue: PersistentQueue[Any]) -> AsyncCalls | None:
    """Those of the queue's store for this loop, or None: hooks and codecs of the user's may block, so they are called
    in threads, and a store that is not open yet is opened in one."""
    desk = queue.desk
    store = desk.tenancy.current
    if store is None or desk.emitter.hooks is not None or not desk.payloads.is_prompt:
        return None
    made: Callable[..., AsyncCalls | None] | None = getattr(store, "async_calls", None)
    return None if made is None else made(partial(_off, store))


def _off(store: QueueStore, work: Callable[[], R]) -> Any:
    return call(threads_of(store), work)
