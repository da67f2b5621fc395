"""A process that was killed while it read keeps its snapshot for nobody: writers find out while they run."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue.stores.lmdb import LMDBQueueStore
from localqueue.stores.port import LeaseRequest
from tests.crash.children import Child

pytestmark = [pytest.mark.multiprocess, pytest.mark.crash]

ROUNDS = 2_000


def die_while_reading(connection: Connection, path: str) -> None:
    def read(txn: Any) -> None:
        connection.send("reading")
        os.kill(os.getpid(), signal.SIGKILL)

    store = LMDBQueueStore(path)
    store._environment.read(read)


def size_after_a_churn(path: Path, *, killed: int, rounds: int = ROUNDS, **options: Any) -> int:
    """The size of the file when many messages went through, after some processes were killed while they read."""
    with LMDBQueueStore(path, **options) as store:
        store.put_one("jobs", "kept", None)
        for _ in range(killed):
            reader = Child(die_while_reading, str(path))
            assert reader.reports() == ["reading"] and reader.exit_code == -signal.SIGKILL
        for n in range(rounds):
            store.put_one("jobs", f"{n}", None)
            (message,) = store.lease(LeaseRequest("jobs"))
            assert store.ack_one("jobs", message.id, message.attempts)
        assert store.check().ok
    return (path / "data.mdb").stat().st_size


def test_a_reader_that_was_killed_does_not_make_the_file_grow(tmp_path: Path) -> None:
    few, many = (size_after_a_churn(tmp_path / f"{n}", killed=2, rounds=n) for n in (ROUNDS // 10, ROUNDS))
    assert many == few, "it grew with what went through"
    assert many < 10 * size_after_a_churn(tmp_path / "nobody", killed=0)


def test_a_map_does_not_grow_for_a_reader_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localqueue.stores.lmdb.connection.LARGEST_MAP", 256 * 1024)
    options: dict[str, Any] = {"map_size": 256 * 1024}
    size_after_a_churn(tmp_path / "killed", killed=1, rounds=100, **options)
