"""A bridge between SQLite and RabbitMQ, beside what the slower of the two does in bulk by itself: messages a second.

python -m benchmarks.brokers.bridge [--messages 5000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable

from tests.broker_servers import RabbitMQ

from localqueue.bridges import Bridge
from localqueue.brokers import Outgoing, open_broker
from localqueue.brokers.port import Broker

BATCH = 100
BODY = b'{"n": "' + b"x" * 90 + b'"}'
TARGET = 0.5


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def send(broker: Broker, queue: str, count: int) -> None:
    for _ in range(count // BATCH):
        broker.send_batch(queue, [Outgoing(BODY)] * BATCH)


def drain(broker: Broker, queue: str, count: int) -> None:
    while count:
        found = broker.receive(queue, BATCH, wait=5.0)
        assert found and all(broker.ack(found))
        count -= len(found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    count = given.messages - given.messages % BATCH
    server = RabbitMQ()
    server.start()
    seen: dict[str, list[float]] = {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            store = f"sqlite:///{folder}/jobs.db"
            with open_broker(store) as here, open_broker(server.url) as there:
                for broker in (here, there):
                    broker.ensure("bench")
                for _ in range(given.rounds + 1):
                    measured = {
                        "SQLite sends": timed(lambda: send(here, "bench", count)),
                        "SQLite to RabbitMQ": timed(lambda: move(store, server.url, count)),
                        "RabbitMQ to SQLite": timed(lambda: move(server.url, store, count)),
                        "SQLite receives": timed(lambda: drain(here, "bench", count)),
                        "RabbitMQ sends": timed(lambda: send(there, "bench", count)),
                        "RabbitMQ receives": timed(lambda: drain(there, "bench", count)),
                    }
                    for name, seconds in measured.items():
                        seen.setdefault(name, []).append(count / seconds)
    finally:
        server.stop()
    rate = {name: statistics.median(values[1:]) for name, values in seen.items()}
    for name, value in rate.items():
        print(f"{name:22}{value:>10,.0f} /s")
    for name, sides in (
        ("SQLite to RabbitMQ", ("SQLite receives", "RabbitMQ sends")),
        ("RabbitMQ to SQLite", ("RabbitMQ receives", "SQLite sends")),
    ):
        slower = min(rate[side] for side in sides)
        print(f"{name}: {rate[name] / slower:.2f} of the slower side (target {TARGET})")


def move(source: str, target: str, count: int) -> None:
    with Bridge(source, target, queue="bench", batch=BATCH) as bridge:
        while bridge.counts.received < count:
            bridge._move(5.0)


if __name__ == "__main__":
    main()
