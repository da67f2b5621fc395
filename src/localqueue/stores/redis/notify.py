"""Waiting: the listener that the server tells of changes over publish/subscribe, and the listening half of the port.

Whoever waits looks at the server in one call, and again when it is told to.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from localqueue.stores import rules
from localqueue.stores.listener import Listener
from localqueue.stores.port import Waiter
from localqueue.stores.redis.connection import Connections, send
from localqueue.stores.redis.reads import Reads
from localqueue.stores.redis.schema import digest
from localqueue.stores.wake import StoreWaiter, Wake

_ANSWERS_WITHIN = 3.0
_ANYTHING = b"*"


class RedisListener(Listener):
    """Two threads may use its connection: its own reads what has come in, any other may send a PING to be answered."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        super().__init__()
        self._connect = connect
        self._connection: Any = None
        self._speaking = threading.Lock()
        self._nudged = False
        self._heard: list[tuple[str, list[str] | None]] = []
        self._subscribed: set[bytes] = set()

    def connect(self) -> None:
        self._connection = self._connect()
        self._heard = []
        self._subscribed = set()

    def subscribe(self, channels: Iterable[str]) -> None:
        wanted = {channel.encode() for channel in channels}
        for command, names in ((b"SUBSCRIBE", wanted - self._subscribed), (b"UNSUBSCRIBE", self._subscribed - wanted)):
            if names:
                self._send(command, *names)
                self._until_confirmed(command.lower(), set(names))
        self._subscribed = wanted

    def hear(self, timeout: float) -> list[tuple[str, list[str] | None]]:
        if not self._heard and not self._nudged:
            self._receive(timeout)
        self._nudged = False
        heard, self._heard = self._heard, []
        return heard

    def probe(self) -> None:
        self._send(b"PING")
        self._until_confirmed(b"pong", {b""})

    def disconnect(self) -> None:
        with self._speaking:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def nudge(self) -> None:
        self._nudged = True  # the answer may come while another is waited for
        with suppress(Exception):  # there is nobody to hear it
            self._send(b"PING")

    def abandon(self) -> None:
        """In a child: the connection and the thread are the parent's."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def _send(self, *command: bytes) -> None:
        with self._speaking:
            send(self._connection, *command)

    def _until_confirmed(self, kind: bytes, pending: set[bytes]) -> None:
        """Read on until the server has confirmed all of these."""
        deadline = time.monotonic() + _ANSWERS_WITHIN
        while pending:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answer to {kind.decode()} within {_ANSWERS_WITHIN} s")
            answer = self._receive(max(deadline - time.monotonic(), 0.001))
            if answer is not None and answer[0] == kind:
                pending.discard(answer[1])

    def _receive(self, timeout: float) -> list[Any] | None:
        """Wait for something to be said; what is not a message is handed back, messages are kept for `hear`."""
        if not self._connection.can_read(timeout):
            return None
        with self._speaking:
            answer = self._connection.read_response()
        if isinstance(answer, bytes):  # of a connection that has no channel
            return [answer.lower(), b""]
        if answer[0] != b"message":
            return list(answer)
        said = answer[2]
        self._heard.append((answer[1].decode(), None if said == _ANYTHING else said.decode().split(" ")))
        return None


class Ear:
    """This store's part in the listener that the process shares for one server; it begins with the first waiter."""

    def __init__(self, server: Connections, url: str, channel: bytes) -> None:
        self._server = server
        self._url = url
        self._channel = channel.decode()
        self._lock = threading.Lock()
        self._listener: RedisListener | None = None
        self.wake = Wake(None, catch_up=self._catch_up)

    def open(self) -> None:
        """Returns when the server tells of changes, or else soon."""
        if self._listener is not None:
            return
        with self._lock:
            if self._listener is None:
                listener = RedisListener.share(("redis", self._url), lambda: RedisListener(self._server.new))
                listener.add(self._channel, self.wake)
                self._listener = listener

    def _catch_up(self) -> float:
        listener = self._listener
        return 0.0 if listener is None else listener.catch_up()  # 0: the store was closed, look and see

    def close(self) -> None:
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.remove(self._channel, self.wake)
            listener.release()

    def abandon(self) -> None:
        if self._listener is not None:
            self._listener.abandon()


class Notices(Reads):
    _ear: Ear

    def listen(self, queues: Sequence[str], *, worker: str | None = None) -> Waiter:
        names = [self._digest(name) for name in queues]

        def check() -> tuple[bool, float]:
            return _seen(self._read("look", worker=worker, queues=names)[1])

        self._ear.open()
        return StoreWaiter(self._wake, [name.decode() for name in names], check)

    def listen_capacity(self, limits: Mapping[str, int]) -> Waiter:
        wanted = {self._digest(name): limit for name, limit in limits.items()}

        def check() -> tuple[bool, float]:
            return _seen(self._write("room", again=True, limits=wanted)[1])

        self._require_writable()
        self._ear.open()
        return StoreWaiter(self._wake, [name.decode() for name in wanted], check)

    def listen_run(self, run_id: str) -> Waiter:
        run = digest(run_id)

        def look() -> Any:
            if self.read_only:  # leaves no mark, and so is not told but looks from time to time
                return self.run(run_id)
            return self._run_stats(run_id, self._write("await_run", again=True, run=run)[1])

        self._ear.open()
        seen = [look()]

        def check() -> tuple[bool, float]:
            now = look()
            changed, seen[0] = now != seen[0], now
            return changed, rules.NEVER

        return StoreWaiter(self._wake, [run.decode()], check)


def _seen(answer: Any) -> tuple[bool, float]:
    done, seconds = answer
    return bool(done), rules.NEVER if seconds is None else float(seconds)
