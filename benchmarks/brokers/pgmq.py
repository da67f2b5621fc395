"""PGMQ through localqueue, beside its own SQL by psycopg on a queue of its own: messages a second.

Both sides send the same text, commit each statement and settle what they read. Ours has a trigger that tells of
inserts; the bare queue has none.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg

from localqueue.brokers import Outgoing, open_broker

NAME = "pgmq"
TARGET = 0.8
BODY = "x" * 100
ONE_BY_ONE, BATCH, BATCHES = 150, 100, 5

#: What is measured, how many messages it is, and the two ways to do it.
Pair = tuple[str, int, Callable[[], Any], Callable[[], Any]]


def measure(url: str, turns: Callable[[list[Pair]], list[Any]]) -> list[Any]:
    """`turns` lets the ways take turns, and makes the rows."""
    with open_broker(url) as broker, psycopg.connect(url.replace("pgmq:", "postgresql:", 1), autocommit=True) as raw:
        broker.delete("bench_ours")
        broker.ensure("bench_ours")
        raw.execute("SELECT pgmq.drop_queue('bench_raw')")
        raw.execute("SELECT pgmq.create('bench_raw')")
        try:
            return turns(_pairs(broker, raw))
        finally:
            broker.delete("bench_ours")
            raw.execute("SELECT pgmq.drop_queue('bench_raw')")


def _pairs(broker: Any, raw: psycopg.Connection[Any]) -> list[Pair]:
    one = Outgoing(BODY.encode())

    def send() -> None:
        for _ in range(ONE_BY_ONE):
            broker.send("bench_ours", one)

    def raw_send() -> None:
        for _ in range(ONE_BY_ONE):
            raw.execute("SELECT * FROM pgmq.send(%s, %s::jsonb)", ("bench_raw", json.dumps({"body": BODY}))).fetchone()

    def receive() -> None:
        for _ in range(ONE_BY_ONE):
            assert broker.ack(broker.receive("bench_ours")) == [True]

    def raw_receive() -> None:
        for _ in range(ONE_BY_ONE):
            row = raw.execute("SELECT * FROM pgmq.read(%s, 30, 1)", ("bench_raw",)).fetchone()
            assert row is not None
            raw.execute("SELECT pgmq.delete(%s, %s::bigint)", ("bench_raw", row[0])).fetchone()

    def send_batch() -> None:
        for _ in range(BATCHES):
            broker.send_batch("bench_ours", [one] * BATCH)

    def raw_send_batch() -> None:
        for _ in range(BATCHES):
            texts = [json.dumps({"body": BODY}) for _ in range(BATCH)]
            raw.execute("SELECT * FROM pgmq.send_batch(%s, %s::jsonb[])", ("bench_raw", texts)).fetchall()

    def receive_batch() -> None:
        for _ in range(BATCHES):
            assert all(broker.ack(broker.receive("bench_ours", BATCH)))

    def raw_receive_batch() -> None:
        for _ in range(BATCHES):
            rows = raw.execute("SELECT * FROM pgmq.read(%s, 30, %s)", ("bench_raw", BATCH)).fetchall()
            raw.execute("SELECT pgmq.delete(%s, %s::bigint[])", ("bench_raw", [row[0] for row in rows])).fetchall()

    return [
        ("send, one by one", ONE_BY_ONE, send, raw_send),
        ("receive and ack, one by one", ONE_BY_ONE, receive, raw_receive),
        (f"send, {BATCH} at a time", BATCH * BATCHES, send_batch, raw_send_batch),
        (f"receive and ack, {BATCH} at a time", BATCH * BATCHES, receive_batch, raw_receive_batch),
    ]
