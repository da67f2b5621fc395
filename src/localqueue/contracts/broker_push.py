"""What a subscription promises: it begins with what is there, tells of everything, and holds no more than it may."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from localqueue.brokers.port import Available, Broker, Delivery, Message, Outgoing, Subscription
from localqueue.contracts.broker_harness import BrokerFixtures, bodies, line, numbered, take_many
from localqueue.contracts.steps import MOMENT, PATIENCE, Background


class BrokerPushContract(BrokerFixtures):
    def test_what_was_there_is_told_of(self, broker: Broker, queue: str) -> None:
        broker.send_batch(queue, numbered(5, key=line(broker)))
        with _subscribed(broker, queue) as pushed:
            assert sorted(bodies(_pushed(broker, queue, pushed, 5))) == [b"0", b"1", b"2", b"3", b"4"]

    def test_every_message_of_a_batch_is_told_of(
        self, broker: Broker, queue: str, open_broker: Callable[[], Broker]
    ) -> None:
        with _subscribed(broker, queue) as pushed:
            other = open_broker()
            other.send_batch(queue, numbered(25, key=line(broker)))
            found = _pushed(broker, queue, pushed, 25)
            assert sorted(int(one.body) for one in found) == list(range(25))
            other.send(queue, Outgoing(b"25", key=line(broker)))
            assert bodies(_pushed(broker, queue, pushed, 1)) == [b"25"]

    def test_a_push_carries_what_the_table_says(self, broker: Broker, queue: str) -> None:
        broker.send(queue, Outgoing(b"x"))
        with _subscribed(broker, queue) as pushed:
            if pushed is None:
                assert broker.capabilities.push == "none" and not hasattr(broker, "subscribe")
                return
            told = pushed.next(PATIENCE)
            if broker.capabilities.push == "message":
                assert isinstance(told, Message) and told.delivery.body == b"x"
                assert broker.ack([told.delivery]) == [True]
            else:
                assert isinstance(told, Available) and told.queue == queue
                assert bodies(take_many(broker, queue, 1)) == [b"x"]

    def test_a_delayed_message_is_not_told_of_early(self, broker: Broker, queue: str, tick: float) -> None:
        if not broker.capabilities.delay:
            return  # that it is refused, test_delayed_sends asserts
        with _subscribed(broker, queue) as pushed:
            sending = time.monotonic()
            broker.send(queue, Outgoing(b"later", delay=tick))
            assert bodies(_pushed(broker, queue, pushed, 1)) == [b"later"]
            assert time.monotonic() - sending > 0.9 * tick

    def test_no_more_is_held_than_the_prefetch(
        self, broker: Broker, queue: str, open_broker: Callable[[], Broker]
    ) -> None:
        broker.send_batch(queue, numbered(10, key=line(broker)))
        with _subscribed(broker, queue, prefetch=3) as pushed:
            if pushed is None or broker.capabilities.push != "message":
                assert len(take_many(broker, queue, 10)) == 10  # a signal holds nothing
                return
            held = _pushed(broker, queue, pushed, 3, settle=False)
            assert pushed.next(MOMENT) is None
            assert broker.ack(held[:2]) == [True, True]
            more = _pushed(broker, queue, pushed, 2, settle=False)
            assert len({one.id for one in (*held, *more)}) == 5
            assert pushed.next(MOMENT) is None

    def test_a_subscription_that_ends_gives_back_what_nobody_took(
        self, broker: Broker, queue: str, open_broker: Callable[[], Broker]
    ) -> None:
        broker.send_batch(queue, numbered(6, key=line(broker)))
        with _subscribed(broker, queue, lease=60.0) as pushed:
            (first,) = _pushed(broker, queue, pushed, 1)
        other = open_broker()
        left = [first, *take_many(other, queue, 5)]
        assert sorted(bodies(left)) == [b"0", b"1", b"2", b"3", b"4", b"5"]

    def test_a_wait_can_be_ended(self, broker: Broker, queue: str) -> None:
        with _subscribed(broker, queue) as pushed:
            if pushed is None:
                assert broker.receive(queue, wait=MOMENT) == []
                return
            assert pushed.next(0) is None
            ended, threads = threading.Event(), Background()

            def wait() -> None:
                while not ended.is_set():
                    assert pushed.next(10 * PATIENCE) is None

            threads.start(wait)
            ended.set()
            pushed.wake()
            threads.join()

    def test_a_slow_subscriber_holds_up_no_other(self, broker: Broker, queue: str, missing: str) -> None:
        second = f"{missing}b"
        broker.ensure(second)
        try:
            broker.send_batch(queue, numbered(30, key=line(broker)))
            with _subscribed(broker, queue, prefetch=2), _subscribed(broker, second) as pushed:
                broker.send_batch(second, numbered(5, key=line(broker)))
                assert len(_pushed(broker, second, pushed, 5)) == 5
        finally:
            broker.delete(second)


@contextmanager
def _subscribed(broker: Any, queue: str, **options: Any) -> Iterator[Subscription | None]:
    """A subscription, or None of a broker that has no push: its tests then receive."""
    if broker.capabilities.push == "none":
        yield None
        return
    subscription = broker.subscribe(queue, **options)
    try:
        yield subscription
    finally:
        subscription.close()


def _pushed(
    broker: Broker, queue: str, pushed: Subscription | None, count: int, *, settle: bool = True
) -> list[Delivery]:
    """So many messages, each received only after a push said so."""
    found: list[Delivery] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count:
        left = deadline - time.monotonic()
        assert left > 0, f"expected {count} messages by push, got {len(found)}"
        told = None if pushed is None else pushed.next(left)
        if isinstance(told, Message):
            some = [told.delivery]
        else:
            some = broker.receive(queue, count - len(found), wait=0.0 if pushed is not None else left)
        if settle:
            assert broker.ack(some) == [True] * len(some)
        found += some
    return found
