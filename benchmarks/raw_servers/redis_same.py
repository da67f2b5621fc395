"""The functions of our own Redis store, called by hand through redis-py.

The same library and arguments as a put, a lease and an ack of a plain message, and as a worker's step. The
distance to `redis.py` is the price of what the functions do, the distance to `ours.py` the price of our Python, which
speaks to the server without redis-py in between and so may be less than nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import redis

from localqueue.stores.redis import RedisQueueStore
from localqueue.stores.redis.library import FULL_NAMES
from localqueue.stores.redis.names import digest
from localqueue.stores.redis.values import tail

QUEUE = "bench"
NOW, FLAGS, NOTHING = b"", b"", b""

Handle = tuple[bytes, bytes]


class Adapter:
    def __init__(self, url: str) -> None:
        self.store = RedisQueueStore(url)  # loads the library and makes the namespace
        self.store.put_one(QUEUE, "{}", None)
        self.store.purge(QUEUE)
        self.client = redis.Redis.from_url(url)
        self.store._link.call = self._send
        self.queue = digest(QUEUE)
        self.acked: list[Handle] = []

    def _send(self, name: str, parts: Sequence[bytes], *, again: bool = False) -> Any:
        return self.client.execute_command("FCALL", FULL_NAMES[name], *parts)

    def _call(self, name: str, *arguments: bytes) -> Any:
        return self.store._raw(name, NOW, *arguments)

    def put(self, item: dict[str, Any]) -> None:
        self._call("put", self.queue, time.time_ns().to_bytes(8), tail(json.dumps(item), None), b"0")

    def put_many(self, items: list[dict[str, Any]]) -> None:
        first = time.time_ns()
        ids = b"".join(key.to_bytes(8) for key in range(first, first + len(items)))
        self._call("put_batch", FLAGS, self.queue, ids, *(tail(json.dumps(item), None) for item in items))

    def _claim(self, n: int) -> tuple[bytes, ...]:
        return (self.queue, str(n).encode(), b"600.0", NOTHING, NOTHING, b"0", b"1", NOTHING)

    def _leased(self, found: list[Any]) -> list[Handle]:
        """A claimed message is four parts: the key, the body, what is rare, and a record."""
        handles = []
        for n in range(0, len(found), 4):
            body = found[n + 1]
            json.loads(body[body.index(b'{"n"') :])
            handles.append((found[n], b"1"))
        return handles

    def lease(self) -> Handle:
        _, (found, _), _ = self._call("lease", FLAGS, *self._claim(1))
        return self._leased(found)[0]

    def ack(self, handle: Handle) -> None:
        self._call("ack", self.queue, *handle)

    def lease_many(self, n: int) -> list[Handle]:
        """A worker's step: what was acked last, and the next claim, in one call."""
        acks = [part for handle in self.acked for part in (self.queue, *handle)]
        count = str(len(self.acked)).encode()
        _, (_, found), _ = self._call("step", FLAGS, b"0", count, *acks, b"0", b"1", *self._claim(n))
        self.acked = []
        return self._leased(found)

    def ack_many(self, handles: list[Handle]) -> None:
        self.acked = handles

    def close(self) -> None:
        self.client.close()
        self.store.close()
