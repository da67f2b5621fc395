"""litequeue: WAL, synchronous=NORMAL by itself; payloads are strings, so the JSON is ours.

It keeps finished rows until they are pruned. It has no leases that end and no blocking get.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from litequeue import LiteQueue


class Adapter:
    def __init__(self, path: str, maxsize: int = 0) -> None:
        file = Path(path) / "litequeue.sqlite3"
        self.queue = LiteQueue(str(file), maxsize=maxsize or None, timeout=30)
        self.try_lease = self.queue.pop
        self.qsize = self.queue.qsize
        self.close = self.queue.close

    def put(self, item: Any) -> None:
        self.queue.put(json.dumps(item))

    def lease(self) -> tuple[str, Any]:
        message = self.queue.pop()
        return message, json.loads(message.data)

    def ack(self, handle: Any) -> None:
        message = handle[0] if isinstance(handle, tuple) else handle
        self.queue.done(message.message_id)

    def value(self, message: Any) -> Any:
        return json.loads(message.data)
