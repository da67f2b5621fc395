"""huey, SqliteHuey: WAL, pickled tasks.

Its own options are SQLite's FULL (the default, measured here) or OFF; `force_normal` reaches into
its connection. It has no acknowledgement: a task is deleted when it is taken, so `ack` does nothing
and a crash then loses the task.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from huey import SqliteHuey


class Adapter:
    def __init__(self, path: str, force_normal: bool = False) -> None:
        file = Path(path) / "huey.sqlite3"
        self.huey = SqliteHuey(filename=str(file), results=False, timeout=30)
        if force_normal:
            self.huey.storage.conn.execute("PRAGMA synchronous = NORMAL")

        @self.huey.task()
        def work(item: Any) -> None:
            """Never run here: only its queue is measured."""

        self.task = work
        self.lease = self.try_lease = self.huey.dequeue
        self.qsize = self.huey.storage.queue_size

    def put(self, item: Any) -> None:
        self.huey.enqueue(self.task.s(item))

    def ack(self, task: Any) -> None:
        pass

    def value(self, task: Any) -> Any:
        return task.args[0]

    def close(self) -> None:
        self.huey.storage.close()
