"""Every store of this package does what the reference model does, step by step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from localqueue.contracts.machine import store_machine
from localqueue.stores.port import QueueStore
from localqueue.stores.sqlite import MemoryQueueStore, SQLiteQueueStore

pytestmark = pytest.mark.slow

_root = tempfile.TemporaryDirectory(prefix="localqueue-machine-")


def _fresh(name: str) -> Path:
    return Path(tempfile.mkdtemp(dir=_root.name)) / name


def _lmdb() -> Callable[..., QueueStore]:
    from localqueue.stores.lmdb import LMDBQueueStore

    return partial(LMDBQueueStore, _fresh("queues.lmdb"))


def teardown_module() -> None:
    _root.cleanup()


_machine = partial(store_machine, steady_line=True)
TestSQLite = _machine(lambda: partial(SQLiteQueueStore, _fresh("queues.sqlite3")), reopenable=True)
TestMemory = _machine(lambda: MemoryQueueStore, reopenable=False)
TestLMDB = _machine(_lmdb, reopenable=True)
