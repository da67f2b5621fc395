"""Hearing over publish/subscribe what other processes changed."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from localqueue.stores.listener import Listener
from localqueue.stores.redis.wire import Wire, pack

_ANSWERS_WITHIN = 3.0
_ANYTHING = b"*"


class _Incomplete(Exception):
    pass


class RedisListener(Listener):
    def __init__(self, connect: Callable[[], Wire]) -> None:
        super().__init__()
        self._connect = connect
        self._wire: Wire | None = None
        self._buffer = b""
        self._heard: list[tuple[str, list[str] | None]] = []
        self._subscribed: set[bytes] = set()
        self._bell, self._rung = socket.socketpair()
        self._bell.setblocking(False)
        self._rung.setblocking(False)

    def connect(self) -> None:
        self._wire = self._connect()
        self._buffer = b""
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
        if not self._heard:
            self._receive(timeout)
        heard, self._heard = self._heard, []
        return heard

    def probe(self) -> None:
        self._send(b"PING")
        self._until_confirmed(b"pong", set())

    def disconnect(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    def _close_bell(self) -> None:
        self._bell.close()
        self._rung.close()

    def nudge(self) -> None:
        with suppress(OSError):  # it rings already, or there is nobody left to hear it
            self._bell.send(b".")

    def release(self) -> None:
        super().release()
        if self._stopped.is_set():
            self._close_bell()

    def abandon(self) -> None:
        """In a child: the connection and the thread are the parent's."""
        if self._wire is not None:
            self._wire.abandon()
            self._wire = None
        self._close_bell()

    # the protocol of a connection that is spoken to unasked

    def _send(self, *parts: bytes) -> None:
        assert self._wire is not None
        self._wire.socket.sendall(pack(parts))

    def _until_confirmed(self, kind: bytes, names: set[bytes]) -> None:
        """Read on until the server has confirmed these channels, or answered once if there are none."""
        deadline = time.monotonic() + _ANSWERS_WITHIN
        pending = set(names) or {b""}
        while pending:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answer to {kind.decode()} within {_ANSWERS_WITHIN} s")
            for answer in self._receive(max(deadline - time.monotonic(), 0.001), nudged=False):
                if answer[0] == kind:
                    pending.discard(answer[1])

    def _receive(self, timeout: float, *, nudged: bool = True) -> list[Any]:
        """Wait for something to be said; what is not a message is handed back, messages are kept for `hear`."""
        assert self._wire is not None
        poll = select.poll()
        poll.register(self._wire.socket, select.POLLIN)
        if nudged:
            poll.register(self._rung, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(timeout * 1000)}
        if nudged and self._rung.fileno() in ready:
            self._rung.recv(4096)
        if self._wire.socket.fileno() not in ready:
            return []
        self._buffer += self._wire.receive()
        answers, at = [], 0
        while at < len(self._buffer):
            try:
                answer, at = _parse(self._buffer, at)
            except _Incomplete:
                break
            if isinstance(answer, bytes):  # of a connection that has no channel
                answer = [answer.lower(), b""]
            if answer[0] == b"message":
                self._keep(answer[1], answer[2])
            else:
                answers.append(answer)
        self._buffer = self._buffer[at:]
        return answers

    def _keep(self, channel: bytes, said: bytes) -> None:
        self._heard.append((channel.decode(), None if said == _ANYTHING else said.decode().split(" ")))


def _parse(data: bytes, at: int) -> tuple[Any, int]:
    end = data.find(b"\r\n", at)
    if end < 0:
        raise _Incomplete
    kind, value = data[at : at + 1], data[at + 1 : end]
    at = end + 2
    if kind == b"$":
        size = int(value)
        if size < 0:
            return None, at
        if len(data) < at + size + 2:
            raise _Incomplete
        return data[at : at + size], at + size + 2
    if kind == b"*":
        items = []
        for _ in range(int(value)):
            item, at = _parse(data, at)
            items.append(item)
        return items, at
    if kind == b":":
        return int(value), at
    if kind == b"-":
        raise ConnectionError(value.decode("utf-8", "replace"))
    return value, at
