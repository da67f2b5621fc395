"""Waiting for an entry of a stream: a blocking read on a connection of its own, which any thread can cut short."""

from __future__ import annotations

import math
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from localqueue.stores.redis.connection import send
from localqueue.stores.redis.errors import unavailable

#: After so many seconds the server is asked again, whatever is awaited: so a connection that is cut is noticed, and
#: a queue that was removed.
LONGEST = 5.0


class StreamWait:
    """Used by one thread at a time. A read that is cut short goes on, and answers who waits next."""

    def __init__(self, connect: Callable[[], Any], shown: str, streams: tuple[bytes, bytes]) -> None:
        self._connect = connect
        self._shown = shown
        self._streams = streams
        self._connection: Any = None
        self._reading = False
        self._ear, self._mouth = socket.socketpair()
        self._ear.setblocking(False)
        self._mouth.setblocking(False)

    def until(self, after: tuple[bytes, bytes] | None, timeout: float) -> None:
        """Return when the streams have entries after these, when `wake` is called, or after so many seconds.

        Without `after` only `wake` is waited for.
        """
        import redis

        try:
            self._wait(after, time.monotonic() + max(0.0, timeout))
        except (redis.RedisError, OSError) as error:
            self.disconnect()
            raise unavailable(self._shown, error) from error

    def _wait(self, after: tuple[bytes, bytes] | None, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._ear, select.POLLIN)
        if after is not None:
            if self._connection is None:
                self._connection = self._connect()
                self._reading = False
            if not self._reading:
                send(self._connection, b"XREAD", b"COUNT", b"1", b"BLOCK", b"0", b"STREAMS", *self._streams, *after)
                self._reading = True
            poll.register(self._connection._sock, select.POLLIN)
        found = [number for number, _ in poll.poll(math.ceil(max(0.0, deadline - time.monotonic()) * 1000))]
        if self._ear.fileno() in found:
            with suppress(OSError):
                self._ear.recv(4096)
        if any(number != self._ear.fileno() for number in found):
            self._connection.read_response()
            self._reading = False

    def wake(self) -> None:
        with suppress(OSError):  # full of calls already, or closed
            self._mouth.send(b"!")

    def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def close(self) -> None:
        self.disconnect()
        self._ear.close()
        self._mouth.close()
