"""persist-queue, SQLiteAckQueue: WAL, its JSON serializer.

It leaves SQLite at synchronous=FULL and offers no option; `force_normal` reaches into its
connection. It keeps acknowledged rows until they are cleared. Its get is not made for several
processes on one file: two of them may be handed the same message.
"""

from __future__ import annotations

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
        self.close = self.queue.close

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
