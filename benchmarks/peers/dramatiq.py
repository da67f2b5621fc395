"""dramatiq on Redis: its default middleware, its worker with the default of eight threads, no results."""

from __future__ import annotations

from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.worker import Worker


class Adapter:
    def __init__(self, url: str) -> None:
        self.url = url
        self.tally: Any = None
        self.broker, self.actor = self._declare()

    def _declare(self) -> tuple[RedisBroker, Any]:
        broker = RedisBroker(url=self.url)

        @dramatiq.actor(actor_name="bench", broker=broker)
        def work(item: dict[str, Any]) -> None:
            self.tally()

        return broker, work

    def put(self, item: dict[str, Any]) -> None:
        self.actor.send(item)

    def work_with(self, tally: Any) -> None:
        self.tally = tally
        broker, _ = self._declare()  # a worker leaves its middleware behind on the broker
        worker = Worker(broker)
        worker.start()
        tally.done.wait(300)
        broker.join("default", timeout=60_000)
        worker.stop()
        broker.close()

    def close(self) -> None:
        self.broker.close()
