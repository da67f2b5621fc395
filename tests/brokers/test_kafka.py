"""Kafka: what is its own, beside the contract."""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from localqueue.brokers import Message, Outgoing, open_broker
from localqueue.brokers.kafka import KafkaBroker, member
from localqueue.contracts.broker_harness import bodies, none_left, numbered, take, take_many
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.errors import QueueStoreMissingError, QueueStoreUnavailableError
from tests.broker_servers import Kafka
from tests.processes import context

pytestmark = pytest.mark.server


@pytest.fixture
def broker(kafka: Kafka) -> Iterator[KafkaBroker]:
    with KafkaBroker(f"{kafka.url}?partitions=2&handover=0") as broker:
        yield broker


@pytest.fixture
def queue(kafka: Kafka, broker: KafkaBroker) -> Iterator[str]:
    name = f"q{secrets.token_hex(5)}"
    broker.ensure(name)
    yield name
    broker.close()
    with KafkaBroker(kafka.url) as cleaner:
        cleaner.delete(name)


def _client(kafka: Kafka, **settings: Any) -> dict[str, Any]:
    return {"bootstrap.servers": kafka.url.removeprefix("kafka://"), "log_level": 0, **settings}


def _produce(kafka: Kafka, queue: str, *placed: tuple[int, bytes]) -> None:
    """Records of another program, into chosen partitions."""
    producer = Producer(_client(kafka))
    for partition, body in placed:
        producer.produce(queue, body, partition=partition)
    assert producer.flush(PATIENCE) == 0


def test_other_programs_send_and_receive(kafka: Kafka, broker: KafkaBroker, queue: str) -> None:
    producer = Producer(_client(kafka))
    producer.produce(queue, b"\x00plain", "user-7", headers=[("trace", b"t")])
    producer.produce(queue, None, b"\xff")
    assert producer.flush(PATIENCE) == 0
    found = {one.body: one for one in take_many(broker, queue, 2)}
    assert (found[b"\x00plain"].key, found[b"\x00plain"].headers) == ("user-7", {"trace": "t"})
    assert found[b""].key == "\\xff"
    assert broker.ack(list(found.values())) == [True, True]
    sent = broker.send(queue, Outgoing(b"ours", {"a": "b"}, id="m", key="user-7"))
    consumer = Consumer(_client(kafka, **{"group.id": f"localqueue.{queue}"}))
    broker.close()
    try:
        committed = consumer.committed([TopicPartition(queue, number) for number in range(2)], PATIENCE)
        consumer.assign(committed)
        record = consumer.poll(PATIENCE)
        assert record is not None and record.error() is None
        assert (record.value(), record.key(), sent) == (b"ours", b"user-7", "m")
        assert dict(record.headers() or ()) == {"a": b"b", "localqueue-id": b"m"}
    finally:
        consumer.close()


def test_what_is_acked_out_of_order_does_not_come_again(kafka: Kafka, broker: KafkaBroker, queue: str) -> None:
    broker.send_batch(queue, numbered(6, key="k"))
    found = take_many(broker, queue, 5)
    assert broker.ack([found[1], found[3]]) == [True, True]
    assert broker.ack([found[1]]) == [False]
    assert broker.stats(queue).ready == 4
    with KafkaBroker(kafka.url) as other:
        broker._receivers.pop(queue).close()
        assert broker.ack([found[0]]) == [False]
        left = take_many(other, queue, 4)
        assert bodies(left) == [b"0", b"2", b"4", b"5"]
        assert other.ack(left) == [True] * 4
        assert other.stats(queue).ready == 0 and none_left(other, queue)


def test_a_retry_is_delivered_before_what_comes_after_it(kafka: Kafka, broker: KafkaBroker, queue: str) -> None:
    _produce(kafka, queue, (0, b"a"), (0, b"b"), (0, b"c"), (1, b"elsewhere"))
    found = {one.body: one for one in take_many(broker, queue, 4)}
    began = time.monotonic()
    assert broker.nack([found[b"c"]]) == [True]
    assert broker.nack([found[b"b"]], delay=0.4) == [True]
    assert broker.nack([found[b"elsewhere"]]) == [True]
    again = [one for one in take_many(broker, queue, 3) if one.body != b"elsewhere"]
    assert [(one.body, one.attempts) for one in again] == [(b"b", 2), (b"c", 2)]
    assert time.monotonic() - began >= 0.4


def test_a_partition_that_waits_for_a_retry_holds_up_no_other(kafka: Kafka, broker: KafkaBroker, queue: str) -> None:
    _produce(kafka, queue, *((0, b"%d" % number) for number in range(2500)))
    first = take(broker, queue)
    assert broker.nack([first], delay=3600.0) == [True]
    assert none_left(broker, queue)
    _produce(kafka, queue, (1, b"elsewhere"))
    assert broker.ack([take(broker, queue)]) == [True]
    assert none_left(broker, queue) and broker.stats(queue).ready == 2500


def test_a_partition_that_goes_makes_its_deliveries_stale(kafka: Kafka, broker: KafkaBroker, queue: str) -> None:
    _produce(kafka, queue, (0, b"0"), (1, b"1"))
    mine = take_many(broker, queue, 2)
    with KafkaBroker(kafka.url) as other:
        theirs = take(other, queue)
        held = [until is not None for until in broker.extend(mine, 1.0)]
        assert sorted(held) == [False, True]
        assert broker.ack(mine) == held
        assert bodies([one for one, still in zip(mine, held, strict=True) if not still]) == [theirs.body]
        assert other.ack([theirs]) == [True]
        assert other.stats(queue).ready == 0


def test_a_partition_waits_for_its_deliveries_before_it_goes(kafka: Kafka, queue: str) -> None:
    _produce(kafka, queue, (0, b"0"), (1, b"1"))
    with KafkaBroker(kafka.url) as first, KafkaBroker(kafka.url) as other:
        mine = take_many(first, queue, 2)
        assert other.receive(queue, wait=0.8) == []
        assert first.ack(mine) == [True, True]
        _produce(kafka, queue, (0, b"2"), (1, b"3"))
        found = [take(first, queue), take(other, queue)]
        assert sorted(bodies(found)) == [b"2", b"3"]


def test_a_full_buffer_stops_the_fetching_and_loses_nothing(
    broker: KafkaBroker, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member, "_FULL", 0.1)
    broker.send_batch(queue, numbered(60, key="k"))
    subscription = broker.subscribe(queue, prefetch=5)
    told = [subscription.next(PATIENCE) for _ in range(5)]
    deadline = time.monotonic() + PATIENCE
    while not subscription._consumer._paused and time.monotonic() < deadline:
        assert subscription.next(0.05) is None
    assert subscription._consumer._paused
    seen = []
    while told:
        one = told.pop(0)
        assert isinstance(one, Message)
        seen.append(int(one.delivery.body))
        assert broker.ack([one.delivery]) == [True]
        if len(seen) + len(told) < 60:
            told.append(subscription.next(PATIENCE))
    assert seen == list(range(60))
    subscription.close()


def _receive_and_hang(url: str, queue: str, took: Any) -> None:
    broker = KafkaBroker(url)
    assert broker.receive(queue, wait=3 * PATIENCE)
    took.set()
    threading.Event().wait()


@pytest.mark.multiprocess
def test_what_a_killed_process_held_comes_back(kafka: Kafka, broker: KafkaBroker, queue: str) -> None:
    broker.send(queue, Outgoing(b"x"))
    took = context.Event()
    url = f"{kafka.url}?session_timeout=1"
    process = context.Process(target=_receive_and_hang, args=(url, queue, took), daemon=True)
    process.start()
    assert took.wait(3 * PATIENCE) and process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert broker.ack([take(broker, queue)]) == [True]


@pytest.mark.multiprocess
def test_a_fork_has_connections_of_its_own(broker: KafkaBroker, queue: str) -> None:
    broker.send(queue, Outgoing(b"x"))
    mine = take(broker, queue)
    child = os.fork()
    if child == 0:
        try:
            stale = broker.ack([mine]) == [False] and broker.extend([mine], 1.0) == [None]
            sent = broker.send(queue, Outgoing(b"of the child", id="c"))
            broker.close()
            os._exit(0 if stale and sent == "c" else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert broker.ack([mine]) == [True]
    assert take(broker, queue).id == "c"


def _in_time(call: Callable[[], Any]) -> Any:
    """Its answer, however often a busy server lets a broker wait that gives up soon."""
    deadline = time.monotonic() + 3 * PATIENCE
    while True:
        try:
            return call()
        except QueueStoreUnavailableError:
            if time.monotonic() > deadline:
                raise


@pytest.mark.slow
@pytest.mark.crash
def test_a_server_that_is_killed_loses_nothing_that_was_confirmed() -> None:
    server = Kafka()
    server.start()
    try:
        with KafkaBroker(server.url) as patient:
            patient.ensure("jobs")
            sent = patient.send_batch("jobs", numbered(20))
            first = take(patient, "jobs")
            assert patient.ack([first]) == [True]
        with KafkaBroker(f"{server.url}?timeout=2&handover=0.5&session_timeout=2") as broker:
            subscription = _in_time(lambda: broker.subscribe("jobs", prefetch=4))
            assert isinstance(_in_time(lambda: subscription.next(PATIENCE)), Message)
            server.kill()
            with pytest.raises(QueueStoreUnavailableError):
                while subscription.next(PATIENCE):
                    pass
            with pytest.raises(QueueStoreUnavailableError):
                broker.send("jobs", Outgoing(b"x"))
            assert not broker.health().ok
            subscription.close()
            server.start()
            seen = {first.id}
            again = _in_time(lambda: broker.subscribe("jobs", prefetch=4))
            while len(seen) < 20:
                told = _in_time(lambda: again.next(PATIENCE))
                assert isinstance(told, Message)
                try:
                    settled = broker.ack([told.delivery]) == [True]
                except QueueStoreUnavailableError:  # nobody knows, and it may not come again
                    settled = True
                if settled:
                    seen.add(told.delivery.id)
            assert seen >= set(sent)
            again.close()
    finally:
        server.stop()


def test_dead_letters_are_removed_one_by_one(kafka: Kafka, broker: KafkaBroker, queue: str) -> None:
    broker.send_batch(queue, numbered(3, key="k"))
    assert broker.nack(take_many(broker, queue, 3), dead=True) == [True] * 3
    _, middle, last = broker.dead_letters(queue)
    assert broker.ack([middle]) == [True] and broker.ack([middle]) == [False]
    with KafkaBroker(kafka.url) as other:
        first, again = other.dead_letters(queue)
        assert (first.body, again.body) == (b"0", last.body) and other.nack([first]) == [True]
        assert other.stats(queue).dead == 2
        assert other.ack([first, again]) == [True, True] and other.dead_letters(queue) == []


def test_a_topic_that_is_removed_is_missed(kafka: Kafka, broker: KafkaBroker, queue: str) -> None:
    broker.send(queue, Outgoing(b"x"))
    take(broker, queue)
    with KafkaBroker(kafka.url) as other:
        other.delete(queue)
    with pytest.raises(QueueStoreMissingError, match=queue):
        while True:
            broker.receive(queue, wait=1.0)
    with pytest.raises(QueueStoreMissingError, match=queue):
        broker.send(queue, Outgoing(b"x"))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("kafka://", "host:9092"),
        ("kafka://localhost:9092/database", "host:9092"),
        ("kafka://localhost:9092?partitions=many", "partitions"),
        ("kafka://localhost:9092?no.such.setting=1", r"no\.such\.setting"),
        ("kafka://localhost:9092?session_timeout=0", "session_timeout"),
    ],
)
def test_an_address_that_can_not_be_read_is_refused(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        open_broker(url)


def test_a_password_is_not_shown() -> None:
    with KafkaBroker(
        "kafka://me:hidden%20word@localhost:1?sasl.mechanisms=SCRAM-SHA-256&ssl.key.password=hush"
    ) as broker:
        assert "hidden" not in repr(broker) and "hush" not in repr(broker) and "me@localhost" in broker.url
        assert broker._settings.client["sasl.password"] == "hidden word"
        assert "hidden" not in repr(broker._settings)


def test_a_name_that_no_topic_can_have_is_refused(broker: KafkaBroker) -> None:
    for name in ("", "a b", "ä", "x" * 300):
        with pytest.raises(ValueError, match="topic"):
            broker.ensure(name)


def test_an_ack_whose_answer_is_behind_a_rebalance_is_not_held_up_by_it(
    kafka: Kafka, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is settled is waited for before a partition goes, and no poll brings an answer meanwhile."""
    answered, revoked, late = threading.Event(), threading.Event(), list[tuple[Any, ...]]()
    heed, revoke = member.Member._have_committed, member.Member._revoked

    def withhold(self: member.Member, *answer: Any) -> None:
        late.append((self, *answer))
        answered.set()

    def deliver_late(self: member.Member, *partitions: Any) -> None:
        revoke(self, *partitions)
        revoked.set()
        for one in late:
            heed(*one)

    with KafkaBroker(kafka.url) as first, KafkaBroker(kafka.url) as second:
        _produce(kafka, queue, (0, b"a"), (1, b"b"))
        monkeypatch.setattr(member.Member, "_have_committed", withhold)
        monkeypatch.setattr(member.Member, "_revoked", deliver_late)
        found = take_many(first, queue, 2)
        threads, acked = Background(), list[bool]()
        threads.start(lambda: acked.extend(first.ack(found)))
        assert answered.wait(PATIENCE)
        threads.start(lambda: second.receive(queue))
        threads.join()
        assert acked == [True, True] and revoked.wait(PATIENCE)
        monkeypatch.undo()
        assert none_left(first, queue) and none_left(second, queue)


def test_an_answer_that_comes_too_late_is_not_that_of_the_next_ack(
    broker: KafkaBroker, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heed, late, waits_on = member.Member._have_committed, list[tuple[Any, ...]](), list[bool]()

    def be_late_once(self: member.Member, *answer: Any) -> None:
        if not late:
            late.append(answer)
            self._end_underway(KafkaError(KafkaError._TIMED_OUT))
            return
        heed(self, *late[0])
        waits_on.append(self._underway is not None)
        heed(self, *answer)

    monkeypatch.setattr(member.Member, "_have_committed", be_late_once)
    broker.send_batch(queue, numbered(2, key="k"))
    first, second = take_many(broker, queue, 2)
    with pytest.raises(QueueStoreUnavailableError):
        broker.ack([first])
    assert broker.ack([second]) == [True] and waits_on == [True]
