"""persist-queue, SQLiteAckQueue: WAL, its JSON serializer.

It leaves SQLite at synchronous=FULL and offers no option; `force_normal` reaches into its
connection. It keeps acknowledged rows until they are cleared. Its get is not made for several
processes on one file: two of them may be handed the same message. It has no worker of its own:
a loop of get, handler and ack is what its documentation shows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import persistqueue
from persistqueue.serializers import json as json_serializer


class Adapter:
    def __init__(self, path: str, force_normal: bool = False) -> None:
        self.queue = persistqueue.SQLiteAckQueue(path, serializer=json_serializer, multithreading=True, timeout=30)
        if force_normal:
            self.queue._putter.execute("PRAGMA synchronous = NORMAL")
        self.put = self.queue.put
        self.qsize = self.queue.qsize
        self.worker: threading.Thread | None = None
        self.stopping = False

    def lease(self) -> dict[str, Any]:
        return self.queue.get(raw=True)

    def try_lease(self) -> dict[str, Any] | None:
        try:
            return self.queue.get(block=False, raw=True)
        except persistqueue.Empty:
            return None

    def wait(self, seconds: float) -> dict[str, Any] | None:
        try:
            return self.queue.get(timeout=seconds, raw=True)
        except persistqueue.Empty:
            return None

    def ack(self, handle: dict[str, Any]) -> None:
        self.queue.ack(id=handle["pqid"])

    def value(self, handle: dict[str, Any]) -> Any:
        return handle["data"]

    def work(self, n: int) -> None:
        for _ in range(n):
            self.handle_one(self.queue.get(raw=True), lambda item: None)

    def handle_one(self, message: dict[str, Any], handler: Callable[[Any], object]) -> None:
        handler(message["data"])
        self.queue.ack(id=message["pqid"])

    def start_worker(self, handler: Callable[[Any], object]) -> None:
        def loop() -> None:
            while not self.stopping:
                message = self.wait(1.0)
                if message is not None:
                    self.handle_one(message, handler)

        self.stopping = False
        self.worker = threading.Thread(target=loop)
        self.worker.start()

    def stop_worker(self) -> None:
        if self.worker is not None:
            self.stopping = True
            self.worker.join()
            self.worker = None

    def close(self) -> None:
        self.stop_worker()
        self.queue.close()
