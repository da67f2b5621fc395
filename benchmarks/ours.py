"""localqueue as it is: PersistentQueue with defaults, on a SQLite file."""

from __future__ import annotations

import queue as stdlib_queue
from pathlib import Path
from typing import Any

from localqueue import PersistentQueue


class Adapter:
    def __init__(self, path: str, queue: str = "bench", maxsize: int = 0) -> None:
        self.queue: PersistentQueue[Any] = PersistentQueue(
            queue,
            store_path=Path(path) / "queue.sqlite3",
            lease_timeout=600.0,
            maxsize=maxsize,
        )
        self.put = self.queue.put
        self.put_many = self.queue.put_many
        self.lease = self.queue.get_message
        self.lease_many = self.queue.get_messages
        self.ack = self.queue.ack
        self.ack_many = self.queue.ack_many
        self.qsize = self.queue.qsize
        self.stats = self.queue.stats
        self.close = self.queue.close

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

    def value(self, message: Any) -> Any:
        return message.value
