"""A bridge is killed at every step of its way, again and again; nothing is lost, and in a store nothing is doubled."""

from __future__ import annotations

import secrets
import signal
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue.bridges import Bridge
from localqueue.brokers import Outgoing, open_broker
from localqueue.brokers.port import Broker, Delivery
from tests.crash.children import DEADLINE, Child
from tests.crash.stores import die

pytestmark = [pytest.mark.crash, pytest.mark.multiprocess, pytest.mark.slow]

MESSAGES = 24
BATCH = 3
LEASE = 1.0  # seconds until what a killed bridge held is there again, where the connection is not the lease

#: Where a bridge dies: before or after which of its calls.
STEPS = [
    ("next_batch", "after"),
    ("send", "before"),
    ("send", "after"),
    ("ack", "after"),
    ("forget", "after"),
]
PAIRS = [
    ("sqlite", "sqlite"),
    pytest.param(("sqlite", "rabbitmq"), marks=pytest.mark.server),
    pytest.param(("rabbitmq", "sqlite"), marks=pytest.mark.server),
    pytest.param(("redis+stream", "lmdb"), marks=pytest.mark.server),
    pytest.param(("lmdb", "redis"), marks=pytest.mark.server),
]


def move(
    connection: Connection, source: str, target: str, queue: str, step: str, when: str, nth: int, patience: float
) -> None:
    with Bridge(source, target, queue=queue, batch=BATCH, lease=LEASE) as bridge:
        owner = bridge._sender if step in ("send", "forget") else bridge._consumer
        die_at(owner, step, when, nth)
        bridge.run_until_empty(patience=patience)
        connection.send(tuple(bridge.counts))


def die_at(owner: Any, step: str, when: str, nth: int) -> None:
    call, count = getattr(owner, step), iter(range(1, 1_000_000))

    def call_or_die(*arguments: Any) -> Any:
        last = next(count) == nth
        if last and when == "before":
            die()
        answer = call(*arguments)
        if last:
            die()
        return answer

    setattr(owner, step, call_or_die)


def place(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    match kind:
        case "sqlite" | "lmdb":
            return f"{kind}:///{folder}/jobs-{kind}"
        case "redis+stream":
            url: str = request.getfixturevalue("redis_server").url
            return url.replace("redis://", "redis+stream://")
        case "redis":
            return str(request.getfixturevalue("redis_server").url)
        case _:
            return str(request.getfixturevalue(kind).url)


def drain(broker: Broker, queue: str) -> Counter[bytes]:
    found: list[Delivery] = []
    while more := broker.receive(queue, 10):
        found += more
    broker.ack(found)
    return Counter(one.body for one in found)


@pytest.mark.parametrize("kinds", PAIRS, ids=lambda kinds: "-to-".join(kinds))
def test_a_bridge_that_is_killed_at_every_step_moves_everything(
    kinds: tuple[str, str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("source", "target")]
    for folder in folders:
        folder.mkdir()
    source, target = (place(kind, request, folder) for kind, folder in zip(kinds, folders, strict=True))
    queue = f"q{secrets.token_hex(4)}"
    bodies = [b"%d" % number for number in range(MESSAGES)]
    with open_broker(source) as here:
        here.ensure(queue)
        here.send_batch(queue, [Outgoing(body) for body in bodies])
        forgets = here.capabilities.final_acks  # else a message may come again, and the target has to know it
    for step, when in STEPS:
        if step == "forget" and not forgets:
            continue
        child = Child(move, source, target, queue, step, when, 1, DEADLINE)
        assert child.reports() == [] and child.exit_code == -signal.SIGKILL, (step, when)
    arrived, deadline = Counter[bytes](), time.monotonic() + DEADLINE
    with open_broker(source) as here, open_broker(target) as there:
        while True:  # a second time only if a busy server has not yet given back what a killed one held
            last = Child(move, source, target, queue, "send", "before", 1_000_000, LEASE * 1.5)
            assert len(last.reports()) == 1 and last.exit_code == 0
            arrived += drain(there, queue)
            left = here.receive(queue, 5)
            if set(arrived) == set(bodies) and left == []:
                break
            assert time.monotonic() < deadline, (arrived, left)
            here.nack(left)
        if not there.capabilities.makes_queues:
            assert max(arrived.values()) == 1
        here.delete(queue)
        there.delete(queue)
