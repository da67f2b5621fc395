"""A worker whose one lane is the calling thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from localqueue.queue import PersistentQueue
from localqueue.workers.lane import Lane
from localqueue.workers.outcome import Outcome
from localqueue.workers.worker import Worker


class WorkerHere(Worker):
    """Handlers run in the thread that runs the worker, so that they see what is local to it."""

    def __init__(self, queue: PersistentQueue[Any], handler: Callable[..., Any], **options: Any) -> None:
        for name in ("concurrency", "executor", "timeout"):
            if name in options:
                raise TypeError(f"one message at a time is handled in the calling thread, so {name}= can not be kept")
        super().__init__(queue, handler, **options)

    def _start_lane(self, number: int, outcomes: Sequence[Outcome] = ()) -> None:
        lane = Lane(self, number=number, outcomes=outcomes)
        self._lanes.append(lane)
        lane.run()
