"""Waiting for what another process tells by server-sent events."""

from __future__ import annotations

import http.client
import json
import logging
import math
import random
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Literal
from urllib.parse import quote

from localqueue.notifications.dialer import Dialer
from localqueue.notifications.endpoint import Endpoint, parse_endpoint
from localqueue.notifications.event_stream import Block, read_blocks
from localqueue.notifications.headers import checked_headers
from localqueue.notifications.port import CATCH_UP, CrossProcessNotification

_log = logging.getLogger("localqueue")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
_PATIENCE = 2.0  # seconds that one who begins to listen waits for the first answer
_MOST_QUEUES = 200  # beyond that all are asked for: an address must not get too long
_LONGEST_LINE = 65_536
_LONGEST_ID = 200
_REDIRECTS = 3


class SSEListener(CrossProcessNotification):
    """What a consumer waits at when its producer has an `SSENotification` whose app is served at `url`.

    One thread listens while somebody waits. When the connection breaks it connects again, soon at first and then ever
    later, asks for what it missed and has everybody look. A stream that is silent for `silence` seconds, heartbeats
    included, counts as broken.
    """

    kind: ClassVar[str] = "sse-listener"
    scope: ClassVar[Literal["host", "network"]] = "network"

    def __init__(
        self,
        url: str,
        queue: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        silence: float = 45.0,
        context: ssl.SSLContext | None = None,
        catch_up: float = CATCH_UP,
    ) -> None:
        super().__init__(queue, catch_up=catch_up)
        if isinstance(silence, bool) or not isinstance(silence, (int, float)) or not 0 < silence < math.inf:
            raise ValueError(f"silence must be a positive number of seconds, got {silence!r}")
        self._endpoint = parse_endpoint(url)
        self._headers = checked_headers(headers or {}, ours=("accept", "last-event-id"))
        self._silence = silence
        self._dialer = Dialer(allow_private=True, context=context)
        self._stream: _Stream | None = None
        self._last_event_id: str | None = None

    def send(self, queue: str | None, delay: float) -> None:
        """It only listens."""

    def listen(self, queues: frozenset[str | None]) -> None:
        stream = self._stream
        if stream is not None:
            if queues and stream.covers(queues):
                return  # what nobody wants any more is let through, and wakes nobody
            self._stream = None
            stream.stop()
        if queues:
            self._stream = _Stream(self._connect, queues, self._hear)
            self._stream.start()

    @property
    def live(self) -> bool:
        stream = self._stream
        return stream is not None and stream.is_live

    def details(self) -> dict[str, Any]:
        return {"url": self._endpoint.shown}

    def abandon(self) -> None:
        self._stream = None

    def _hear(self, block: Block | None) -> None:
        """Something was said, or, with None, can be heard again: then anything may have happened meanwhile."""
        if block is None:
            self.tell(None)
            return
        if block.event_id and len(block.event_id) <= _LONGEST_ID and block.event_id.isascii():
            self._last_event_id = block.event_id if block.event_id.isprintable() else None
        if block.kind == "reset":
            self.tell(None)
        elif block.kind == "available":
            try:
                queue = json.loads(block.data).get("queue")
            except (ValueError, AttributeError, RecursionError):
                queue = None
            self.tell(queue if isinstance(queue, str) else None)

    def _connect(
        self, queues: frozenset[str | None], hold: Callable[[socket.socket], None]
    ) -> http.client.HTTPResponse:
        endpoint = _asking(self._endpoint, queues)
        headers = {**self._headers, "Accept": "text/event-stream", "Cache-Control": "no-store"}
        if endpoint.authorization is not None:
            headers["Authorization"] = endpoint.authorization
        if self._last_event_id is not None:
            headers["Last-Event-ID"] = self._last_event_id
        for _ in range(_REDIRECTS + 1):
            connection = self._dialer.dial(endpoint, min(self._silence, _PATIENCE))
            opened = connection.sock
            try:
                hold(opened)
                connection.request("GET", endpoint.target, headers=headers)
                response = connection.getresponse()
                kind = response.headers.get_content_type()
                if response.status == 200 and kind == "text/event-stream":
                    opened.settimeout(self._silence)
                    return response
                if response.status in (301, 302, 307, 308) and (location := response.headers.get("Location")):
                    endpoint = endpoint.follow(location)
                    connection.close()
                    continue
                raise OSError(f"{endpoint.shown} answered {response.status} with {kind}, not with events")
            except BaseException:
                connection.close()
                raise
        raise OSError(f"{self._endpoint.shown} redirects more than {_REDIRECTS} times")

    def __repr__(self) -> str:
        return f"SSEListener({self._endpoint.shown!r}{'' if self.queue is None else f', {self.queue!r}'})"


class _Stream:
    """The thread that hears of some queues until it is stopped."""

    def __init__(
        self,
        connect: Callable[[frozenset[str | None], Callable[[socket.socket], None]], http.client.HTTPResponse],
        queues: frozenset[str | None],
        hear: Callable[[Block | None], None],
    ) -> None:
        self._connect = connect
        self._queues = queues
        self._hear = hear
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._tried = threading.Event()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="localqueue-sse", daemon=True)
        self._pause = _FIRST_PAUSE
        self.is_live = False

    def covers(self, queues: frozenset[str | None]) -> bool:
        """Whether it hears of all these."""
        return queues <= self._queues or _is_all(self._queues)

    def start(self) -> None:
        """Returns when the server tells, or has been asked in vain."""
        self._thread.start()
        self._tried.wait(_PATIENCE)

    def stop(self) -> None:
        with self._lock:
            self._stopped.set()
            if self._socket is not None:
                with suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        if self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)

    def _run(self) -> None:
        complained = False
        while not self._stopped.is_set():
            try:
                self._listen()
            except Exception as error:
                if not self._stopped.is_set() and (self._pause == _FIRST_PAUSE or not complained):
                    complained = True
                    _log.warning("can not hear of messages (%s: %s); connecting again", type(error).__name__, error)
            finally:
                self.is_live = False
                self._tried.set()
            self._stopped.wait(self._pause * random.uniform(0.5, 1.0))
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _listen(self) -> None:
        try:
            response = self._connect(self._queues, self._hold)
        except BaseException:
            self._let_go()
            raise
        try:
            self.is_live = True
            self._hear(None)
            self._tried.set()
            for block in read_blocks(_lines(response)):
                self._pause = _FIRST_PAUSE
                self._hear(block)
        finally:
            response.close()
            self._let_go()

    def _hold(self, opened: socket.socket) -> None:
        with self._lock:
            if self._stopped.is_set():
                raise OSError("nobody listens any more")
            self._socket = opened

    def _let_go(self) -> None:
        with self._lock:
            opened, self._socket = self._socket, None
        if opened is not None:
            opened.close()


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while line := response.readline(_LONGEST_LINE + 1):
        if len(line) > _LONGEST_LINE:
            raise OSError(f"a line of more than {_LONGEST_LINE} bytes was sent")
        yield line


def _asking(endpoint: Endpoint, queues: frozenset[str | None]) -> Endpoint:
    """The address that asks for these queues."""
    if _is_all(queues):
        return endpoint
    return endpoint.with_query("&".join(f"queue={quote(name, safe='')}" for name in sorted(filter(None, queues))))


def _is_all(queues: frozenset[str | None]) -> bool:
    return None in queues or len(queues) > _MOST_QUEUES
