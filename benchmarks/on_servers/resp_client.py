"""The ways to speak to Redis: our store over the driver's connections as it is, over the driver's client and its pool,
and over a socket with a parser by hand.

python benchmarks/on_servers/resp_client.py [--rounds 15]

The same store and the same functions on one server; only the way of a command differs. The ways take turns, the first
round is thrown away, ratios are taken within a round. The driver parses with hiredis where that is installed.
"""

from __future__ import annotations

import argparse
import select
import socket
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.utils

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.servers import Redis

from localqueue.stores.port import Changes, LeaseRequest, Settle
from localqueue.stores.redis import RedisQueueStore

QUEUE, PAYLOAD, BATCH = "bench", '{"n": 1, "text": "' + "x" * 90 + '"}', 50
OURS = "connections of redis-py (ours)"


class Wire:
    """A connected socket and the protocol by hand, in the place of a connection of the driver."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb", 1 << 16)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def can_read(self, timeout: float) -> bool:
        return bool(self._poll.poll(timeout * 1000))

    def send_packed_command(self, command: Sequence[bytes], check_health: bool) -> None:
        self._socket.sendall(b"".join(command))

    def read_response(self) -> Any:
        line = self._answers.readline()
        kind, rest = line[0], line[1:-2]
        if kind == 36:  # $
            size = int(rest)
            return None if size < 0 else self._answers.read(size + 2)[:-2]
        if kind == 42:  # *
            return [self.read_response() for _ in range(int(rest))]
        if kind == 45:  # -
            raise ConnectionError(rest.decode())
        return int(rest) if kind == 58 else rest

    def disconnect(self) -> None:
        self._answers.close()
        self._socket.close()


def put_one(store: RedisQueueStore) -> int:
    for _ in range(200):
        store.put_one(QUEUE, PAYLOAD, None)
    return 200


def claim_and_ack(store: RedisQueueStore) -> int:
    for _ in range(200):
        (message,) = store.lease(LeaseRequest(QUEUE))
        store.ack_one(QUEUE, message.id, message.attempts)
    return 200


def put_many(store: RedisQueueStore) -> int:
    for _ in range(2):
        store.put_batch(QUEUE, [PAYLOAD] * 1000, None)
    return 2000


def worker_step(store: RedisQueueStore) -> int:
    acks: list[Settle] = []
    for n in range(2000 // BATCH + 1):
        request = LeaseRequest(QUEUE, BATCH) if n < 2000 // BATCH else None
        leased = store.commit(Changes(settle=acks, lease=request, strict=False)).leased
        acks = [Settle(QUEUE, message.id, "ack", message.attempts) for message in leased]
    return 2000


OPERATIONS: dict[str, Callable[[RedisQueueStore], int]] = {
    "put one": put_one,
    "claim + ack": claim_and_ack,
    "put_many of 1000": put_many,
    f"worker step of {BATCH}": worker_step,
}


def open_ways(url: str) -> dict[str, RedisQueueStore]:
    ways = {name: RedisQueueStore(url, namespace=name) for name in (OURS, "client of redis-py", "socket by hand")}
    for store in ways.values():
        store.put_one(QUEUE, PAYLOAD, None)  # the library is there, the queue has its name
    client = redis.Redis.from_url(url, protocol=2)
    ways["client of redis-py"]._server.ask = lambda *command, again=False: client.execute_command(*command)
    by_hand = ways["socket by hand"]._server
    by_hand._drop_idle()
    by_hand._new = lambda address: Wire(url)
    return ways


Taken = list[tuple[float, float]]  # for each round: seconds, and seconds of the processor on our side, for one message


def measure(ways: dict[str, RedisQueueStore], rounds: int) -> dict[str, dict[str, Taken]]:
    taken: dict[str, dict[str, Taken]] = {what: {way: [] for way in ways} for what in OPERATIONS}
    for number in range(rounds + 1):
        for way in list(ways)[:: -1 if number % 2 else 1]:
            for what, operation in OPERATIONS.items():
                began, busy = time.perf_counter(), time.process_time()
                done = operation(ways[way])
                if number:
                    seconds = (time.perf_counter() - began) / done, (time.process_time() - busy) / done
                    taken[what][way].append(seconds)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    server = Redis("--appendonly", "yes", "--appendfsync", "everysec")
    server.start()
    try:
        taken = measure(open_ways(server.url), rounds)
    finally:
        server.stop()
    parsed = "hiredis" if redis.utils.HIREDIS_AVAILABLE else "Python"
    print(f"redis-py {redis.__version__}, parsed by {parsed}; medians of {rounds} rounds\n")
    print(f"{'':54}{'a second':>12}{'ratio':>8}{'our CPU':>12}")
    for what, ways in taken.items():
        for way, rounds_of in ways.items():
            wall, busy = (statistics.median(column) for column in zip(*rounds_of, strict=True))
            ratio = statistics.median(base[0] / one[0] for one, base in zip(rounds_of, ways[OURS], strict=True))
            print(f"{what:20}{way:34}{1 / wall:12,.0f}{ratio:8.2f}{busy * 1e6:9.1f} us")


if __name__ == "__main__":
    main()
