"""Webhooks: a small signed POST to each of some URLs after a put."""

from __future__ import annotations

import math
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self

from localqueue.notifications.courier import Courier
from localqueue.notifications.delay import tell_when_due
from localqueue.notifications.dialer import Dialer
from localqueue.notifications.endpoint import parse_endpoint
from localqueue.notifications.event import Arrival, EventCount
from localqueue.notifications.fork import heed_forks
from localqueue.notifications.headers import checked_headers
from localqueue.notifications.signature import HEADER, key_of


class WebhookNotification:
    """POSTs `{"queue", "message_id", "event_id", "at"}` to a URL, or to each of several, when a message can be leased.

    What is in the message is never sent. With a `secret` the header `X-Localqueue-Signature` proves where it comes
    from: see `signature.verify`, and `WebhookReceiver` for the other side.

    `put` never waits for it: each URL has a thread, which delivers in order and ends when there is nothing to do. It
    tries again after lost connections and the answers 429 and 5xx, `retries` times, ever later, or when `Retry-After`
    asks for it. Any other answer than 2xx fails. At most `max_pending` events wait for a URL; more than that become
    one for each queue, without a `message_id`.

    Hosts that are not on the public internet are refused, whether named, found by DNS or redirected to, unless
    `allow_private`. Redirects are followed on the same host only. A `dialer` of yours, which makes the connections,
    replaces `allow_private` and `context`.
    """

    notifies = True
    notifies_on_put = True

    def __init__(
        self,
        urls: str | Iterable[str],
        *,
        secret: str | bytes | None = None,
        timeout: float = 5.0,
        retries: int = 3,
        max_pending: int = 1000,
        allow_private: bool = False,
        headers: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        dialer: Dialer | None = None,
    ) -> None:
        endpoints = [parse_endpoint(url) for url in ((urls,) if isinstance(urls, str) else urls)]
        if not endpoints:
            raise ValueError("urls cannot be empty")
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf:
            raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}")
        for name, count, least in (("retries", retries, 0), ("max_pending", max_pending, 1)):
            if isinstance(count, bool) or not isinstance(count, int) or count < least:
                raise ValueError(f"{name} must be a whole number, at least {least}, got {count!r}")
        dialer = dialer or Dialer(allow_private=allow_private, context=context)
        for endpoint in endpoints:
            dialer.check(endpoint)
        key = None if secret is None else key_of(secret)
        extra = checked_headers(headers or {}, ours=(HEADER.lower(),))
        self._urls = [endpoint.shown for endpoint in endpoints]
        self._signed = key is not None
        self._couriers = [
            Courier(
                endpoint,
                dialer,
                key=key,
                headers=extra,
                timeout=timeout,
                retries=retries,
                max_pending=max_pending,
            )
            for endpoint in endpoints
        ]
        self._closed = False
        self._lock = threading.Lock()
        self._count = EventCount()
        heed_forks(self)

    def notify(self, message: Any) -> None:
        """Tell of a message when it can be leased. Never waits for a receiver."""
        tell_when_due(message, partial(self._hand_out, Arrival.of(message)))

    def _hand_out(self, arrival: Arrival) -> None:
        with self._lock:  # so that every URL is told in the order of the ids
            if not self._closed:
                event = self._count.next(arrival)
                for courier in self._couriers:
                    courier.hand(event)

    @property
    def listener_count(self) -> int:
        """The URLs that are told."""
        return len(self._couriers)

    @property
    def sent(self) -> int:
        """Events that a receiver has taken."""
        return sum(courier.sent for courier in self._couriers)

    @property
    def failed(self) -> int:
        """Events that were given up."""
        return sum(courier.failed for courier in self._couriers)

    @property
    def retried(self) -> int:
        """Times that something was tried again."""
        return sum(courier.retried for courier in self._couriers)

    @property
    def coalesced(self) -> int:
        """Events that were not sent one by one, because a receiver was slow."""
        return sum(courier.coalesced for courier in self._couriers)

    @property
    def last_error(self) -> str | None:
        """Why something could not be sent, the last time that happened."""
        errors = [courier.last_error for courier in self._couriers if courier.last_error is not None]
        return max(errors)[1] if errors else None

    def as_dict(self) -> dict[str, Any]:
        return {
            "type": "webhook",
            "scope": "network",
            "notifies": self.notifies,
            "notifies_on_put": self.notifies_on_put,
            "listener_count": self.listener_count,
            "urls": list(self._urls),
            "signed": self._signed,
        }

    def close(self, timeout: float = 5.0) -> bool:
        """Deliver what waits, for `timeout` seconds at most, and end the threads. False when something was given up.
        What is put from now on is not told."""
        with self._lock:
            self._closed = True
        deadline = time.monotonic() + timeout
        delivered = [courier.close(deadline) for courier in self._couriers]
        return all(delivered)

    def abandon(self) -> None:
        """In the child of a fork: what waits is delivered by the parent."""
        self._lock = threading.Lock()
        self._count = EventCount()
        for courier in self._couriers:
            courier.abandon()

    def __repr__(self) -> str:
        return f"WebhookNotification({', '.join(map(repr, self._urls))})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
