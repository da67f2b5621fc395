"""Where the workflows of tests run: a worker in a thread of the test, and the ways to wait for what it does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from localqueue.contracts.steps import PATIENCE
from localqueue.tasks.worker import TaskWorker
from localqueue.workflows import Run, RunStatus, Workflow


@contextmanager
def working(workflow: Workflow, store: Any, **options: Any) -> Iterator[TaskWorker]:
    """A worker that works until the block ends."""
    worker = workflow.worker(store, **{"concurrency": 4, **options})
    thread = threading.Thread(target=worker.run, kwargs={"signals": False})
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the worker does not stop"


def done(run: Run) -> RunStatus:
    """How a run stands that has to succeed."""
    return run.wait(PATIENCE)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.005)


def states(status: RunStatus) -> dict[str, str]:
    return {one.name: one.state for one in status.steps}


def state_of(run: Run, step: str) -> str:
    return run.status().step(step).state


class Log:
    """What steps have done, in the order in which they did."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self._lock = threading.Lock()

    def __call__(self, *line: Any) -> None:
        with self._lock:
            self.lines.append(line if len(line) != 1 else line[0])

    def count(self, line: Any) -> int:
        return self.lines.count(line)
