"""The driver's errors as ours."""

from __future__ import annotations

import pytest

from localqueue import MemoryQueueStore
from localqueue.errors import QueueStoreClosedError


def test_who_reads_while_another_thread_closes_the_store_is_told_that_it_is_closed() -> None:
    store = MemoryQueueStore()
    store._writer.close()  # the first half of closing: writes and reads share the connection
    try:
        with pytest.raises(QueueStoreClosedError, match="is closed"):
            store.qsize("jobs")
    finally:
        store.close()
