"""huey with a task of two arguments, on SQLite or Redis: its consumer in this process, in worker threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from huey import RedisHuey, SqliteHuey
from huey.consumer import Consumer


class Adapter:
    def __init__(self, path: str, *, results: bool, concurrency: int) -> None:
        if "://" in path:
            self.huey: Any = RedisHuey(url=path, results=results)
        else:
            self.huey = SqliteHuey(filename=str(Path(path) / "huey.sqlite3"), results=results, timeout=30)
        self.tally: Any = None
        self.concurrency = concurrency
        self.jobs: list[Any] = []
        if results:
            self.fetch = self._fetch

        @self.huey.task()
        def measure_text(number: int, text: str) -> int:
            self.tally()
            return number + len(text)

        self.task = measure_text

    def put(self, item: dict[str, Any]) -> None:
        self.jobs.append(self.task(item["n"], item["path"]))

    def work_with(self, tally: Any) -> None:
        self.tally = tally
        consumer = Consumer(self.huey, workers=self.concurrency, periodic=False)
        consumer.start()
        tally.done.wait(300)
        consumer.stop(graceful=True)

    def _fetch(self) -> list[bool]:
        return [job.get(blocking=True, timeout=30) is not None for job in self.jobs]

    def forget(self) -> None:
        self.jobs.clear()

    def close(self) -> None:
        self.huey.storage.close()
