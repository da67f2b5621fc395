"""RabbitMQ through localqueue, beside bare pika (and aio-pika, where it is installed) on a quorum queue of its own.

All sides send persistent, mandatory messages, wait for their confirms, and ack each message by itself when it has come.
What a pair sends, the pair behind it receives.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.servers import Postgres

from brokers.bare_rabbitmq import HAS_AIO, BareRabbitMQ
from harness import Table, percentile
from localqueue.brokers import Message, Outgoing, open_broker

NAME = "rabbitmq"
TARGET = {"send": 0.6, "receive": 0.7}
OURS, BARE = "bench-ours", "bench-bare"
BODY = b"x" * 100
ONE_BY_ONE, BATCH, BATCHES, PREFETCH = 200, 100, 20, 100
MANY = BATCH * BATCHES

Pair = tuple[str, int, Callable[[], Any], Callable[[], Any]]


def measure(url: str, turns: Callable[[list[Pair]], list[Any]]) -> list[Any]:
    """`turns` lets the ways take turns, and makes the rows."""
    with open_broker(url) as broker, BareRabbitMQ(url, BARE, BODY) as bare:
        for queue in (OURS, BARE):
            broker.delete(queue)
            broker.ensure(queue)
        try:
            return turns(_pairs(broker, bare))
        finally:
            for queue in (OURS, BARE):
                broker.delete(queue)


def _pairs(broker: Any, bare: BareRabbitMQ) -> list[Pair]:
    one = Outgoing(BODY)

    def send() -> None:
        for _ in range(ONE_BY_ONE):
            broker.send(OURS, one)

    def get() -> None:
        for _ in range(ONE_BY_ONE):
            assert broker.ack(broker.receive(OURS)) == [True]

    def send_batches() -> None:
        for _ in range(BATCHES):
            broker.send_batch(OURS, [one] * BATCH)

    def receive_batches() -> None:
        left = MANY
        while left:
            found = broker.receive(OURS, min(left, BATCH), wait=10.0)
            for delivery in found:
                assert broker.ack([delivery]) == [True]
            left -= len(found)

    def consume() -> None:
        take_pushed(broker, OURS, MANY, PREFETCH)

    sends, pushed = f"send, {BATCH} at a time", f"receive by push, prefetch {PREFETCH}"
    pairs: list[Pair] = [
        ("send, one by one", ONE_BY_ONE, send, lambda: bare.send(ONE_BY_ONE)),
        ("receive, one by one", ONE_BY_ONE, get, lambda: bare.get(ONE_BY_ONE)),
        (f"{sends} (SelectConnection too)", MANY, send_batches, lambda: bare.send_batches(BATCHES, BATCH)),
        (f"{pushed} (BlockingConnection)", MANY, consume, lambda: bare.consume(MANY, PREFETCH)),
        (f"{sends} (BlockingConnection one by one)", MANY, send_batches, lambda: bare.send(MANY)),
        (f"{pushed} (SelectConnection)", MANY, consume, lambda: bare.consume_by_select(MANY, PREFETCH)),
    ]
    if HAS_AIO:
        pairs += [
            (f"{sends} (aio-pika too)", MANY, send_batches, lambda: bare.send_by_aio(BATCHES, BATCH)),
            (f"{pushed} (aio-pika)", MANY, consume, lambda: bare.consume_by_aio(MANY, PREFETCH)),
        ]
    return [
        *pairs,
        (f"{sends} (SelectConnection too) again", MANY, send_batches, lambda: bare.send_batches(BATCHES, BATCH)),
        (
            f"receive, {BATCH} at a time (BlockingConnection by push)",
            MANY,
            receive_batches,
            lambda: bare.consume(MANY, BATCH),
        ),
    ]


def take_pushed(broker: Any, queue: str, count: int, prefetch: int) -> None:
    subscription = broker.subscribe(queue, prefetch=prefetch)
    for _ in range(count):
        told = subscription.next(30.0)
        assert isinstance(told, Message)
        broker.ack([told.delivery])
    subscription.close()


def tables(url: str) -> list[Table]:
    return [_prefetch(url), _many_queues(url), _latency(url)]


def _prefetch(url: str) -> Table:
    rows = []
    with open_broker(url) as broker, BareRabbitMQ(url, BARE, BODY) as bare:
        for queue in (OURS, BARE):
            broker.ensure(queue)
        for prefetch in (1, 10, 100, 1000):
            ours, theirs = [], []
            for _ in range(4):
                count = 300 if prefetch == 1 else MANY
                for queue in (OURS, BARE):
                    broker.send_batch(queue, [Outgoing(BODY)] * count)
                ours.append(count / _seconds(take_pushed, broker, OURS, count, prefetch))
                theirs.append(count / _seconds(bare.consume, count, prefetch))
            rows.append([str(prefetch), *(f"{statistics.median(side[1:]):,.0f}" for side in (ours, theirs))])
        for queue in (OURS, BARE):
            broker.delete(queue)
    return Table("rabbitmq: prefetch, messages received and acked a second", ["prefetch", "ours", "bare pika"], rows)


def _many_queues(url: str) -> Table:
    rows = []
    with open_broker(url) as broker:
        names = [f"bench-{number}" for number in range(100)]
        for name in names:
            broker.ensure(name)
        for count in (1, 10, 100):
            chosen, each = names[:count], MANY // count
            for name in chosen:
                broker.send_batch(name, [Outgoing(BODY)] * each)
            threads = [threading.Thread(target=take_pushed, args=(broker, name, each, PREFETCH)) for name in chosen]
            since = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            rows.append([str(count), f"{MANY / (time.perf_counter() - since):,.0f}"])
        for name in names:
            broker.delete(name)
    title = "rabbitmq: queues on one connection, a thread for each, messages received and acked a second in all"
    return Table(title, ["queues", "ours"], rows)


def _latency(url: str) -> Table:
    rows, postgres = [], Postgres()
    postgres.start()
    try:
        for name, address in (("RabbitMQ, push of the message", url), ("PostgreSQL store, pg_notify", postgres.url)):
            with open_broker(address) as sender, open_broker(address) as receiver:
                sender.ensure(OURS)
                taken = sorted(_wake(sender, receiver, 400)[100:])
                sender.delete(OURS)
            rows.append([name, f"{percentile(taken, 50) * 1000:.2f} ms", f"{percentile(taken, 99) * 1000:.2f} ms"])
    finally:
        postgres.stop()
    title = "from the call of send to the message in another thread, over a second connection"
    return Table(title, ["", "p50", "p99"], rows, note="one message at a time, 300 of them")


def _wake(sender: Any, receiver: Any, count: int) -> list[float]:
    subscription, seconds = receiver.subscribe(OURS), []
    arrived, ready = threading.Event(), threading.Event()

    def listen() -> None:
        for _ in range(count):
            ready.set()
            found: list[Any] = []
            while not found:
                told = subscription.next(10.0)
                found = [told.delivery] if isinstance(told, Message) else receiver.receive(OURS)
            seconds.append(time.perf_counter() - since[0])
            receiver.ack(found)
            arrived.set()

    since = [0.0]
    thread = threading.Thread(target=listen)
    thread.start()
    for _ in range(count):
        ready.wait()
        ready.clear()
        time.sleep(0.002)  # so that the listener waits again
        since[0] = time.perf_counter()
        sender.send(OURS, Outgoing(BODY))
        arrived.wait()
        arrived.clear()
    thread.join()
    subscription.close()
    return seconds


def _seconds(work: Callable[..., Any], *arguments: Any) -> float:
    since = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - since
