"""Redis Streams through localqueue, beside bare redis-py (XADD, XREADGROUP, XACK and XDEL) on a stream of its own.

The bare client sends the same fields. What it reads has no lease and nobody else is kept from acking it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis

from localqueue.brokers import Outgoing, open_broker

NAME = "redis streams"
TARGET = 0.6
BODY = b"x" * 100
ONE_BY_ONE, BATCH, BATCHES = 300, 100, 20

#: What is measured, how many messages it is, and the two ways to do it.
Pair = tuple[str, int, Callable[[], Any], Callable[[], Any]]


def measure(url: str, turns: Callable[[list[Pair]], list[Any]]) -> list[Any]:
    """`turns` lets the ways take turns, and makes the rows."""
    with open_broker(url) as broker, redis.Redis.from_url(url.replace("+stream", "", 1)) as client:
        client.delete("bench-raw")
        broker.delete("bench-ours")
        broker.ensure("bench-ours")
        client.xgroup_create("bench-raw", "bench", "0", mkstream=True)
        try:
            return turns(_pairs(broker, client))
        finally:
            broker.delete("bench-ours")
            client.delete("bench-raw")


def _pairs(broker: Any, client: Any) -> list[Pair]:
    one = Outgoing(BODY)

    def send() -> None:
        for _ in range(ONE_BY_ONE):
            broker.send("bench-ours", one)

    def raw_send() -> None:
        for _ in range(ONE_BY_ONE):
            client.xadd("bench-raw", {"body": BODY})

    def receive() -> None:
        for _ in range(ONE_BY_ONE):
            assert broker.ack(broker.receive("bench-ours", wait=20)) == [True]

    def raw_receive() -> None:
        for _ in range(ONE_BY_ONE):
            assert _raw_receive(client, 1) == 1

    def send_batch() -> None:
        for _ in range(BATCHES):
            broker.send_batch("bench-ours", [one] * BATCH)

    def raw_send_batch() -> None:
        for _ in range(BATCHES):
            with client.pipeline(transaction=True) as pipeline:
                for _ in range(BATCH):
                    pipeline.xadd("bench-raw", {"body": BODY})
                pipeline.execute()

    def receive_batch() -> None:
        for _ in range(BATCHES):
            assert all(broker.ack(broker.receive("bench-ours", BATCH, wait=20)))

    def raw_receive_batch() -> None:
        for _ in range(BATCHES):
            assert _raw_receive(client, BATCH) == BATCH

    return [
        ("send, one by one", ONE_BY_ONE, send, raw_send),
        ("receive and ack, one by one", ONE_BY_ONE, receive, raw_receive),
        (f"send, {BATCH} at a time", BATCH * BATCHES, send_batch, raw_send_batch),
        (f"receive and ack, {BATCH} at a time", BATCH * BATCHES, receive_batch, raw_receive_batch),
    ]


def _raw_receive(client: Any, limit: int) -> int:
    ((_, found),) = client.xreadgroup("bench", "raw", {"bench-raw": ">"}, count=limit, block=20_000)
    ids = [entry for entry, _ in found]
    with client.pipeline(transaction=True) as pipeline:
        pipeline.xack("bench-raw", "bench", *ids)
        pipeline.xdel("bench-raw", *ids)
        pipeline.execute()
    return len(found)
