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
from localqueue.stores.listener import Ear, Listener
from localqueue.stores.port import Waiter
from localqueue.stores.redis import rows
from localqueue.stores.redis.connection import send
from localqueue.stores.redis.reads import Reads
from localqueue.stores.redis.schema import digest
from localqueue.stores.wake import StoreWaiter, change_of

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


class Notices(Reads):
    _url: str
    _ear: Ear
    _record_ear: Ear

    def _start_listening(self) -> None:
        key, new, channel = ("redis", self._url), self._server.new, self._root.decode()

        def join() -> Listener | None:
            return RedisListener.share(key, lambda: RedisListener(new))

        self._ear = Ear(channel, join)
        self._wake = self._ear.wake
        # Apart, so that a worker which waits for messages does not hear of every outcome.
        self._record_ear = Ear(f"{channel}:records", join)
        self._record_wake = self._record_ear.wake

    def listen(self, queues: Sequence[str], *, worker: str | None = None) -> Waiter:
        names = [self._digest(name) for name in queues]

        def check() -> tuple[bool, float]:
            return _seen(self._read("look", worker=worker, queues=names)[1])

        return StoreWaiter(self._ear.open(), [name.decode() for name in names], check)

    def listen_capacity(self, limits: Mapping[str, int]) -> Waiter:
        wanted = {self._digest(name): limit for name, limit in limits.items()}

        def check() -> tuple[bool, float]:
            return _seen(self._write("room", again=True, limits=wanted)[1])

        self._require_writable()
        return StoreWaiter(self._ear.open(), [name.decode() for name in wanted], check)

    def listen_run(self, run_id: str) -> Waiter:
        run = digest(run_id)

        def look() -> Any:
            if self.read_only:  # leaves no mark, and so is not told but looks from time to time
                return self.run(run_id)
            return self._run_stats(run_id, self._write("await_run", again=True, run=run)[1])

        wake = self._ear.open()
        return StoreWaiter(wake, [run.decode()], change_of(look))

    def listen_records(self, kind: str, keys: Sequence[str]) -> Waiter:
        names = list(dict.fromkeys(keys))
        tokens = [rows.record_token(kind, name).decode() for name in names]
        wake = self._record_ear.open()
        return StoreWaiter(wake, tokens, change_of(lambda: self._record_versions(kind, names)))


def _seen(answer: Any) -> tuple[bool, float]:
    done, seconds = answer
    return bool(done), rules.NEVER if seconds is None else float(seconds)
