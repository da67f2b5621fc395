"""localqueue 1.4.1: Rust core, WAL, synchronous=NORMAL (its RELAXED default), JSON payloads.

It keeps acknowledged rows until they are purged.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

from localqueue import DeliveryPolicy, Empty, SimpleQueue, Worker


class Adapter:
    def __init__(self, path: str, queue: str = "bench", maxsize: int = 0) -> None:
        self.queue = SimpleQueue(
            path,
            queue,
            delivery=DeliveryPolicy(lease_seconds=600),
            max_pending_jobs=maxsize or None,
        )
        self.put = self.queue.put
        self.lease = self.queue.get
        self.ack = self.queue.ack
        self.stats = self.queue.stats
        self.close = self.queue.close

    def put_many(self, items: list[Any]) -> None:
        self.queue.put_many(items)

    def try_lease(self) -> Any:
        # Its non-waiting get gives up when the file is locked; a zero timeout waits for the lock.
        return self.wait(0)

    def wait(self, seconds: float) -> Any:
        try:
            return self.queue.get(timeout=seconds)
        except Empty:
            return None

    def value(self, job: Any) -> Any:
        return job.data

    def work(self, n: int) -> None:
        count = itertools.count(1)
        worker = Worker(self.queue, lambda job: next(count) == n and worker.stop())
        worker.run()

    def start_worker(self, handler: Callable[[Any], object]) -> None:
        self.worker = Worker(self.queue, lambda job: handler(job.data))
        self.thread = threading.Thread(target=self.worker.run)
        self.thread.start()

    def stop_worker(self) -> None:
        self.worker.stop()
        self.thread.join()
