"""Brings events to one URL. Each URL has a courier of its own, so that a slow one holds up no other."""

from __future__ import annotations

import email.utils
import http.client
import logging
import random
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress

from localqueue._version import __version__
from localqueue.notifications.dialer import Dialer
from localqueue.notifications.endpoint import Endpoint
from localqueue.notifications.event import Event
from localqueue.notifications.mailbox import Mailbox, look_again
from localqueue.notifications.signature import HEADER, sign

_log = logging.getLogger("localqueue")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0
_LINGER = 5.0  # seconds that the thread and its connection stay when there is nothing to bring
_REDIRECTS = 3
_SHORT_ANSWER = 4096  # bytes that are read to use the connection again
_ALREADY_KNOWN = 409  # the answer of a receiver that has had the event: an earlier answer got lost


class _Refused(Exception):
    """The receiver will not take this event, however often it is brought."""


class _NotNow(Exception):
    """The receiver could not take it; `after` is what it said about when to come again."""

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


class Courier:
    """Delivers one event after the other, in order, in a thread that exists while there is something to deliver.

    At most `max_pending` events wait; more than that shrink to one for each queue.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        dialer: Dialer,
        *,
        key: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
        retries: int,
        max_pending: int,
    ) -> None:
        self._endpoint = endpoint
        self._dialer = dialer
        self._key = key
        self._headers = {
            **headers,
            "Content-Type": "application/json",
            "User-Agent": f"localqueue/{__version__}",
            **({"Authorization": endpoint.authorization} if endpoint.authorization else {}),
        }
        self._timeout = timeout
        self._retries = retries
        self._max_pending = max_pending
        self.sent = self.failed = self.retried = 0
        self.last_error: tuple[float, str] | None = None
        self._is_closing = False
        self.abandon()

    def abandon(self) -> None:
        """Begin with nothing to deliver, as in the child of a fork: what waits is brought by the parent."""
        self._changed = threading.Condition()
        self._mailbox: Mailbox[Event] = Mailbox(self._max_pending, look_again)
        self._thread: threading.Thread | None = None
        self._connection: http.client.HTTPConnection | None = None
        self._connected_to: Endpoint | None = None
        self._gives_up = False
        self._is_failing = False

    @property
    def coalesced(self) -> int:
        return self._mailbox.coalesced

    def hand(self, event: Event) -> None:
        """Have an event delivered. Returns at once."""
        with self._changed:
            self._mailbox.put(event)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="localqueue-webhook", daemon=True)
                thread.start()
                self._thread = thread
            else:
                self._changed.notify_all()

    def close(self, deadline: float) -> bool:
        """Wait until everything is delivered or `time.monotonic()` is past the deadline; then give up on the rest.
        False when something was given up."""
        with self._changed:
            thread, self._is_closing = self._thread, True
            self._changed.notify_all()
        if thread is None:
            return True
        thread.join(max(0.0, deadline - time.monotonic()))
        if not thread.is_alive():
            return True
        with self._changed:
            self._gives_up = True
            self._changed.notify_all()
            self._cut()
        thread.join(self._timeout)
        self.failed += len(self._mailbox.take_all())
        return False

    def _run(self) -> None:
        while (event := self._next()) is not None:
            self._deliver(event)

    def _next(self) -> Event | None:
        with self._changed:
            if not self._is_closing and not len(self._mailbox):
                self._changed.wait_for(lambda: len(self._mailbox) or self._is_closing, _LINGER)
            event = None if self._gives_up else self._mailbox.take()
            if event is None:
                self._hang_up()  # before another thread may connect
                self._thread = None
            return event

    def _deliver(self, event: Event) -> None:
        body = event.as_json().encode()
        pause = _FIRST_PAUSE
        for is_last in (*(False,) * self._retries, True):
            try:
                self._post(body)
            except (_NotNow, OSError, http.client.HTTPException) as error:
                self._hang_up()
                if is_last or self._gives_up or isinstance(error, ssl.SSLCertVerificationError):
                    return self._note_failure(error)
                self.retried += 1
                self._note(error)
                asked = error.after if isinstance(error, _NotNow) else None
                if self._must_stop(pause * random.uniform(0.5, 1.0) if asked is None else min(asked, _LONGEST_PAUSE)):
                    return self._note_failure(error)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except Exception as error:
                self._hang_up()
                return self._note_failure(error)
            else:
                self.sent += 1
                self._is_failing = False
                return None

    def _note_failure(self, error: Exception) -> None:
        self.failed += 1
        said = self._note(error)
        if not self._is_failing:
            _log.warning("could not tell %s of a message (%s)", self._endpoint.shown, said)
        self._is_failing = True

    def _note(self, error: Exception) -> str:
        said = str(error) or type(error).__name__
        self.last_error = time.monotonic(), said
        return said

    def _must_stop(self, seconds: float) -> bool:
        """Rest before the next try; whether there is no time for it."""
        with self._changed:
            return self._changed.wait_for(lambda: self._gives_up, seconds)

    def _post(self, body: bytes) -> None:
        endpoint = self._endpoint
        for _ in range(_REDIRECTS + 1):
            response = self._exchange(endpoint, body)
            status = response.status
            if 200 <= status < 300 or status == _ALREADY_KNOWN:
                return
            if status in (301, 302, 307, 308) and (location := response.headers.get("Location")):
                endpoint = endpoint.follow(location)
                self._dialer.check(endpoint)
                continue
            why = f"{endpoint.shown} answered {status}"
            if status == 429 or status >= 500:
                raise _NotNow(why, _seconds(response.headers.get("Retry-After")))
            raise _Refused(why)
        raise _Refused(f"{self._endpoint.shown} redirects more than {_REDIRECTS} times")

    def _exchange(self, endpoint: Endpoint, body: bytes) -> http.client.HTTPResponse:
        where = (endpoint.scheme, endpoint.host, endpoint.port)
        known = self._connected_to
        if self._connection is not None and known and (known.scheme, known.host, known.port) == where:
            try:
                return self._ask(self._connection, endpoint, body)
            except (ConnectionError, http.client.HTTPException):
                if self._gives_up:
                    raise
                # It was closed while there was nothing to send.
        self._hang_up()
        connection = self._dialer.dial(endpoint, self._timeout)
        with self._changed:
            self._connection, self._connected_to = connection, endpoint
        return self._ask(connection, endpoint, body)

    def _ask(self, connection: http.client.HTTPConnection, endpoint: Endpoint, body: bytes) -> http.client.HTTPResponse:
        signed = {} if self._key is None else {HEADER: sign(self._key, body)}
        connection.request("POST", endpoint.target, body, {**self._headers, **signed})
        response = connection.getresponse()
        if response.length is not None and response.length <= _SHORT_ANSWER:
            response.read()
        else:
            response.close()
            self._hang_up()
        return response

    def _hang_up(self) -> None:
        with self._changed:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _cut(self) -> None:
        """End what the thread is waiting for; it closes the connection itself."""
        opened = None if self._connection is None else self._connection.sock
        if opened is not None:
            with suppress(OSError):
                socket.socket.shutdown(opened, socket.SHUT_RDWR)


def _seconds(retry_after: str | None) -> float | None:
    """What a Retry-After header asks for: seconds, or a date."""
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return None
