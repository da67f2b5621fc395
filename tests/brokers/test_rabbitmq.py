"""RabbitMQ beyond the contract: confirms, alarms, cut connections, a killed server, how many connections it takes."""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from localqueue.brokers import Message, Outgoing, open_broker
from localqueue.brokers.port import Delivery
from localqueue.brokers.rabbitmq import RabbitMQBroker, settings, topology
from localqueue.contracts.broker_harness import bodies, none_left, numbered, take, take_many
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.errors import (
    QueueStoreError,
    QueueStoreFullError,
    QueueStoreMissingError,
    QueueStoreUnavailableError,
)
from tests.broker_servers import RabbitMQ
from tests.faults.proxy import Proxy

pytestmark = pytest.mark.server


@pytest.fixture
def broker(rabbitmq: RabbitMQ) -> Iterator[RabbitMQBroker]:
    with RabbitMQBroker(rabbitmq.url) as broker:
        yield broker


@pytest.fixture
def queue(broker: RabbitMQBroker) -> Iterator[str]:
    name = f"q{secrets.token_hex(5)}"
    broker.ensure(name)
    yield name
    broker.delete(name)


def through(proxy: Proxy, **options: Any) -> RabbitMQBroker:
    return RabbitMQBroker(f"amqp://guest:guest@127.0.0.1:{proxy.port}/", **options)


def pushed(subscription: Any) -> Delivery:
    told = subscription.next(PATIENCE)
    assert isinstance(told, Message)
    return told.delivery


@contextmanager
def hurried(broker: RabbitMQBroker, seconds: float) -> Iterator[None]:
    """In the block its connections, which are open, wait no longer than this: to open them may take longer."""
    sessions = [broker._connections._sender, broker._connections._taker]
    for session in sessions:
        assert session is not None and session.timeout == broker._settings.timeout
        session.timeout = seconds
    yield
    for session in sessions:
        session.timeout = broker._settings.timeout


@contextmanager
def one_more_consumer(rabbitmq: RabbitMQ, queue: str) -> Iterator[None]:
    """After the block, until the server knows of a consumer that it did not know of before."""
    import pika

    with closing(pika.BlockingConnection(pika.URLParameters(rabbitmq.url))) as connection:
        channel = connection.channel()
        before = channel.queue_declare(queue, passive=True).method.consumer_count
        yield
        deadline = time.monotonic() + PATIENCE
        while channel.queue_declare(queue, passive=True).method.consumer_count <= before:
            assert time.monotonic() < deadline


# sending


def test_a_message_that_the_queue_rejects_is_an_error(rabbitmq: RabbitMQ, broker: RabbitMQBroker) -> None:
    """Which only a broker whose confirms are on can know."""
    import pika

    name = f"q{secrets.token_hex(5)}"
    full = {"x-queue-type": "quorum", "x-max-length": 1, "x-overflow": "reject-publish"}
    with closing(pika.BlockingConnection(pika.URLParameters(rabbitmq.url))) as connection:
        connection.channel().queue_declare(name, durable=True, arguments=full)
    with pytest.raises(QueueStoreFullError, match=name):
        for _ in range(20):  # the limit is soft
            broker.send_batch(name, numbered(5))
    taken = broker.stats(name).ready
    assert taken is not None and 0 < taken < 100
    broker.delete(name)


def test_a_delayed_message_for_a_queue_that_is_not_there_is_refused(broker: RabbitMQBroker) -> None:
    with pytest.raises(QueueStoreMissingError, match="nowhere"):
        broker.send("nowhere", Outgoing(b"x", delay=1.0))
    with pytest.raises(QueueStoreMissingError):
        broker.stats(topology.delay_of("nowhere", 1000))


def test_a_batch_that_no_queue_takes_does_not_spoil_another(broker: RabbitMQBroker, queue: str) -> None:
    threads, refused = Background(), list[str]()

    def send_nowhere() -> None:
        for _ in range(20):
            try:
                broker.send_batch("nowhere", [Outgoing(b"x", id="same"), Outgoing(b"x", id="same")])
            except QueueStoreMissingError as error:
                refused.append(str(error))

    threads.start(send_nowhere)
    for _ in range(20):
        broker.send(queue, Outgoing(b"x", id="same"))
    threads.join()
    assert len(refused) == 20
    assert broker.stats(queue).ready == 20


def test_a_body_of_many_frames_arrives(broker: RabbitMQBroker, queue: str) -> None:
    body = secrets.token_bytes(1_000_003)
    broker.send(queue, Outgoing(body))
    assert take(broker, queue).body == body


def test_what_the_protocol_can_not_carry_is_refused_before_anything_is_sent(broker: RabbitMQBroker, queue: str) -> None:
    for bad in (
        Outgoing(b"x", id="i" * 256),
        Outgoing(b"x", {"n" * 256: "v"}),
        Outgoing(b"x", {"name": 5}),  # type: ignore[dict-item]
        Outgoing(b"x", {"name": "\ud800"}),
        Outgoing(b"x", key="\ud800"),
    ):
        with pytest.raises((ValueError, TypeError)):
            broker.send_batch(queue, [Outgoing(b"good"), bad])
    assert none_left(broker, queue)


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [
        (0.0001, 10),
        (0.5, 500),
        (1.0, 1000),
        (1.011, 1020),
        (59.99, 60_000),
        (86_401, 86_460_000),
        (30 * 86_400, 2_592_000_000),
    ],
)
def test_a_delay_is_rounded_up_by_little(seconds: float, milliseconds: int) -> None:
    assert topology.rounded(seconds) == milliseconds
    assert 0 <= milliseconds - seconds * 1000 <= min(max(10, seconds * 20), 60_000)


# receiving


def test_what_was_not_asked_for_is_left_to_others(rabbitmq: RabbitMQ, broker: RabbitMQBroker, queue: str) -> None:
    broker.send_batch(queue, numbered(40))
    with RabbitMQBroker(rabbitmq.url) as other:
        found = [*take_many(broker, queue, 1), *take_many(broker, queue, 12), *take_many(other, queue, 27)]
        assert {(one.attempts, int(one.body)) for one in found} == {(1, number) for number in range(40)}
        assert broker.ack(found[:13]) == [True] * 13  # which asks for no more
        broker.send(queue, Outgoing(b"40"))
        assert bodies(take_many(other, queue, 1)) == [b"40"]


def test_a_message_of_another_program_is_read_and_copied_with_what_it_says(
    rabbitmq: RabbitMQ, broker: RabbitMQBroker, queue: str
) -> None:
    import pika

    said = pika.BasicProperties(headers={"tries": 3, "blob": b"\xff"}, correlation_id="c1", content_type="text/plain")
    with closing(pika.BlockingConnection(pika.URLParameters(rabbitmq.url))) as connection:
        connection.channel().basic_publish("", queue, b"hello", said)
    first = take(broker, queue)
    assert first.headers == {"tries": "3", "blob": "\ufffd"} and first.attempts == 1
    assert broker.nack([first], delay=0.05) == [True]
    again = take(broker, queue)
    assert (again.id, again.attempts, again.receipt.properties.correlation_id) == (first.id, 2, "c1")
    assert again.receipt.properties.headers["tries"] == 3


def test_a_classic_queue_counts_what_is_given_back(rabbitmq: RabbitMQ) -> None:
    with RabbitMQBroker(rabbitmq.url, queue_type="classic") as broker:
        name = f"q{secrets.token_hex(5)}"
        broker.ensure(name)
        broker.send(name, Outgoing(b"x", priority=3))
        for attempt in (1, 2, 3, 4):
            one = take(broker, name)
            assert (one.attempts, one.priority) == (attempt, 3)
            assert broker.nack([one], delay=0.02 * (attempt % 2)) == [True]
        broker.delete(name)


def test_a_queue_that_is_deleted_ends_its_subscription(broker: RabbitMQBroker) -> None:
    name = f"q{secrets.token_hex(5)}"
    broker.ensure(name)
    subscription = broker.subscribe(name)
    broker.delete(name)
    with pytest.raises(QueueStoreUnavailableError, match=name):
        subscription.next(PATIENCE)
    subscription.close()
    with pytest.raises(QueueStoreMissingError, match=name):
        broker.subscribe(name)


# connections


def test_fifty_queues_take_one_connection_to_send_and_one_to_receive(rabbitmq: RabbitMQ) -> None:
    import pika

    names = [f"q{secrets.token_hex(5)}" for _ in range(50)]
    with closing(pika.BlockingConnection(pika.URLParameters(rabbitmq.url))) as connection:
        for name in names:  # such as need no disk, and end with their consumers
            connection.channel().queue_declare(name, auto_delete=True)
    with Proxy(rabbitmq.port) as proxy, through(proxy) as broker:
        subscriptions = [broker.subscribe(name) for name in names]
        assert len(proxy._connections) == 1
        for name in names:
            broker.send(name, Outgoing(name.encode()))
        found = [pushed(one) for one in subscriptions]
        assert [one.body.decode() for one in found] == names
        assert broker.ack(found) == [True] * 50
        assert len(proxy._connections) == 2
        for one in subscriptions:
            one.close()


def test_a_connection_that_is_cut_gives_back_what_it_held(rabbitmq: RabbitMQ, queue: str) -> None:
    with Proxy(rabbitmq.port) as proxy, through(proxy) as broker:
        broker.send_batch(queue, numbered(5))
        subscription = broker.subscribe(queue, prefetch=3)
        held = [pushed(subscription), pushed(subscription)]
        got = take(broker, queue)
        take_many(broker, queue, 1)
        threads, failures = Background(), list[QueueStoreUnavailableError]()

        def wait() -> None:
            try:
                broker.receive(queue, wait=PATIENCE)
            except QueueStoreUnavailableError as error:
                failures.append(error)

        with one_more_consumer(rabbitmq, queue):
            threads.start(wait)
        proxy.drop()
        threads.join()
        assert len(failures) == 1
        with pytest.raises(QueueStoreUnavailableError):
            while True:
                subscription.next(PATIENCE)
        assert broker.ack([held[0]]) == [False] and broker.nack([held[1]], delay=1.0) == [False]
        assert broker.ack([got]) == [False] and broker.extend([got], 5.0) == [None]
        subscription.close()
        again = take_many(broker, queue, 5)
        assert sorted(int(one.body) for one in again) == [0, 1, 2, 3, 4]
        # what one channel gave back may have been on its way to another that was ending too
        assert all(one.attempts >= 2 for one in again if one.id in {held[0].id, held[1].id, got.id})
        assert broker.ack(again) == [True] * 5


def test_a_send_without_an_answer_is_an_error_and_the_next_one_is_sent(rabbitmq: RabbitMQ, queue: str) -> None:
    with Proxy(rabbitmq.port) as proxy, through(proxy) as broker:
        broker.send(queue, Outgoing(b"before"))
        assert broker.health().ok
        with hurried(broker, 0.3):
            proxy.silence()
            with pytest.raises(QueueStoreUnavailableError, match=r"no answer within 0\.3 seconds"):
                broker.send(queue, Outgoing(b"unknown"))
            assert not broker.health().ok
        proxy.drop()
        proxy.mend()
        patient = through(proxy)
        patient.send(queue, Outgoing(b"after"))
        seen = set(bodies(take_many(patient, queue, 2))) | set(bodies(patient.receive(queue, 5)))
        assert {b"before", b"after"} <= seen <= {b"before", b"after", b"unknown"}
        patient.close()


def test_a_server_that_is_not_there_is_said_so_without_the_password() -> None:
    with RabbitMQBroker("amqp://me:geheim%2F1@127.0.0.1:1/", timeout=2) as broker:
        with pytest.raises(QueueStoreUnavailableError, match=r"127\.0\.0\.1:1") as caught:
            broker.send("jobs", Outgoing(b"x"))
        health = broker.health()
        assert not health.ok and "127.0.0.1:1" in health.detail
        assert "geheim" not in f"{caught.value} {health} {broker!r} {broker.url}"


def test_who_is_refused_is_told_why(rabbitmq: RabbitMQ) -> None:
    for user, vhost, why in (("guest:falsches-wort", "", "refuses this user"), ("guest:guest", "nowhere", "nowhere")):
        with RabbitMQBroker(f"amqp://{user}@127.0.0.1:{rabbitmq.port}/{vhost}") as broker:
            with pytest.raises(QueueStoreError, match=why) as caught:
                broker.ensure("jobs")
            assert "falsches" not in str(caught.value)


def test_a_queue_of_another_kind_is_not_taken_for_ours(rabbitmq: RabbitMQ, queue: str) -> None:
    with RabbitMQBroker(rabbitmq.url, queue_type="classic") as other:
        with pytest.raises(QueueStoreError, match=r"x-queue-type|x-max-priority"):
            other.ensure(queue)
        assert other.health().ok


def test_the_disk_alarm_fails_a_send_in_time_and_stops_no_consumer(rabbitmq: RabbitMQ, queue: str) -> None:
    with RabbitMQBroker(rabbitmq.url) as broker:
        broker.send_batch(queue, numbered(20))
        assert broker.health().ok
        rabbitmq.raise_disk_alarm()
        try:
            with hurried(broker, 0.4):
                until_alarmed(broker, queue)
                with pytest.raises(QueueStoreUnavailableError, match=r"alarm .*disk"):
                    broker.send(queue, Outgoing(b"late"))
            subscription = broker.subscribe(queue, prefetch=2)
            for number in range(20):
                one = pushed(subscription)
                assert one.body == str(number).encode()
                assert broker.ack([one]) == [True]
            assert broker.stats(queue).ready == 0
            subscription.close()
        finally:
            rabbitmq.clear_disk_alarm()
        broker.send(queue, Outgoing(b"after"))
        assert {b"after"} <= set(bodies(broker.receive(queue, 100))) <= {b"late", b"after"}


def until_alarmed(broker: RabbitMQBroker, queue: str) -> None:
    """No send is confirmed; a server that is busy may be late to say why."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with pytest.raises(QueueStoreUnavailableError) as refused:
            broker.send(queue, Outgoing(b"late"))
        if "alarm" in str(refused.value):
            return
        assert time.monotonic() < deadline, refused.value


@pytest.mark.crash
@pytest.mark.slow
def test_no_confirmed_message_is_lost_when_the_server_is_killed_mid_stream() -> None:
    server = RabbitMQ()
    server.start()
    try:
        with RabbitMQBroker(server.url) as broker:
            broker.ensure("jobs")
            server.save_declarations()
            history = _History(broker, "jobs")
            history.start()
            history.await_more(100)
            server.kill()
            server.start()
            history.await_more(20)
            history.finish()
    finally:
        server.stop()


@pytest.mark.crash
def test_no_confirmed_message_is_lost_when_the_connections_are_cut_again_and_again(
    rabbitmq: RabbitMQ, queue: str
) -> None:
    with Proxy(rabbitmq.port) as proxy, through(proxy) as broker:
        history = _History(broker, queue)
        history.start()
        for _ in range(20):
            history.await_more(5)
            proxy.drop()
        history.finish()


class _History:
    """One who sends and one who handles, through failures of the server, and what each of them knows."""

    def __init__(self, broker: RabbitMQBroker, queue: str) -> None:
        self.broker = broker
        self.queue = queue
        self.confirmed: list[str] = []
        self.tried: set[str] = set()
        self.handled: list[tuple[str, int]] = []
        self.changed = threading.Condition()
        self.stopped = threading.Event()
        self.all_sent = threading.Event()
        self.threads = Background()

    def start(self) -> None:
        self.threads.start(self._send)
        self.threads.start(self._handle)

    def await_more(self, count: int) -> None:
        """Until so many more were confirmed, and so many more handled."""
        with self.changed:
            confirmed, handled = len(self.confirmed) + count, len(self.handled) + count
            done = self.changed.wait_for(
                lambda: len(self.confirmed) >= confirmed and len(self.handled) >= handled, 2 * PATIENCE
            )
        assert done, f"{len(self.confirmed)} confirmed, {len(self.handled)} handled"

    def _send(self) -> None:
        try:
            self._send_until_stopped()
        finally:
            self.all_sent.set()

    def _send_until_stopped(self) -> None:
        number = 0
        while not self.stopped.is_set():
            messages = [Outgoing(b"x", id=f"m{number + more}") for more in range(5)]
            number += 5
            self.tried.update(str(one.id) for one in messages)
            try:
                sent = self.broker.send_batch(self.queue, messages)
            except QueueStoreUnavailableError:
                self.stopped.wait(0.01)  # as long as the server is away
                continue
            with self.changed:
                self.confirmed += sent
                self.changed.notify_all()

    def _is_done(self) -> bool:
        return self.all_sent.is_set() and {one for one, _ in self.handled} >= set(self.confirmed)

    def _handle(self) -> None:
        while not self._is_done():
            try:
                subscription = self.broker.subscribe(self.queue, prefetch=20)
            except QueueStoreUnavailableError:
                self.stopped.wait(0.01)
                continue
            try:
                while not self._is_done():
                    told = subscription.next(0.5)
                    if isinstance(told, Message) and self.broker.ack([told.delivery]) == [True]:
                        with self.changed:
                            self.handled.append((told.delivery.id, told.delivery.attempts))
                            self.changed.notify_all()
            except QueueStoreUnavailableError:
                continue
            finally:
                subscription.close()

    def finish(self) -> None:
        self.stopped.set()
        self.threads.join()
        ids = {one for one, _ in self.handled}
        assert ids >= set(self.confirmed), "a confirmed message was lost"
        assert ids <= self.tried
        first = [one for one, attempts in self.handled if attempts == 1]
        assert len(first) == len(set(first)), "a message was handled twice as if it were new"


@pytest.mark.multiprocess
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_fork_has_connections_of_its_own_and_its_death_loses_nothing(broker: RabbitMQBroker, queue: str) -> None:
    broker.send_batch(queue, numbered(2))
    held = take(broker, queue)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            one = take(broker, queue)
            assert broker.ack([held]) == [False]
            broker.send(queue, Outgoing(b"from the child"))
            os.write(writer, one.body)
            signal.pause()
        finally:
            os._exit(1)
    os.close(writer)
    with open(reader, "rb") as pipe:
        assert pipe.read(1) == b"1"
    assert broker.ack([held]) == [True]
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = {one.body: one.attempts for one in take_many(broker, queue, 2)}
    assert found == {b"1": 2, b"from the child": 1}


# what is said behind the address


def test_an_address_is_read() -> None:
    read = settings.read("amqps://me:a%2Fb@rabbit.example/vh%2F1?timeout=3&heartbeat=7", None, {"connection_name": "x"})
    assert (read.host, read.port, read.vhost, read.user, read.password) == ("rabbit.example", 5671, "vh/1", "me", "a/b")
    assert (read.timeout, read.heartbeat, read.queue_type) == (3.0, 7, "quorum")
    assert read.tls is not None and read.tls.check_hostname
    assert read.parameters("sender").ssl_options.server_hostname == "rabbit.example"
    assert "a/b" not in repr(read)
    plain = settings.read("amqp://localhost", None, {})
    assert (plain.port, plain.vhost, plain.user, plain.tls) == (5672, "/", "guest", None)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("amqp://localhost?queue_typ=classic", "queue_type, heartbeat, timeout, connection_name"),
        ("amqp://localhost?queue_type=stream", "quorum or classic"),
        ("amqp://localhost?heartbeat=0", "heartbeat"),
        ("amqp://localhost?timeout=soon", "timeout"),
        ("amqp://localhost?timeout=", "timeout"),
        ("amqp://a,b", "one host"),
        ("amqp://a/b/c", "%2F"),
    ],
)
def test_an_address_that_can_not_be_meant_is_refused(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        open_broker(url)


@pytest.mark.parametrize("name", ["", "q" * 239, "ü" * 120, "amq.mine", "\ud800"])
def test_a_name_that_a_queue_can_not_have_is_refused(name: str) -> None:
    with RabbitMQBroker("amqp://localhost") as broker:
        for use in (broker.ensure, broker.stats, broker.receive, lambda queue: broker.send(queue, Outgoing(b"x"))):
            with pytest.raises(ValueError, match="name of a queue"):
                use(name)
