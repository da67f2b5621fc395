"""localqueue as it is: PersistentQueue with defaults, on a SQLite file, or on a server where the path is an address.

The options name what is measured against the defaults: a policy, the journal, a hook, a kind of worker.
"""

from __future__ import annotations

import asyncio
import queue as stdlib_queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from localqueue import (
    AsyncNotification,
    AsyncWorker,
    EffectivelyOnceDelivery,
    InProcessNotification,
    PersistentQueue,
    ReturnStoredResult,
    Worker,
    open_store,
)

NOTIFICATIONS = {"thread": InProcessNotification, "asyncio": AsyncNotification}


class Adapter:
    def __init__(
        self,
        path: str,
        queue: str = "bench",
        maxsize: int = 0,
        *,
        once: bool = False,
        keep_results: bool = False,
        notification: str | None = None,
        journal: bool = False,
        hook: bool = False,
        asynchronous: bool = False,
        **worker_options: Any,
    ) -> None:
        policies: dict[str, Any] = {}
        if once:
            results = {"result_policy": ReturnStoredResult()} if keep_results else {}
            policies["delivery_policy"] = EffectivelyOnceDelivery(**results)
        if notification is not None:
            policies["notification_policy"] = NOTIFICATIONS[notification]()
        if hook:
            policies["hooks"] = lambda event: None
        self.store = open_store(path) if "://" in path else None
        where = {"store": self.store} if self.store is not None else {"store_path": Path(path) / "queue.sqlite3"}
        self.queue: PersistentQueue[Any] = PersistentQueue(
            queue,
            **where,
            lease_timeout=600.0,
            maxsize=maxsize,
            **policies,
        )
        if journal:
            self.queue.store.enable_journal()
        self.put = self._put_with_key if once else self.queue.put
        self.put_many = self._put_many_with_keys if once else self.queue.put_many
        self.lease = self.queue.get_message
        self.lease_many = self.queue.get_messages
        self.ack = self.queue.ack
        self.ack_many = self.queue.ack_many
        self.qsize = self.queue.qsize
        self.stats = self.queue.stats
        self.asynchronous = asynchronous
        self.worker_options = worker_options

    def _put_with_key(self, item: dict[str, Any]) -> Any:
        return self.queue.put(item, dedupe_key=str(item["n"]))

    def _put_many_with_keys(self, items: list[dict[str, Any]]) -> Any:
        return self.queue.put_many(items, dedupe_keys=[str(item["n"]) for item in items])

    def try_lease(self) -> Any:
        try:
            return self.queue.get_message(block=False)
        except stdlib_queue.Empty:
            return None

    def try_lease_many(self, n: int) -> list[Any]:
        try:
            return self.queue.get_messages(n, block=False)
        except stdlib_queue.Empty:
            return []

    def wait(self, seconds: float) -> Any:
        try:
            return self.queue.get_message(timeout=seconds)
        except stdlib_queue.Empty:
            return None

    def close(self) -> None:
        self.queue.close()
        if self.store is not None:
            self.store.close()

    def value(self, message: Any) -> Any:
        return message.value

    def work(self, n: int) -> None:
        if self.asynchronous:
            counts = asyncio.run(AsyncWorker(self.queue, do_nothing_async, **self.worker_options).run_until_empty())
        else:
            counts = Worker(self.queue, do_nothing, **self.worker_options).run_until_empty()
        if counts.acked != n:
            raise RuntimeError(f"{counts} where {n} messages were to be acked")

    def work_some(self, n: int) -> int:
        """Stops itself when n are done; what it had prefetched beyond them goes back."""
        done = 0

        def count(item: Any) -> None:
            nonlocal done
            done += 1
            if done == n:
                worker.stop()

        worker = Worker(self.queue, count, **self.worker_options)
        return worker.run().acked

    def start_worker(self, handler: Callable[[Any], object]) -> None:
        if self.asynchronous:

            async def handle(item: Any) -> None:
                handler(item)

            self.worker: Any = AsyncWorker(self.queue, handle, **self.worker_options)
            self.thread = threading.Thread(target=lambda: asyncio.run(self.worker.run()))
        else:
            self.worker = Worker(self.queue, handler, **self.worker_options)
            self.thread = threading.Thread(target=self.worker.run)
        self.thread.start()

    def stop_worker(self) -> None:
        self.worker.stop()
        self.thread.join()


def do_nothing(item: Any) -> None:
    pass


async def do_nothing_async(item: Any) -> None:
    pass
