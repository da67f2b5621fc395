"""Parts of a worker in processes of their own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from localqueue.tasks.branches import Branches
from localqueue.workers.counts import WorkerCounts


def test_a_process_that_dies_is_started_again_until_the_worker_stops(tmp_path: Path) -> None:
    starts, parent = tmp_path / "starts", os.getpid()

    def die() -> WorkerCounts:
        with starts.open("a") as file:
            file.write(".")
        if starts.stat().st_size == 3:
            os.kill(parent, signal.SIGUSR1)
        os._exit(1)

    branches = Branches([die])
    before = signal.signal(signal.SIGUSR1, lambda *_: branches.stop())
    try:
        assert branches.run() == WorkerCounts()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert starts.read_text() == "..."
