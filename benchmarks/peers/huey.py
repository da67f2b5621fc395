"""huey, SqliteHuey: WAL, pickled tasks.

Its own options are SQLite's FULL (the default, measured here) or OFF; `force_normal` reaches into
its connection. It has no acknowledgement: a task is deleted when it is taken, so `ack` does nothing
and a crash then loses the task. Its worker is its consumer with one worker thread, in this process.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from huey import SqliteHuey
from huey.consumer import Consumer


class Adapter:
    def __init__(self, path: str, force_normal: bool = False) -> None:
        file = Path(path) / "huey.sqlite3"
        self.huey = SqliteHuey(filename=str(file), results=False, timeout=30)
        if force_normal:
            self.huey.storage.conn.execute("PRAGMA synchronous = NORMAL")

        @self.huey.task()
        def work(item: Any) -> None:
            self.handler(item)

        self.task = work
        self.handler: Callable[[Any], object] = lambda item: None
        self.consumer: Consumer | None = None
        self.lease = self.try_lease = self.huey.dequeue
        self.qsize = self.huey.storage.queue_size

    def put(self, item: Any) -> None:
        self.huey.enqueue(self.task.s(item))

    def ack(self, task: Any) -> None:
        pass

    def value(self, task: Any) -> Any:
        return task.args[0]

    def work(self, n: int) -> None:
        count, done = itertools.count(1), threading.Event()
        self.start_worker(lambda item: next(count) == n and done.set())
        done.wait()

    def start_worker(self, handler: Callable[[Any], object]) -> None:
        self.stop_worker()
        self.handler = handler
        self.consumer = Consumer(self.huey, workers=1, periodic=False)
        self.consumer.start()

    def stop_worker(self) -> None:
        if self.consumer is not None:
            self.consumer.stop(graceful=True)
            self.consumer = None

    def close(self) -> None:
        self.stop_worker()
        self.huey.storage.close()
