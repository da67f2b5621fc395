"""The functions of our own Redis store, called by hand through redis-py.

The same library and arguments as a put, a lease and an ack of a plain message, and as a worker's step. The
distance to `redis.py` is the price of what the functions do, the distance to `ours.py` the price of our Python, which
uses the connections of redis-py without its client and so may be less than nothing.
"""

from __future__ import annotations

import json
import time
from typing import Any

import redis

from localqueue.stores.redis import RedisQueueStore
from localqueue.stores.redis.rows import pack, packed_keys, tail
from localqueue.stores.redis.schema import digest

QUEUE = "bench"
NOW, FLAGS = b"", b""

Handle = tuple[bytes, bytes]


class Adapter:
    def __init__(self, url: str) -> None:
        self.store = RedisQueueStore(url)  # loads the library and makes the namespace
        self.store.put_one(QUEUE, "{}", None)
        self.store.purge(QUEUE)
        self.client = redis.Redis.from_url(url)
        self.store._server.ask = self._send
        self.queue = digest(QUEUE)
        self.acked: list[Handle] = []

    def _send(self, *command: bytes, again: bool = False) -> Any:
        return self.client.execute_command(*command)

    def _call(self, name: str, *arguments: bytes) -> Any:
        return self.store._raw(name, NOW, *arguments)

    def _pass(self, name: str, **arguments: Any) -> Any:
        return self._call(name, FLAGS, pack(arguments))[1]

    def put(self, item: dict[str, Any]) -> None:
        self._call("put", self.queue, time.time_ns().to_bytes(8), tail(json.dumps(item), None), b"0")

    def put_many(self, items: list[dict[str, Any]]) -> None:
        first = time.time_ns()
        keys = packed_keys(range(first, first + len(items)))
        bodies = [tail(json.dumps(item), None) for item in items]
        self._pass("put_batch", batch={"keys": keys, "queues": [self.queue], "bodies": bodies}, records=[])

    def _claim(self, n: int) -> dict[str, Any]:
        return {"queue": self.queue, "limit": n, "timeout": 600.0, "consume": False, "counted": True}

    def _leased(self, found: list[Any]) -> list[Handle]:
        """A claimed message is four parts: the key, the body, what is rare, and a record."""
        handles = []
        for n in range(0, len(found), 4):
            body = found[n + 1]
            json.loads(body[body.index(b'{"n"') :])
            handles.append((found[n], b"1"))
        return handles

    def lease(self) -> Handle:
        found, _ = self._pass("lease", **self._claim(1))
        return self._leased(found)[0]

    def ack(self, handle: Handle) -> None:
        self._call("ack", self.queue, *handle)

    def lease_many(self, n: int) -> list[Handle]:
        """A worker's step: what was acked last, and the next claim, in one call."""
        acks = [(self.queue, key, int(token)) for key, token in self.acked]
        _, found = self._pass("step", strict=False, acks=acks, records=[], lease=self._claim(n))
        self.acked = []
        return self._leased(found)

    def ack_many(self, handles: list[Handle]) -> None:
        self.acked = handles

    def close(self) -> None:
        self.client.close()
        self.store.close()
