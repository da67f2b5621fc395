"""What the author of a broker hands to its contract suite, and the steps that its tests are made of."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from localqueue.brokers.port import Broker, Delivery, Outgoing
from localqueue.contracts.steps import PATIENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHarness:
    """`open` opens the broker under test anew, as another process would: same server, same queues.

    `tick` is the shortest lease and the shortest delay that this broker keeps exactly, in seconds.
    """

    open: Callable[[], Broker]
    tick: float = 0.3


class BrokerFixtures:
    """Subclass a suite as `Test...` and provide the fixture `harness`."""

    @pytest.fixture
    def harness(self) -> BrokerHarness:
        raise NotImplementedError(f"{type(self).__name__} provides the fixture `harness`")

    @pytest.fixture
    def tick(self, harness: BrokerHarness) -> float:
        return harness.tick

    @pytest.fixture
    def open_broker(self, harness: BrokerHarness) -> Iterator[Callable[[], Broker]]:
        opened: list[Broker] = []

        def open_broker() -> Broker:
            opened.append(harness.open())
            return opened[-1]

        yield open_broker
        for broker in opened:
            broker.close()

    @pytest.fixture
    def broker(self, open_broker: Callable[[], Broker]) -> Broker:
        return open_broker()

    @pytest.fixture
    def missing(self) -> str:
        """The name of a queue that is not there, which every broker could have."""
        return f"q{secrets.token_hex(5)}"

    @pytest.fixture
    def queue(self, broker: Broker, missing: str, harness: BrokerHarness) -> Iterator[str]:
        broker.ensure(missing)
        yield missing
        with harness.open() as cleaner:
            cleaner.delete(missing)


def bodies(deliveries: Sequence[Delivery]) -> list[bytes]:
    return [one.body for one in deliveries]


def numbered(count: int, **options: object) -> list[Outgoing]:
    return [Outgoing(str(number).encode(), **options) for number in range(count)]  # type: ignore[arg-type]


def known_counts(broker: Broker, queue: str) -> dict[str, int]:
    return {name: value for name, value in broker.stats(queue)._asdict().items() if value is not None}


def line(broker: Broker) -> str | None:
    """The key of messages that are to stay in order, where it takes one."""
    return "k" if broker.capabilities.order == "key" else None


def take(broker: Broker, queue: str, *, lease: float = 30.0) -> Delivery:
    """One message that must come."""
    found = broker.receive(queue, 1, wait=PATIENCE, lease=lease)
    assert len(found) == 1, f"expected a message in {queue!r}"
    return found[0]


def take_many(broker: Broker, queue: str, count: int, *, lease: float = 30.0) -> list[Delivery]:
    """So many messages that must come, in the order they came in."""
    found: list[Delivery] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < deadline:
        found += broker.receive(queue, count - len(found), wait=deadline - time.monotonic(), lease=lease)
    assert len(found) == count, f"expected {count} messages in {queue!r}, got {len(found)}"
    return found


def take_renewed(broker: Broker, queue: str, *, lease: float, renewed: float) -> tuple[Delivery, float | None, float]:
    """One message whose lease is renewed before it ends; until when, and the moment just before.

    A busy machine may come too late, and then tries again: a lease that had not ended must be renewed.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        held, renewing = take(broker, queue, lease=lease), time.monotonic()
        (until,) = broker.extend([held], renewed)
        assert held.leased_until is not None
        if until is not None or time.time() < held.leased_until or renewing > deadline:
            return held, until, renewing


def take_after(broker: Broker, queue: str, since: float, seconds: float) -> Delivery:
    """One message that must come, and not before so many seconds have passed, by the clock of the broker."""
    found, passed = take(broker, queue), time.monotonic() - since
    assert passed > 0.9 * seconds, f"it came after {passed:.3f} s"
    return found


def none_left(broker: Broker, queue: str) -> bool:
    """Whether there is nothing to receive."""
    return broker.receive(queue, 10) == []
