"""The fixtures of pytest, which finds them by an entry point. What they need is loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from localqueue.stores.sqlite import MemoryQueueStore
    from localqueue.testing import Clock


@pytest.fixture
def localqueue_clock() -> Clock:
    """The clock of `localqueue_store`: `localqueue_clock.advance(60)`."""
    from localqueue.testing import Clock

    return Clock()


@pytest.fixture
def localqueue_store(localqueue_clock: Clock) -> Iterator[MemoryQueueStore]:
    """An empty store in memory, which queues and tasks without a store of their own use during the test."""
    from localqueue.testing import memory_store

    with memory_store(clock=localqueue_clock) as store:
        yield store
