"""What every broker does alike: take a message, deliver it until it is settled, and say what it does not know."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest

from localqueue.brokers.port import Broker, Outgoing
from localqueue.contracts.broker_harness import (
    BrokerFixtures,
    bodies,
    known_counts,
    line,
    none_left,
    numbered,
    take,
    take_many,
)
from localqueue.contracts.steps import MOMENT, PATIENCE, Background
from localqueue.errors import QueueStoreClosedError, QueueStoreMissingError


class BrokerDeliveryContract(BrokerFixtures):
    def test_looking_makes_no_queue(self, broker: Broker, missing: str) -> None:
        assert broker.health().ok
        for _ in range(2):
            if broker.capabilities.makes_queues:
                with pytest.raises(QueueStoreMissingError, match=missing):
                    broker.stats(missing)
                with pytest.raises(QueueStoreMissingError, match=missing):
                    broker.receive(missing)
                with pytest.raises(QueueStoreMissingError, match=missing):
                    broker.send(missing, Outgoing(b"x"))
            else:
                assert broker.stats(missing).ready == 0 and broker.receive(missing) == []

    def test_a_queue_is_made_once(self, broker: Broker, queue: str) -> None:
        broker.send(queue, Outgoing(b"kept"))
        broker.ensure(queue)
        assert take(broker, queue).body == b"kept"

    def test_a_message_arrives_as_it_was_sent(self, broker: Broker, queue: str) -> None:
        body = bytes(range(256)) + "schlüssel-\N{SNOWMAN}".encode()
        headers = {"localqueue-text": "0", "trace": "a b;c", "naïve": "\N{SNOWMAN}"}
        sent = broker.send(queue, Outgoing(body, headers))
        delivery = take(broker, queue)
        assert (delivery.queue, delivery.id, delivery.body, delivery.attempts) == (queue, sent, body, 1)
        assert {name: delivery.headers[name] for name in headers} == headers
        assert broker.ack([delivery]) == [True]

    def test_an_empty_body_and_text_arrive(self, broker: Broker, queue: str) -> None:
        broker.send_batch(queue, [Outgoing(b"", key=line(broker)), Outgoing(b'{"a": 1}', key=line(broker))])
        assert sorted(bodies(take_many(broker, queue, 2))) == [b"", b'{"a": 1}']

    def test_a_given_id_is_that_of_the_message(self, broker: Broker, queue: str) -> None:
        sent = broker.send(queue, Outgoing(b"x", id="order-42"))
        assert sent == "order-42" or not broker.capabilities.makes_queues
        assert take(broker, queue).id == sent

    def test_a_batch_arrives_whole_and_in_order(self, broker: Broker, queue: str) -> None:
        sent = broker.send_batch(queue, numbered(40, key=line(broker)))
        assert len(set(sent)) == 40
        found = []
        for _ in range(4):
            some = take_many(broker, queue, 10)
            found += some
            assert broker.ack(some) == [True] * 10
        assert sorted(one.id for one in found) == sorted(sent)
        if broker.capabilities.order != "none":
            assert bodies(found) == [str(number).encode() for number in range(40)]
            assert [one.id for one in found] == sent
        assert none_left(broker, queue)

    def test_no_batch_is_no_message(self, broker: Broker, queue: str) -> None:
        assert broker.send_batch(queue, []) == []
        assert broker.ack([]) == [] and broker.nack([]) == [] and broker.extend([], 1.0) == []
        assert none_left(broker, queue)

    def test_a_receiver_gets_no_more_than_it_asked_for(self, broker: Broker, queue: str) -> None:
        broker.send_batch(queue, numbered(5, key=line(broker)))
        assert len(broker.receive(queue, 2, wait=PATIENCE)) <= 2

    def test_a_receiver_that_waits_is_given_what_comes(
        self, broker: Broker, queue: str, open_broker: Callable[[], Broker]
    ) -> None:
        assert none_left(broker, queue)
        threads, found = Background(), []
        threads.start(lambda: found.append(take(broker, queue)))
        open_broker().send(queue, Outgoing(b"x"))
        threads.join()
        assert bodies(found) == [b"x"]

    def test_receiving_acknowledges_nothing(
        self, broker: Broker, queue: str, tick: float, open_broker: Callable[[], Broker]
    ) -> None:
        """A receiver that goes away after the handoff has lost nothing."""
        broker.send(queue, Outgoing(b"x"))
        first = open_broker()
        before = take(first, queue, lease=tick)
        assert before.attempts == 1
        first.close()
        again = take(broker, queue)
        assert again.body == b"x"
        assert before.origin is not None and again.origin == before.origin and again.redelivered
        assert again.attempts == (2 if broker.capabilities.counts_deliveries else again.attempts)
        assert broker.ack([again]) == [True]

    def test_an_acked_message_is_gone(self, broker: Broker, queue: str, open_broker: Callable[[], Broker]) -> None:
        broker.send_batch(queue, numbered(3, key=line(broker)))
        assert broker.ack(take_many(broker, queue, 3)) == [True] * 3
        broker.close()
        other = open_broker()
        assert other.receive(queue, 3, wait=MOMENT) == []
        assert known_counts(other, queue) == dict.fromkeys(broker.capabilities.counts, 0)

    def test_a_message_that_is_given_back_comes_again(self, broker: Broker, queue: str) -> None:
        sent = broker.send(queue, Outgoing(b"x", {"a": "b"}))
        first = take(broker, queue)
        assert broker.nack([first]) == [True]
        second = take(broker, queue)
        assert (second.id, second.body, second.headers["a"]) == (sent, b"x", "b")
        assert second.attempts == 2 or not broker.capabilities.counts_deliveries
        assert broker.ack([second]) == [True]
        assert none_left(broker, queue)

    def test_a_dead_letter_is_kept_with_its_error(self, broker: Broker, queue: str) -> None:
        broker.send_batch(queue, [Outgoing(b"bad", {"a": "b"}, key=line(broker)), Outgoing(b"good", key=line(broker))])
        bad, good = sorted(take_many(broker, queue, 2), key=lambda one: one.body)
        assert broker.nack([bad], dead=True, error={"type": "ValueError", "message": "no"}) == [True]
        assert broker.ack([good]) == [True]
        assert none_left(broker, queue)
        (dead,) = broker.dead_letters(queue)
        assert (dead.body, dead.headers["a"]) == (b"bad", "b")
        error = json.loads(dead.headers["localqueue-error"])
        assert (error["type"], error["message"]) == ("ValueError", "no")
        assert broker.ack([dead]) == [True]
        assert broker.dead_letters(queue) == []

    def test_competing_receivers_share_the_messages(
        self, broker: Broker, queue: str, open_broker: Callable[[], Broker]
    ) -> None:
        sent = broker.send_batch(queue, [Outgoing(str(n).encode(), key=str(n)) for n in range(40)])
        acked: list[str] = []
        threads = Background()

        def work(receiver: Broker) -> None:
            while set(acked) < set(sent):
                for one in receiver.receive(queue, 3, wait=0.2):
                    if receiver.ack([one]) == [True]:
                        acked.append(one.id)

        for receiver in (broker, open_broker()):
            threads.start(work, receiver)
        threads.join()
        assert set(acked) == set(sent)
        if broker.capabilities.single_acks:
            assert len(acked) == len(sent)

    def test_many_threads_may_use_one_broker(self, broker: Broker, queue: str) -> None:
        threads, sent, acked = Background(), list[str](), list[str]()
        enough = threading.Event()

        def produce() -> None:
            sent.extend(broker.send(queue, one) for one in numbered(15))

        def consume() -> None:
            while not enough.is_set():
                found = broker.receive(queue, 4, wait=0.2)
                acked.extend(one.id for one, done in zip(found, broker.ack(found), strict=True) if done)
                if len(acked) >= 45:
                    enough.set()

        for work in (produce, produce, produce, consume, consume):
            threads.start(work)
        threads.join()
        assert sorted(acked) == sorted(sent) and len(set(sent)) == 45

    def test_a_purged_queue_is_empty(self, broker: Broker, queue: str) -> None:
        broker.send_batch(queue, numbered(3))
        assert broker.purge(queue) in (3, None)
        assert none_left(broker, queue)
        broker.send(queue, Outgoing(b"after"))
        assert take(broker, queue).body == b"after"

    def test_a_deleted_queue_is_gone(self, broker: Broker, queue: str) -> None:
        broker.send(queue, Outgoing(b"x"))
        broker.delete(queue)
        broker.delete(queue)
        if broker.capabilities.makes_queues:
            with pytest.raises(QueueStoreMissingError):
                broker.stats(queue)
        else:
            assert broker.stats(queue).ready == 0

    def test_closing_ends_a_receiver_that_waits(self, broker: Broker, queue: str) -> None:
        threads, waiting = Background(), threading.Event()

        def wait() -> None:
            broker.receive(queue)
            waiting.set()
            try:
                assert broker.receive(queue, wait=10 * PATIENCE) == []
            except QueueStoreClosedError:
                return

        threads.start(wait)
        assert waiting.wait(PATIENCE)
        broker.close()
        threads.join()
        with pytest.raises(QueueStoreClosedError):
            broker.send(queue, Outgoing(b"x"))
        broker.close()

    def test_what_can_not_be_asked_is_refused(self, broker: Broker, queue: str) -> None:
        for limit in (0, -1, True, 1.5):
            with pytest.raises((ValueError, TypeError), match="limit"):
                broker.receive(queue, limit)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="wait"):
            broker.receive(queue, wait=-1)
        with pytest.raises(ValueError, match="lease"):
            broker.receive(queue, lease=0)
        with pytest.raises(TypeError, match="bytes"):
            broker.send(queue, Outgoing("text"))  # type: ignore[arg-type]
        assert none_left(broker, queue)
