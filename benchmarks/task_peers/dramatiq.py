"""dramatiq on Redis with an actor of two arguments: its default middleware, and its result backend where wanted."""

from __future__ import annotations

import logging
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from dramatiq.worker import Worker

logging.getLogger("dramatiq").setLevel(logging.CRITICAL)  # it warns of every result that nobody keeps


class Adapter:
    def __init__(self, url: str, *, results: bool, concurrency: int) -> None:
        self.url = url
        self.results = results
        self.concurrency = concurrency
        self.tally: Any = None
        self.jobs: list[Any] = []
        self.broker, self.actor = self._declare()
        if results:
            self.fetch = self._fetch

    def _declare(self) -> tuple[RedisBroker, Any]:
        broker = RedisBroker(url=self.url)
        options: dict[str, Any] = {}
        if self.results:
            self.backend = RedisBackend(url=self.url)
            broker.add_middleware(Results(backend=self.backend))
            options["store_results"] = True

        @dramatiq.actor(actor_name="bench", broker=broker, **options)
        def measure_text(number: int, text: str) -> int:
            self.tally()
            return number + len(text)

        return broker, measure_text

    def put(self, item: dict[str, Any]) -> None:
        self.jobs.append(self.actor.send(item["n"], item["path"]))

    def work_with(self, tally: Any) -> None:
        self.tally = tally
        broker, _ = self._declare()  # a worker leaves its middleware behind on the broker
        worker = Worker(broker, worker_threads=self.concurrency)
        worker.start()
        tally.done.wait(300)
        broker.join("default", timeout=60_000)
        worker.stop()
        broker.close()

    def _fetch(self) -> list[bool]:
        backend = self.backend
        return [job.get_result(backend=backend, block=True, timeout=30_000) is not None for job in self.jobs]

    def forget(self) -> None:
        self.jobs.clear()

    def close(self) -> None:
        self.broker.close()
