"""What push costs and saves: latency of push-only and hybrid consumers, and what an idle consumer takes.

    python -m benchmarks.brokers.hybrid [--samples 500]

One thread sends, another waits at a consumer; the latency is from before the send to the return of `next_batch`. The
modes take turns, so that a slow minute is shared by all. Idle is the processor time of this process while one consumer
of each mode waits for nothing.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.broker_servers import RabbitMQ, pgmq_url
from tests.servers import Postgres, Redis

from localqueue.brokers import HybridConsumer, Outgoing, open_broker

MODES = ("push_only", "hybrid")
IDLE = 5.0


@contextmanager
def places() -> Iterator[dict[str, str]]:
    servers: list[Any] = [RabbitMQ(), Redis(), Postgres()]
    with tempfile.TemporaryDirectory() as folder:
        try:
            for server in servers:
                server.start()
            rabbitmq, redis, postgres = servers
            yield {
                "sqlite": f"sqlite:///{folder}/jobs.db",
                "postgres": postgres.url,
                "pgmq": pgmq_url(postgres),
                "redis-streams": redis.url.replace("redis://", "redis+stream://"),
                "rabbitmq": rabbitmq.url,
            }
        finally:
            for server in servers:
                server.stop()


class Pair:
    """A consumer in a thread, and a sender that waits until it has the message."""

    def __init__(self, url: str, mode: str, queue: str) -> None:
        self.broker = open_broker(url)
        self.queue = queue
        self.broker.ensure(queue)
        self.arrived = threading.Event()
        self.at = 0.0
        self.consumer = HybridConsumer(url, queue, mode=mode)  # type: ignore[arg-type]
        self.thread = threading.Thread(target=self._consume)
        self.thread.start()
        self.latency()  # the first takes the subscription with it

    def _consume(self) -> None:
        for delivery in self.consumer:
            self.at = time.perf_counter()
            self.consumer.ack(delivery)
            self.arrived.set()

    def latency(self) -> float:
        self.arrived.clear()
        began = time.perf_counter()
        self.broker.send(self.queue, Outgoing(b"x"))
        assert self.arrived.wait(30)
        return self.at - began

    def close(self) -> None:
        self.consumer.stop()
        self.thread.join()
        self.consumer.close()
        self.broker.delete(self.queue)
        self.broker.close()


def idle(url: str, mode: str) -> float:
    """Milliseconds of processor time for each second that a consumer waits for nothing."""
    with open_broker(url) as broker:
        broker.ensure("idle")
    with HybridConsumer(url, "idle", mode=mode, fallback_interval=1.0) as consumer:  # type: ignore[arg-type]
        consumer.next_batch(0.5)
        before = resource.getrusage(resource.RUSAGE_SELF)
        consumer.next_batch(IDLE)
        after = resource.getrusage(resource.RUSAGE_SELF)
        return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / IDLE


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=500)
    samples = parser.parse_args().samples
    with places() as urls:
        print(f"send to next_batch, ms, {samples} samples each, in turns")
        print(f"{'':14}{'push_only p50':>15}{'p99':>8}{'hybrid p50':>12}{'p99':>8}{'ratio p50':>11}")
        for name, url in urls.items():
            pairs = {mode: Pair(url, mode, f"bench_{mode}") for mode in MODES}
            seen: dict[str, list[float]] = {mode: [] for mode in MODES}
            for _ in range(samples):
                for mode in random.sample(MODES, len(MODES)):
                    seen[mode].append(1000 * pairs[mode].latency())
            for pair in pairs.values():
                pair.close()
            line = f"{name:14}"
            for mode, width in zip(MODES, (15, 12), strict=True):
                cut = statistics.quantiles(seen[mode], n=100)
                line += f"{statistics.median(seen[mode]):>{width}.3f}{cut[98]:>8.2f}"
            print(line + f"{statistics.median(seen['hybrid']) / statistics.median(seen['push_only']):>11.2f}")
        print("\nidle, ms of processor time a second (polling once a second)")
        print(f"{'':14}{'push_only':>11}{'hybrid':>9}{'poll_only':>11}")
        for name, url in urls.items():
            costs = [idle(url, mode) for mode in (*MODES, "poll_only")]
            print(f"{name:14}{costs[0]:>11.2f}{costs[1]:>9.2f}{costs[2]:>11.2f}")


if __name__ == "__main__":
    main()
