"""What the capabilities of a broker say: each is used where it is there, and refused where it is not."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable

import pytest

from localqueue.brokers.capabilities import CAPABILITIES
from localqueue.brokers.port import Broker, Delivery, Outgoing, SupportsHandover, SupportsPush
from localqueue.contracts.broker_harness import (
    BrokerFixtures,
    bodies,
    known_counts,
    line,
    none_left,
    take,
    take_after,
    take_many,
    take_renewed,
)
from localqueue.contracts.steps import PATIENCE
from localqueue.errors import UnsupportedByBroker


class BrokerCapabilitiesContract(BrokerFixtures):
    def test_the_table_has_it(self, broker: Broker) -> None:
        assert broker.capabilities in CAPABILITIES
        assert json.loads(json.dumps(broker.capabilities.as_dict()))["name"] == broker.capabilities.name
        assert isinstance(broker, SupportsPush) is (broker.capabilities.push != "none")

    def test_delayed_sends(self, broker: Broker, queue: str, tick: float) -> None:
        if not broker.capabilities.delay:
            with pytest.raises(UnsupportedByBroker, match="delay"):
                broker.send(queue, Outgoing(b"later", delay=tick))
            assert none_left(broker, queue)
            return
        broker.send_batch(queue, [Outgoing(b"much later", delay=10 * PATIENCE), Outgoing(b"now")])
        assert take(broker, queue).body == b"now"
        sending = time.monotonic()
        broker.send_batch(queue, [Outgoing(b"later", delay=tick)])
        assert take_after(broker, queue, sending, tick).body == b"later"
        longest = broker.capabilities.longest_delay
        if longest is not None:
            with pytest.raises(UnsupportedByBroker, match="delay"):
                broker.send(queue, Outgoing(b"never", delay=longest + 1))
            assert none_left(broker, queue)
        broker.delete(queue)  # with what is delayed, which some keep in a queue of its own

    def test_delayed_redelivery(self, broker: Broker, queue: str, tick: float) -> None:
        broker.send(queue, Outgoing(b"x"))
        first = take(broker, queue)
        if not broker.capabilities.retry_delay:
            with pytest.raises(UnsupportedByBroker, match="delay"):
                broker.nack([first], delay=tick)
            assert broker.ack([first]) == [True]
            return
        returning = time.monotonic()
        assert broker.nack([first], delay=tick) == [True]
        again = take_after(broker, queue, returning, tick)
        assert (again.id, again.body) == (first.id, b"x")
        assert again.attempts == 2 or not broker.capabilities.counts_deliveries
        assert broker.ack([again]) == [True]

    def test_priorities(self, broker: Broker, queue: str) -> None:
        highest = broker.capabilities.priorities
        with pytest.raises(UnsupportedByBroker, match="priority"):
            broker.send(queue, Outgoing(b"x", priority=highest + 1))
        if highest:
            broker.send_batch(queue, [Outgoing(b"low"), Outgoing(b"high", priority=min(highest, 5))])
            assert bodies(take_many(broker, queue, 2)) == [b"high", b"low"]
        assert none_left(broker, queue)

    def test_duplicates(self, broker: Broker, queue: str) -> None:
        if not broker.capabilities.dedupe:
            with pytest.raises(UnsupportedByBroker, match="dedupe_key"):
                broker.send(queue, Outgoing(b"x", dedupe_key="a"))
            assert none_left(broker, queue)
            return
        key = line(broker)
        broker.send_batch(queue, [Outgoing(b"first", dedupe_key="a", key=key), Outgoing(b"b", dedupe_key="b", key=key)])
        broker.send(queue, Outgoing(b"second", dedupe_key="a", key=key))
        assert bodies(take_many(broker, queue, 2)) == [b"first", b"b"]
        assert none_left(broker, queue)

    def test_order(self, broker: Broker, queue: str) -> None:
        sent = [Outgoing(f"{number}".encode(), key=f"k{number % 3}") for number in range(30)]
        for one in sent:
            broker.send(queue, one)
        found: list[Delivery] = []
        while len(found) < 30:
            some = take_many(broker, queue, 1)
            found += some
            assert broker.ack(some) == [True]
        by_key = {key: [int(one.body) for one in found if int(one.body) % 3 == key] for key in range(3)}
        assert sorted(int(one.body) for one in found) == list(range(30))
        if broker.capabilities.order != "none":
            assert by_key == {key: list(range(key, 30, 3)) for key in range(3)}
        if broker.capabilities.order == "queue":
            assert [int(one.body) for one in found] == list(range(30))

    def test_leases(self, broker: Broker, queue: str, tick: float, open_broker: Callable[[], Broker]) -> None:
        broker.send(queue, Outgoing(b"x"))
        other = open_broker()
        assert other.health().ok  # and is connected before the time that matters
        if broker.capabilities.lease == "connection":
            held = take(broker, queue, lease=tick)
            assert held.leased_until is None
            assert other.receive(queue, wait=tick * 1.5) == []
            assert broker.extend([held], 60.0) == [math.inf]
            assert broker.ack([held]) == [True]
            return
        assert broker.capabilities.renewal
        held, until, renewing = take_renewed(broker, queue, lease=tick, renewed=4 * tick)
        assert until is not None and held.leased_until is not None and until > held.leased_until
        again = take_after(other, queue, renewing, 4 * tick)
        assert again.body == b"x"
        if broker.capabilities.fenced:
            assert broker.ack([held]) == [False]
            assert broker.nack([held]) == [False]
            assert broker.extend([held], 60.0) == [None]
        assert other.ack([again]) == [True]

    def test_a_receipt_in_writing(self, broker: Broker, queue: str, open_broker: Callable[[], Broker]) -> None:
        """Where a lease is no part of a connection, another process keeps it and settles by it, once."""
        assert isinstance(broker, SupportsHandover) is (broker.capabilities.lease == "timeout")
        if not isinstance(broker, SupportsHandover):
            return
        broker.send_batch(queue, [Outgoing(b"a", key=line(broker)), Outgoing(b"b", key=line(broker))])
        held = take_many(broker, queue, 2)
        notes = [(one.id, broker.written(one)) for one in held]
        broker.close()
        other = open_broker()
        assert isinstance(other, SupportsHandover)
        first, second = (other.resumed(queue, *note) for note in notes)
        assert None not in other.extend([first, second], 60.0)
        assert other.ack([first]) == [True]
        assert other.nack([second], dead=True, error={"message": "no"}) == [True]
        assert none_left(other, queue)
        if other.capabilities.fenced:
            assert other.ack([first, second]) == [False, False]

    def test_a_message_is_settled_once(self, broker: Broker, queue: str) -> None:
        broker.send(queue, Outgoing(b"x"))
        held = take(broker, queue)
        assert broker.ack([held]) == [True]
        if broker.capabilities.fenced:
            assert broker.ack([held]) == [False]
            assert broker.nack([held]) == [False]
            assert broker.extend([held], 60.0) == [None]
        assert none_left(broker, queue)

    def test_messages_are_acked_one_by_one(
        self, broker: Broker, queue: str, tick: float, open_broker: Callable[[], Broker]
    ) -> None:
        broker.send_batch(queue, [Outgoing(b"a", key=line(broker)), Outgoing(b"b", key=line(broker))])
        first, second = take_many(broker, queue, 2)
        assert broker.ack([second]) == [True]
        broker.extend([first], tick)
        broker.close()
        again = take(open_broker(), queue)
        assert again.id == first.id

    def test_a_body_that_is_too_large_is_refused(self, broker: Broker, queue: str) -> None:
        largest = broker.capabilities.largest_body
        if largest is None:
            broker.send(queue, Outgoing(b"x" * 500_000))
            assert len(take(broker, queue).body) == 500_000
            return
        with pytest.raises(UnsupportedByBroker, match="bytes"):
            broker.send_batch(queue, [Outgoing(b"small"), Outgoing(b"x" * (largest + 1))])
        assert none_left(broker, queue)

    def test_counts(self, broker: Broker, queue: str) -> None:
        assert known_counts(broker, queue) == dict.fromkeys(broker.capabilities.counts, 0)
        broker.send_batch(queue, [Outgoing(str(n).encode(), key=line(broker)) for n in range(4)])
        assert broker.stats(queue).ready == 4
        first, second = take_many(broker, queue, 2)
        assert broker.nack([first], dead=True) == [True]
        known = known_counts(broker, queue)
        assert known["dead"] == 1
        assert known.get("inflight", 1) == 1
        assert broker.ack([second]) == [True]

    def test_a_delay_before_now_is_refused(self, broker: Broker, queue: str) -> None:
        with pytest.raises(ValueError, match="delay"):
            broker.send(queue, Outgoing(b"x", delay=-1.0))
        assert none_left(broker, queue)
