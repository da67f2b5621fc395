"""Kafka through localqueue, beside bare confluent-kafka at the same settings, on a topic of its own.

Both sides wait for the reports of what they send, and commit what they have received before they go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from localqueue.brokers import Outgoing, open_broker
from localqueue.brokers.kafka.settings import read

NAME = "kafka"
TARGET = 0.6
BODY = b"x" * 100
ONE_BY_ONE, BATCH, BATCHES = 50, 500, 20
MOST_ROUNDS = 20
TOPICS = ("bench-ours", "bench-raw", "bench-ours-sent", "bench-raw-sent")

#: What is measured, how many messages it is, and the two ways to do it.
Pair = tuple[str, int, Callable[[], Any], Callable[[], Any]]


def measure(url: str, turns: Callable[[list[Pair]], list[Any]]) -> list[Any]:
    """`turns` lets the ways take turns, and makes the rows."""
    settings = read(url)
    with open_broker(url) as broker:
        for topic in TOPICS:
            broker.delete(topic)
            broker.ensure(topic)
        producer, consumer = Producer(settings.producer()), Consumer(settings.consumer("bench-raw"))
        consumer.subscribe(["bench-raw"])
        try:
            rows = turns(_sends(broker, producer))
            for topic in ("bench-ours", "bench-raw"):
                for _ in range(MOST_ROUNDS * (BATCHES + 1)):
                    broker.send_batch(topic, [Outgoing(BODY)] * BATCH)
            return rows + turns(_receives(broker, consumer))
        finally:
            consumer.close()
            for topic in TOPICS:
                broker.delete(topic)


def _sends(broker: Any, producer: Any) -> list[Pair]:
    """Into topics that nobody reads meanwhile."""
    one = Outgoing(BODY)

    def raw_sends(count: int) -> None:
        confirmed: list[tuple[int, int]] = []

        def report(error: Any, record: Any) -> None:
            assert error is None
            confirmed.append((record.partition(), record.offset()))

        for _ in range(count):
            producer.produce("bench-raw-sent", BODY, on_delivery=report)
        producer.flush()
        assert len(confirmed) == count

    def send() -> None:
        for _ in range(ONE_BY_ONE):
            broker.send("bench-ours-sent", one)

    def raw_send() -> None:
        for _ in range(ONE_BY_ONE):
            raw_sends(1)

    def send_batch() -> None:
        for _ in range(BATCHES):
            broker.send_batch("bench-ours-sent", [one] * BATCH)

    def raw_send_batch() -> None:
        for _ in range(BATCHES):
            raw_sends(BATCH)

    return [
        ("send, one by one", ONE_BY_ONE, send, raw_send),
        (f"send, {BATCH} at a time", BATCH * BATCHES, send_batch, raw_send_batch),
    ]


def _receives(broker: Any, consumer: Any) -> list[Pair]:
    def raw_receives(count: int, at_once: int) -> None:
        while count:
            first = consumer.poll(20)
            found = [first, *consumer.consume(min(at_once, count) - 1, 0)] if min(at_once, count) > 1 else [first]
            records = [record for record in found if record.error() is None]
            if records:
                assert all(record.value() == BODY for record in records)
                ends = {record.partition(): record.offset() + 1 for record in records}
                consumer.commit(offsets=[TopicPartition("bench-raw", *end) for end in ends.items()], asynchronous=False)
            count -= len(records)

    def receives(count: int, at_once: int) -> None:
        while count:
            found = broker.receive("bench-ours", min(at_once, count), wait=20)
            assert all(broker.ack(found))
            count -= len(found)

    many = BATCH * BATCHES
    return [
        (
            "receive and ack, one by one",
            ONE_BY_ONE,
            lambda: receives(ONE_BY_ONE, 1),
            lambda: raw_receives(ONE_BY_ONE, 1),
        ),
        (f"receive and ack, {BATCH} at a time", many, lambda: receives(many, BATCH), lambda: raw_receives(many, BATCH)),
    ]
