"""localqueue 0.5.0: WAL, synchronous=NORMAL, JSON payloads; it lets one choose neither."""

from __future__ import annotations

import queue as stdlib_queue
from pathlib import Path
from typing import Any

from localqueue import PersistentQueue


class Adapter:
    def __init__(self, path: str, queue: str = "bench", maxsize: int = 0) -> None:
        self.queue = PersistentQueue(
            queue,
            store_path=Path(path) / "queue.sqlite3",
            lease_timeout=600.0,
            maxsize=maxsize,
        )
        self.put = self.queue.put
        self.lease = self.queue.get_message
        self.ack = self.queue.ack
        self.qsize = self.queue.qsize
        self.stats = self.queue.stats

    def try_lease(self) -> Any:
        return self.wait(0)

    def wait(self, seconds: float) -> Any:
        try:
            return self.queue.get_message(timeout=seconds)
        except stdlib_queue.Empty:
            return None

    def value(self, message: Any) -> Any:
        return message.value

    def close(self) -> None:
        """It has no close; the connection goes with the object."""
