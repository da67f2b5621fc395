"""What brokers share: checks of what is asked of them, by their capabilities, and the ends of their lives."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from localqueue.brokers.capabilities import BrokerCapabilities
from localqueue.brokers.port import Delivery, Health, Outgoing
from localqueue.errors import QueueError, QueueStoreClosedError, UnsupportedByBroker

if TYPE_CHECKING:
    from localqueue.stores.port import QueueStore

_LONGEST_WAIT = 10 * 365 * 86400.0


class BrokerBase:
    """Of a broker of this package. `capabilities` is its row, `url` its address without secrets."""

    def __init__(self, capabilities: BrokerCapabilities, url: str) -> None:
        self.capabilities = capabilities
        self.url = url
        self._closed = threading.Event()
        self._store: QueueStore | None = None
        self._making_store = threading.Lock()

    def as_store(self) -> QueueStore:
        with self._making_store:
            if self._store is None:
                from localqueue.brokers.queue_store import BrokerQueueStore

                self._store = BrokerQueueStore(self)  # type: ignore[arg-type]
            return self._store

    def require_open(self) -> None:
        if self._closed.is_set():
            raise QueueStoreClosedError(f"the broker at {self.url} is closed")

    def check_send(self, queue: str, messages: Sequence[Outgoing]) -> None:
        """Refuse what this broker can not do with one of the messages, before any of them is sent."""
        can = self.capabilities
        for one in messages:
            if not isinstance(one.body, bytes):
                raise TypeError(f"the body of a message is bytes, not {type(one.body).__name__}")
            if one.delay:
                self._check_delay(one.delay)
            if one.priority and not (isinstance(one.priority, int) and 0 < one.priority <= can.priorities):
                self.refuse(f"priority {one.priority!r}", f"it has priorities 0 to {can.priorities}")
            if one.dedupe_key is not None and not can.dedupe:
                self.refuse("a dedupe_key", "send without one, or use a broker or store that drops duplicates")
            if can.largest_body is not None and len(one.body) > can.largest_body:
                self.refuse(
                    f"a body of {len(one.body)} bytes for queue {queue!r}",
                    f"it takes {can.largest_body} at most; put the content elsewhere and send where it is",
                )

    def _check_delay(self, delay: float) -> None:
        can = self.capabilities
        if not can.delay:
            self.refuse(
                f"a delay of {delay:g} seconds", "send the message when it is due, or use another broker or store"
            )
        if not (isinstance(delay, int | float) and math.isfinite(delay) and delay >= 0):
            raise ValueError(f"delay must be a number of seconds from 0 on, not {delay!r}")
        if can.longest_delay is not None and delay > can.longest_delay:
            self.refuse(f"a delay of {delay:g} seconds", f"the longest is {can.longest_delay:g}")

    def refuse(self, what: str, way_out: str) -> None:
        """Raise what says that this broker can not do it."""
        raise UnsupportedByBroker(f"{self.capabilities.name} can not take {what}: {way_out}")

    def check_receive(self, limit: int, wait: float, lease: float) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError(f"limit must be a whole number from 1 on, not {limit!r}")
        if not isinstance(wait, int | float) or not 0 <= wait <= _LONGEST_WAIT:
            raise ValueError(f"wait must be a number of seconds from 0 on, not {wait!r}")
        if not isinstance(lease, int | float) or not 0 < lease < math.inf:
            raise ValueError(f"lease must be a number of seconds greater than zero, not {lease!r}")

    def check_nack(self, delay: float) -> None:
        if not isinstance(delay, int | float) or not 0 <= delay < math.inf:
            raise ValueError(f"delay must be a number of seconds from 0 on, not {delay!r}")
        if delay and not self.capabilities.retry_delay:
            self.refuse(f"a delay of {delay:g} seconds", "give the message back without one")

    def timed(self, ask: Callable[[], object]) -> Health:
        """The health that a question to the broker shows."""
        since = time.monotonic()
        try:
            ask()
        except QueueError as error:
            return Health(False, time.monotonic() - since, str(error))
        return Health(True, time.monotonic() - since)

    def close(self) -> None:
        self._closed.set()
        with self._making_store:
            store, self._store = self._store, None
        if store is not None:
            store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"


def one_queue(deliveries: Sequence[Delivery]) -> dict[str, list[int]]:
    """The positions of deliveries by their queue."""
    found: dict[str, list[int]] = {}
    for position, one in enumerate(deliveries):
        found.setdefault(one.queue, []).append(position)
    return found
