"""A queue by hand on redis-py: one Lua script and one round trip an operation, no pipeline.

The least that a leased queue on Redis is: a list for the order, a hash for the messages, a sorted set for the leases.
With `notify` a put also publishes, and a consumer subscribes, for the bare way from one process to another.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import redis

PUT = """
local first = redis.call('INCRBY', KEYS[1], #ARGV)
for i, payload in ipairs(ARGV) do
    local id = first - #ARGV + i
    redis.call('HSET', KEYS[2], id, payload)
    redis.call('RPUSH', KEYS[3], id)
end
return first
"""
PUT_AND_PUBLISH = PUT.replace("return first", "redis.call('PUBLISH', 'raw', '')\nreturn first")
LEASE = """
local now = redis.call('TIME')
local ids = redis.call('LPOP', KEYS[2], ARGV[1])
if not ids then return {} end
local answer = {}
for _, id in ipairs(ids) do
    redis.call('ZADD', KEYS[3], now[1] + 600, id)
    table.insert(answer, {id, redis.call('HGET', KEYS[1], id)})
end
return answer
"""
ACK = """
local acked = 0
for _, id in ipairs(ARGV) do
    if redis.call('ZREM', KEYS[2], id) == 1 then
        redis.call('HDEL', KEYS[1], id)
        acked = acked + 1
    end
end
return acked
"""

Handle = tuple[bytes, Any]


class Adapter:
    def __init__(self, url: str, *, notify: bool = False) -> None:
        self.client = redis.Redis.from_url(url)
        self.put_script = self.client.register_script(PUT_AND_PUBLISH if notify else PUT)
        self.lease_script = self.client.register_script(LEASE)
        self.ack_script = self.client.register_script(ACK)

    def put(self, item: dict[str, Any]) -> None:
        self.put_script(["raw:id", "raw:messages", "raw:ready"], [json.dumps(item)])

    def put_many(self, items: list[dict[str, Any]]) -> None:
        self.put_script(["raw:id", "raw:messages", "raw:ready"], [json.dumps(item) for item in items])

    def lease_many(self, n: int) -> list[Handle]:
        rows = self.lease_script(["raw:messages", "raw:ready", "raw:leased"], [n])
        return [(key, json.loads(payload)) for key, payload in rows]

    def lease(self) -> Handle:
        return self.lease_many(1)[0]

    def ack(self, handle: Handle) -> None:
        self.ack_script(["raw:messages", "raw:leased"], [handle[0]])

    def ack_many(self, handles: list[Handle]) -> None:
        self.ack_script(["raw:messages", "raw:leased"], [handle[0] for handle in handles])

    def work_some(self, n: int) -> int:
        for _ in range(0, n, 50):
            self.ack_many(self.lease_many(50))
        return n

    def start_worker(self, handler: Callable[[Any], object]) -> None:
        """Subscribe and claim."""
        self.stopping = threading.Event()
        subscriber = self.client.pubsub(ignore_subscribe_messages=True)
        subscriber.subscribe("raw")
        subscriber.get_message(timeout=1.0)

        def loop() -> None:
            while not self.stopping.is_set():
                while handles := self.lease_many(1):
                    handler(handles[0][1])
                    self.ack(handles[0])
                subscriber.get_message(timeout=0.2)
            subscriber.close()

        self.worker = threading.Thread(target=loop)
        self.worker.start()

    def stop_worker(self) -> None:
        self.stopping.set()
        self.worker.join()

    def close(self) -> None:
        self.client.close()
