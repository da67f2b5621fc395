"""SQS through localqueue, beside bare boto3 on a queue of its own: messages a second, on an emulator of the API.

Most of the time is the emulator's and boto3's on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boto3

from localqueue.brokers import Outgoing, open_broker
from localqueue.brokers.sqs.address import read

NAME = "sqs"
TARGET = 0.8
BODY = "x" * 100
ONE_BY_ONE, BATCH, BATCHES = 20, 10, 4

#: What is measured, how many messages it is, and the two ways to do it.
Pair = tuple[str, int, Callable[[], Any], Callable[[], Any]]


def measure(url: str, turns: Callable[[list[Pair]], list[Any]]) -> list[Any]:
    """`turns` lets the ways take turns, and makes the rows."""
    client = boto3.client("sqs", **read(url).client_options())
    with open_broker(url) as broker:
        broker.delete("bench-ours")
        broker.ensure("bench-ours")
        raw_url = client.create_queue(QueueName="bench-raw")["QueueUrl"]
        client.purge_queue(QueueUrl=raw_url)
        try:
            return turns(_pairs(broker, client, raw_url))
        finally:
            broker.delete("bench-ours")
            client.delete_queue(QueueUrl=raw_url)
            client.close()


def _pairs(broker: Any, client: Any, url: str) -> list[Pair]:
    one = Outgoing(BODY.encode())

    def send() -> None:
        for _ in range(ONE_BY_ONE):
            broker.send("bench-ours", one)

    def raw_send() -> None:
        for _ in range(ONE_BY_ONE):
            client.send_message(QueueUrl=url, MessageBody=BODY)

    def receive() -> None:
        for _ in range(ONE_BY_ONE):
            assert broker.ack(broker.receive("bench-ours", wait=20)) == [True]

    def raw_receive() -> None:
        for _ in range(ONE_BY_ONE):
            (found,) = _raw_take(client, url, 1)
            client.delete_message(QueueUrl=url, ReceiptHandle=found["ReceiptHandle"])

    def send_batch() -> None:
        for _ in range(BATCHES):
            broker.send_batch("bench-ours", [one] * BATCH)

    def raw_send_batch() -> None:
        for _ in range(BATCHES):
            entries = [{"Id": str(number), "MessageBody": BODY} for number in range(BATCH)]
            client.send_message_batch(QueueUrl=url, Entries=entries)

    def receive_batch() -> None:
        for _ in range(BATCHES):
            assert broker.ack(broker.receive("bench-ours", BATCH, wait=20)) == [True] * BATCH

    def raw_receive_batch() -> None:
        for _ in range(BATCHES):
            found = _raw_take(client, url, BATCH)
            entries = [{"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(found)]
            client.delete_message_batch(QueueUrl=url, Entries=entries)

    return [
        ("send, one by one", ONE_BY_ONE, send, raw_send),
        ("receive and ack, one by one", ONE_BY_ONE, receive, raw_receive),
        (f"send, {BATCH} at a time", BATCH * BATCHES, send_batch, raw_send_batch),
        (f"receive and ack, {BATCH} at a time", BATCH * BATCHES, receive_batch, raw_receive_batch),
    ]


def _raw_take(client: Any, url: str, limit: int) -> list[dict[str, Any]]:
    """The attributes are asked for as a program wants them that heeds attempts and headers."""
    answer = client.receive_message(
        QueueUrl=url,
        MaxNumberOfMessages=limit,
        VisibilityTimeout=30,
        WaitTimeSeconds=20,
        MessageAttributeNames=["All"],
        MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
    )
    found: list[dict[str, Any]] = answer["Messages"]
    return found
