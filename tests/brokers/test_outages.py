"""Servers are killed, connections cut and delayed, a disk is full: nothing that was confirmed is lost.

In each test one sends numbered messages and another handles them by a hybrid consumer, while something breaks at points
that are counted in messages. In the end their history is checked (history.py).
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from localqueue.bridges import Bridge
from localqueue.brokers import Outgoing, open_broker
from localqueue.brokers.port import Broker
from localqueue.contracts.broker_harness import take_many
from localqueue.errors import QueueStoreUnavailableError
from tests.broker_servers import Kafka, RabbitMQ, pgmq_url
from tests.brokers.traffic import PATIENCE, Traffic
from tests.faults.proxy import Proxy
from tests.servers import Postgres, Redis, Server

pytestmark = [pytest.mark.server, pytest.mark.crash, pytest.mark.slow]

MESSAGES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A broker that a test may break, with options by which it waits no longer than it has to."""

    server: Server
    url: str
    options: dict[str, Any]

    def open(self) -> Broker:
        return open_broker(self.url, **self.options)

    def behind(self, proxy: Proxy) -> Callable[[], Broker]:
        url = re.sub(rf"127\.0\.0\.1:{self.server.port}\b", f"127.0.0.1:{proxy.port}", self.url)
        assert url != self.url
        return lambda: open_broker(url, **self.options)


def place(kind: str, server: Any) -> Place:
    match kind:
        case "rabbitmq":
            return Place(server=server, url=server.url, options={"timeout": 2, "heartbeat": 2})
        case "redis+stream":
            url = server.url.replace("redis://", "redis+stream://")
            return Place(server=server, url=url, options={"timeout": 2.0})
        case "pgmq":
            return Place(server=server, url=pgmq_url(server), options={"timeout": 2.0})
        case "kafka":
            return Place(server=server, url=f"{server.url}?timeout=2&session_timeout=6&partitions=2", options={})
        case "sqs":
            return Place(server=server, url=f"{server.url}&wait=1", options={})
        case _:
            url = server.url
            return Place(server=server, url=url, options={"timeout": 2.0, "namespace": f"o{secrets.token_hex(4)}"})


SHARED = {
    "rabbitmq": "rabbitmq",
    "redis+stream": "redis_server",
    "pgmq": "postgres",
    "postgres": "postgres",
    "sqs": "sqs_server",
}
IMPATIENT = {"rabbitmq", "redis+stream"}  # they give up a silent server as soon as their options say


@pytest.fixture
def queue() -> str:
    return f"q{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def mortal() -> Iterator[Callable[[type[Server]], Server]]:
    """Servers that only tests of this module use, so that they may be killed; one of a kind."""
    started: dict[type[Server], Server] = {}

    def start(kind: type[Server]) -> Server:
        if kind not in started:
            started[kind] = kind()
            started[kind].start()
        return started[kind]

    yield start
    for server in started.values():
        server.stop()


@pytest.mark.parametrize("kind", SHARED)
def test_nothing_is_lost_when_connections_are_cut_and_delayed(
    kind: str, queue: str, request: pytest.FixtureRequest
) -> None:
    here = place(kind, request.getfixturevalue(SHARED[kind]))
    with Proxy(here.server.port) as proxy, Traffic(here.behind(proxy), queue) as traffic:
        traffic.send_to(MESSAGES // 3)
        traffic.wait_for(lambda: len(traffic.handled) >= 5)
        proxy.cut(3, "middle")
        traffic.wait_for(lambda: proxy.has_cut and len(traffic.confirmed) >= MESSAGES // 3)

        proxy.silence()
        sent, failures = traffic.sent, len(traffic.failures)
        traffic.send_to(2 * MESSAGES // 3)
        if kind in IMPATIENT:
            traffic.wait_for(lambda: len(traffic.failures) > failures)
        else:  # that would take longer than a test should
            traffic.wait_for(lambda: traffic.sent > sent)
        proxy.mend()
        traffic.wait_for(lambda: len(traffic.confirmed) >= 2 * MESSAGES // 3)

        traffic.wait_until_recovered()
        proxy.block()
        traffic.wait_until_degraded()
        proxy.mend()
        traffic.wait_until_recovered()

        if kind != "sqs":
            cut_until_polled(proxy, traffic)
            traffic.wait_until_recovered()
            traffic.require_push()
        traffic.send_to(len(traffic.confirmed) + MESSAGES // 3)
        traffic.finish()
    assert traffic.counters.polled >= 1


def test_an_answer_of_sqs_that_is_cut_off_is_an_outage_and_no_success(sqs_server: Any, queue: str) -> None:
    here = place("sqs", sqs_server)
    with here.open() as other:
        other.ensure(queue)
    with Proxy(here.server.port) as proxy, here.behind(proxy)() as broker:
        for ask in (broker.stats, lambda queue: broker.send(queue, Outgoing(b"x")), broker.stats):
            proxy.cut(1, "middle")
            with pytest.raises(QueueStoreUnavailableError, match="went away while it answered"):
                ask(queue)
            broker.send(queue, Outgoing(b"x"))


def cut_until_polled(proxy: Proxy, traffic: Traffic) -> None:
    """While messages wait that were not pushed yet, end all connections: then they are asked for."""
    for _ in range(10):
        if traffic.counters.polled:
            return
        traffic.wait_until_recovered()
        traffic.hold()
        traffic.send_to(len(traffic.confirmed) + 20)
        traffic.wait_for(lambda: len(traffic.confirmed) >= traffic.goal)
        proxy.drop()
        traffic.go_on()
        traffic.wait_for(lambda: traffic.confirmed <= traffic.settled)
    raise AssertionError(f"nothing came by polling while push was down: {traffic.counters}")


@pytest.mark.parametrize(
    ("kind", "of"),
    [("rabbitmq", RabbitMQ), ("redis+stream", Redis), ("pgmq", Postgres), ("postgres", Postgres), ("kafka", Kafka)],
    ids=["rabbitmq", "redis+stream", "pgmq", "postgres", "kafka"],
)
def test_nothing_is_lost_when_the_server_is_killed_and_started_again(
    kind: str, of: type[Server], queue: str, mortal: Callable[[type[Server]], Server]
) -> None:
    here = place(kind, mortal(of))
    with Traffic(here.open, queue) as traffic:
        if isinstance(here.server, RabbitMQ):
            here.server.save_declarations()
        traffic.stream()
        traffic.wait_for(lambda: len(traffic.acked) >= MESSAGES // 3)
        traffic.wait_until_recovered()  # should the server have been busy
        before = traffic.counters.degradations
        here.server.kill()
        traffic.send_to(len(traffic.confirmed) + MESSAGES // 3)
        traffic.wait_for(lambda: traffic.failures)
        traffic.wait_until_degraded()
        traffic.wait_for(lambda: traffic.counters.polls >= 2)
        assert traffic.counters.degradations == before + 1  # it is one outage, however often push was tried again
        here.server.start()
        traffic.wait_until_recovered()
        traffic.require_push()
        traffic.finish()


def test_a_subscription_of_kafka_leaves_no_partition_to_the_poll_before_it(kafka: Kafka, queue: str) -> None:
    with open_broker(f"{kafka.url}?partitions=2") as broker:
        broker.ensure(queue)
        broker.send(queue, Outgoing(b"polled"))
        (polled,) = take_many(broker, queue, 1)
        bodies = {b"%d" % number for number in range(20)}
        with closing(broker.subscribe(queue)) as subscription:  # type: ignore[attr-defined]
            assert broker.ack([polled]) == [True]
            broker.send_batch(queue, [Outgoing(body, key=body.decode()) for body in bodies])
            pushed = [subscription.next(PATIENCE) for _ in bodies]
            assert {one.delivery.body for one in pushed} == bodies
            assert all(broker.ack([one.delivery for one in pushed]))


def test_the_disk_alarm_fails_sends_and_stops_no_handler(rabbitmq: RabbitMQ, queue: str) -> None:
    here = place("rabbitmq", rabbitmq)
    with Proxy(rabbitmq.port) as proxy, Traffic(here.behind(proxy), queue) as traffic:
        traffic.send_to(MESSAGES // 3)
        traffic.wait_for(lambda: len(traffic.handled) >= 5)
        traffic.hold()
        traffic.wait_for(lambda: len(traffic.confirmed) >= MESSAGES // 3)
        rabbitmq.raise_disk_alarm()
        try:
            traffic.send_to(MESSAGES)
            traffic.wait_for(lambda: sum("alarm" in str(failure) for failure in traffic.failures) >= 2)
            traffic.go_on()
            traffic.wait_for(lambda: traffic.confirmed <= traffic.settled)
            traffic.wait_until_recovered()
            before = traffic.counters.degradations
            proxy.drop()  # and it connects again during the alarm
            traffic.wait_for(lambda: traffic.counters.degradations > before)
            traffic.wait_until_recovered()
            assert len(traffic.confirmed) < MESSAGES
        finally:
            rabbitmq.clear_disk_alarm()
        traffic.finish()
    assert traffic.counters.pushed >= 1


def test_a_bridge_moves_everything_in_order_although_its_target_is_killed(
    tmp_path: Path, queue: str, mortal: Callable[[type[Server]], Server]
) -> None:
    here = place("rabbitmq", mortal(RabbitMQ))
    assert isinstance(here.server, RabbitMQ)
    bodies = [b"%d" % number for number in range(MESSAGES)]
    half_way, killed, tried_again = threading.Event(), threading.Event(), threading.Event()

    def look(message: Outgoing) -> Outgoing:
        if message.body == bodies[MESSAGES // 2]:
            if killed.is_set():
                tried_again.set()
            half_way.set()
            assert killed.wait(PATIENCE)
        return message

    jobs = f"sqlite:///{tmp_path}/jobs.db"
    with open_broker(jobs) as source, here.open() as target, open_broker(here.url) as patient:
        source.send_batch(queue, [Outgoing(body) for body in bodies])
        patient.ensure(queue)
        here.server.save_declarations()
        with Bridge(source, target, queue=queue, batch=7, change=look) as bridge:
            moving = ThreadPoolExecutor(1).submit(bridge.run_until_empty)
            assert half_way.wait(PATIENCE)
            here.server.kill()
            killed.set()
            assert tried_again.wait(PATIENCE)
            here.server.start()
            moving.result(PATIENCE)
        assert bridge.counts.retries >= 1 and bridge.counts.lost == 0
        assert (source.stats(queue).ready, source.stats(queue).inflight) == (0, 0)
        found = take_many(patient, queue, MESSAGES)
        while more := patient.receive(queue, MESSAGES):
            found += more
        assert list(dict.fromkeys(one.body for one in found)) == bodies
        assert all(patient.ack(found))
