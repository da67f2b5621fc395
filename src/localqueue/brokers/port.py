"""The broker port: what is asked of a place that delivers messages, and no more.

A broker delivers; it is not a store. It has no transaction over several queues, no records and no history, and what
else it lacks differs from one to the next. So a broker says what it can do (`capabilities`, a row of
`localqueue.brokers.capabilities`), refuses the rest with `UnsupportedByBroker`, and keeps these rules, which
`localqueue.contracts.BrokerContract` checks:

- `send` and `send_batch` return when the broker has taken responsibility: confirmed, replicated or committed, as it is
  configured. An error leaves open what of a batch was taken, unless the broker takes a batch whole.
- A delivery stays its receiver's until it is settled, its lease runs out, or the connection it came over ends. Nothing
  is acknowledged before the receiver says so.
- `ack`, `nack` and `extend` answer for each delivery whether it was still held. One that was not held is left alone.
- Only `ensure` makes a queue. `stats` and `health` look, and whatever else meets a queue that is not there says so with
  `QueueStoreMissingError`.
- Every method may be called from any thread. `close` ends a `receive` that waits.
- A broker that can not be reached is a `QueueStoreUnavailableError`; the next call tries again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, runtime_checkable

from localqueue.brokers.capabilities import BrokerCapabilities

if TYPE_CHECKING:
    from localqueue.stores.port import QueueStore

NO_HEADERS: Mapping[str, str] = {}


class Outgoing(NamedTuple):
    """A message to send. `id` is kept as its id; without one the broker's own is its id, or a new one.

    Messages of one `key` stay in order where the broker orders by key. What the broker can not do (`delay`, `priority`,
    `dedupe_key`) is refused, not left out.
    """

    body: bytes
    headers: Mapping[str, str] = NO_HEADERS
    id: str | None = None
    key: str | None = None
    delay: float = 0.0
    priority: int = 0
    dedupe_key: str | None = None


class Delivery(NamedTuple):
    """A message as it was received. `attempts` counts deliveries from 1 on, as far as the broker counts them.

    `receipt` is the broker's own, to settle by. `leased_until` is None where the connection is the lease. `origin` is
    what the broker knows the message by, the same each time it is delivered; None where it has no such name.
    `redelivered` is False where the broker promises that nobody has had the message before.
    """

    queue: str
    id: str
    body: bytes
    headers: Mapping[str, str]
    attempts: int
    receipt: Any
    key: str | None = None
    priority: int = 0
    sent_at: float | None = None
    leased_until: float | None = None
    dedupe_key: str | None = None
    origin: str | None = None
    redelivered: bool = True


class Available(NamedTuple):
    """A push that says: there may be something to receive in `queue`."""

    queue: str
    message_id: str | None = None


class Message(NamedTuple):
    """A push that is the message itself, delivered and waiting to be settled."""

    delivery: Delivery


MessageNotification = Available | Message


class BrokerStats(NamedTuple):
    """How many messages there are, None where the broker can not tell."""

    ready: int | None
    inflight: int | None = None
    delayed: int | None = None
    dead: int | None = None


class Health(NamedTuple):
    """Whether the broker answers, in how many seconds it did, and what it said if not."""

    ok: bool
    seconds: float
    detail: str = ""


class Subscription(Protocol):
    """Push of one queue. It begins with what is there already, and holds no more than its prefetch."""

    def next(self, timeout: float | None = None) -> MessageNotification | None:
        """The next push; None after `timeout` seconds. `QueueStoreUnavailableError` when no more will come."""

    def wake(self) -> None:
        """End the `next` that waits, or the next one, as if its time were up. May be called from any thread."""

    def close(self) -> None:
        """Stop, and give back what was pushed and nobody has taken."""


@runtime_checkable
class SupportsPush(Protocol):
    """A broker that tells of messages by itself."""

    def subscribe(self, queue: str, *, prefetch: int = 100, lease: float = 30.0) -> Subscription:
        """Have the messages of a queue told of, or delivered: at most `prefetch` that are not settled yet."""


@runtime_checkable
class SupportsHandover(Protocol):
    """A broker whose leases are no part of a connection: who has a receipt in writing settles by it, in any process."""

    def written(self, delivery: Delivery) -> str:
        """The receipt of a delivery as text."""

    def resumed(self, queue: str, message_id: str, receipt: str) -> Delivery:
        """The delivery that a text was written of, without its content: to extend, to ack and to nack."""


class Broker(Protocol):
    """One broker, opened by `open_broker`. It has `subscribe` too if it is `SupportsPush`, and receipts in writing
    if it is `SupportsHandover`."""

    @property
    def capabilities(self) -> BrokerCapabilities: ...

    @property
    def url(self) -> str:
        """Where the broker is, without any password."""

    def ensure(self, queue: str) -> None:
        """Make the queue, and what belongs to it, where it is not there yet."""

    def send(self, queue: str, message: Outgoing) -> str:
        """Send one message; its id."""

    def send_batch(self, queue: str, messages: Sequence[Outgoing]) -> list[str]:
        """Send several in order, in as few round trips as the broker has; their ids."""

    def receive(self, queue: str, limit: int = 1, *, wait: float = 0.0, lease: float = 30.0) -> list[Delivery]:
        """Up to `limit` messages, waiting at most `wait` seconds for the first; none when there are none.

        Where the broker has leases, they are ours for `lease` seconds.
        """

    def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        """They are done: for each whether that was accepted."""

    def nack(
        self,
        deliveries: Sequence[Delivery],
        *,
        delay: float = 0.0,
        dead: bool = False,
        error: Mapping[str, Any] | None = None,
    ) -> list[bool]:
        """They are not done: deliver them again after `delay`, or, `dead`, put them where dead letters go.

        `error` goes with a dead letter as the header `localqueue-error`, as JSON.
        """

    def extend(self, deliveries: Sequence[Delivery], seconds: float) -> list[float | None]:
        """Hold them for so many seconds from now; until when, None for what is not held any more.

        Where the connection is the lease, they are held anyway, and this only says so.
        """

    def dead_letters(self, queue: str, limit: int = 100) -> list[Delivery]:
        """Take dead letters as deliveries: `ack` removes one, `nack` leaves it where it is."""

    def stats(self, queue: str) -> BrokerStats: ...

    def purge(self, queue: str) -> int | None:
        """Remove the messages that wait; how many they were, if the broker can tell."""

    def delete(self, queue: str) -> None:
        """Remove the queue, its messages and its dead letters; nothing happens where it is not there."""

    def health(self) -> Health:
        """Ask the broker for an answer; never raises because it gave none."""

    def as_store(self) -> QueueStore:
        """The broker as the store of a `PersistentQueue`, always the same object."""

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
