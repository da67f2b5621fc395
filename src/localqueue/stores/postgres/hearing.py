"""Hearing NOTIFY: the one connection of a process that listens for all its stores on a database."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from localqueue.stores.listener import Listener
from localqueue.stores.postgres import connecting

_ANSWER_WITHIN = 5.0


class PostgresListener(Listener):
    def __init__(self, info: str) -> None:
        super().__init__()
        self._info = info
        self._connection: Any = None
        self._channels: set[str] = set()
        self._wakeup, self._nudge = os.pipe()
        os.set_blocking(self._nudge, False)
        os.set_blocking(self._wakeup, False)

    def connect(self) -> None:
        self._connection = connecting.connect(self._info, pooled=False, timeout=_ANSWER_WITHIN)
        self._channels = set()

    def subscribe(self, channels: Iterable[str]) -> None:
        wanted = set(channels)
        for channel in self._channels - wanted:
            self._connection.execute(f'UNLISTEN "{channel}"')
        for channel in wanted - self._channels:
            self._connection.execute(f'LISTEN "{channel}"')
        self._channels = wanted

    def hear(self, timeout: float) -> list[tuple[str, list[str] | None]]:
        heard = self._take()
        if not heard:
            poll = select.poll()
            poll.register(self._connection.fileno(), select.POLLIN)
            poll.register(self._wakeup, select.POLLIN)
            poll.poll(timeout * 1000)
            with suppress(BlockingIOError):
                os.read(self._wakeup, 1024)
            heard = self._take()
        return heard

    def _take(self) -> list[tuple[str, list[str] | None]]:
        """What has arrived by now."""
        connection = self._connection.pgconn
        connection.consume_input()
        heard: list[tuple[str, list[str] | None]] = []
        while (notice := connection.notifies()) is not None:
            said = notice.extra.decode()
            heard.append((notice.relname.decode(), said.split(",") if said else None))
        return heard

    def probe(self) -> None:
        """The server answers on this connection and still has our channels."""
        connection = self._connection.pgconn
        connection.send_query(b"SELECT count(*) FROM pg_listening_channels()")
        poll = select.poll()
        poll.register(connection.socket, select.POLLIN)
        while connection.is_busy():
            if not poll.poll(_ANSWER_WITHIN * 1000):
                raise ConnectionError(f"no answer within {_ANSWER_WITHIN} s")
            connection.consume_input()
        answer = connection.get_result()
        while connection.get_result() is not None:
            pass
        found = 0 if answer is None else int(answer.get_value(0, 0) or b"0")
        if found != len(self._channels):
            raise ConnectionError(
                "the session listens to nothing: is there a pooler in between? Give the server's own address as "
                "listen_url="
            )

    def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def nudge(self) -> None:
        with suppress(BlockingIOError, OSError):
            os.write(self._nudge, b"x")

    def release(self) -> None:
        super().release()
        if self._stopped.is_set():
            self._close_pipe()

    def abandon(self) -> None:
        """In the child of a fork: let go of the parent's connection without a word to the server."""
        connection = self._connection
        if connection is not None and not connection.closed:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, connection.fileno())
            os.close(nowhere)
            connection.close()
        self._close_pipe()

    def _close_pipe(self) -> None:
        for end in (self._wakeup, self._nudge):
            with suppress(OSError):
                os.close(end)
