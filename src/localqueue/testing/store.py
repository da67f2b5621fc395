"""The store of the process, for the length of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

from localqueue.stores.default import lend
from localqueue.stores.port import QueueStore
from localqueue.stores.sqlite import MemoryQueueStore
from localqueue.testing.clock import Clock

if TYPE_CHECKING:
    from localqueue.tasks import Tasks

S = TypeVar("S", bound=QueueStore)


@contextmanager
def memory_store(*tasks: Tasks, clock: Clock | None = None) -> Iterator[MemoryQueueStore]:
    """An empty store in memory that is the store of this process until the block ends.

    Queues and tasks that were given no store of their own live in it, whatever `configure` and the environment say,
    also those that were used before; and so do `tasks`, which were given one. At the end they are back where they were,
    and what is in memory is gone. The clock can be moved.
    """
    with MemoryQueueStore(clock=Clock() if clock is None else clock) as store, use_store(store, *tasks):
        yield store


@contextmanager
def use_store(store: S, *tasks: Tasks) -> Iterator[S]:
    """The same with a store that you opened, and close: one in a file, or on a server."""
    with ExitStack() as stack:
        stack.enter_context(lend(store))
        for one in tasks:
            stack.enter_context(one.living_in(store))
        yield store
