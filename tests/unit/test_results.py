"""What result stores take, and writing a result in the commit that settles a message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import PayloadError, RecordConflict
from localqueue.results import LMDBResultStore, MemoryResultStore, QueueResultStore, SQLiteResultStore
from localqueue.stores.port import Changes
from localqueue.stores.sqlite import MemoryQueueStore


@contextmanager
def in_a_queue_store(path: Path) -> Iterator[QueueResultStore]:
    with MemoryQueueStore() as store:
        yield QueueResultStore(store)


@pytest.mark.parametrize("make", [SQLiteResultStore, LMDBResultStore, in_a_queue_store])
@pytest.mark.parametrize(
    "value", [(1, 2), {"a": {1}}, object(), float("nan"), {1: "a"}], ids=lambda value: type(value).__name__
)
def test_a_value_that_would_not_come_back_equal_is_refused(
    make: Callable[..., Any], value: object, tmp_path: Path
) -> None:
    with make(tmp_path / "results") as store:
        store.save("a", 1)
        with pytest.raises(PayloadError, match=r"^results must be JSON-serializable: "):
            store.save("a", value)
        assert store.load("a") == 1


def test_the_memory_store_takes_any_object_that_can_be_copied() -> None:
    store = MemoryResultStore()
    value = ({1, 2}, ["shared"])
    store.save("a", value)
    assert store.load("a") == value
    assert store.load("a")[1] is not value[1]


def test_a_none_can_be_written_in_a_commit_and_erased_again() -> None:
    with MemoryQueueStore() as queue_store:
        results = QueueResultStore(queue_store)
        assert results.versioned("a") == (None, 0)
        queue_store.commit(Changes(records=[results.write("a", None, expect=0)]))
        value, version = results.versioned("a")
        assert value is None
        assert version > 0
        assert results.contains("a")
        with pytest.raises(RecordConflict):
            queue_store.commit(Changes(records=[results.erase("a", expect=version + 1)]))
        queue_store.commit(Changes(records=[results.erase("a", expect=version)]))
        assert not results.contains("a")
