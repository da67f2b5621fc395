"""RQ on Redis with a function of two arguments: its SimpleWorker, which runs jobs in its own process one by one."""

from __future__ import annotations

import sys
from typing import Any

from redis import Redis
from rq import Queue, SimpleWorker

TALLY: Any = None


def measure_text(number: int, text: str) -> int:
    TALLY()
    return number + len(text)


class Adapter:
    def __init__(self, url: str, *, results: bool, concurrency: int) -> None:
        sys.modules["bench_adapter"].measure_text = measure_text  # type: ignore[attr-defined]
        self.client = Redis.from_url(url)
        self.queue = Queue(connection=self.client)
        self.options: dict[str, Any] = {} if results else {"result_ttl": 0}
        self.jobs: list[Any] = []
        if results:
            self.fetch = self._fetch

    def put(self, item: dict[str, Any]) -> None:
        self.jobs.append(self.queue.enqueue(measure_text, item["n"], item["path"], **self.options))

    def work_with(self, tally: Any) -> None:
        global TALLY
        TALLY = tally
        SimpleWorker([self.queue], connection=self.client).work(burst=True, logging_level="WARNING")

    def _fetch(self) -> list[bool]:
        return [job.return_value(refresh=True) is not None for job in self.jobs]

    def forget(self) -> None:
        self.jobs.clear()

    def close(self) -> None:
        self.client.close()
