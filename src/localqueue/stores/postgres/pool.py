"""The connections of one store: taken for a call, checked for life, given back.

A connection that the server has closed meanwhile (it was restarted, or somebody ended the session) shows that on its
socket, which is looked at before each use; so a restart costs a new connection and no failed call.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from localqueue.errors import QueueStoreClosedError, QueueStoreLockedError
from localqueue.stores.postgres import driver
from localqueue.stores.postgres.patience import answer

_IDLE = 0  # libpq's state of a connection with no transaction open
_DOUBTFUL = 30.0  # seconds of idleness after which a connection is asked whether it still lives
_ANSWER = 3.0  # seconds it has for that


class Link:
    """A connection, with what polls its socket and what it knows of the statements that `quick.py` runs on it."""

    __slots__ = ("connection", "idle_since", "loaders", "pgconn", "poll", "prepared")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.pgconn = connection.pgconn
        self.poll = select.poll()
        self.poll.register(connection.fileno(), select.POLLIN)
        self.prepared: set[bytes] = set()
        self.loaders: dict[bytes, Any] = {}
        self.idle_since = 0.0


class Pool:
    def __init__(self, connect: Callable[[], Any], url: str, size: int, timeout: float) -> None:
        self._connect = connect
        self._url = url
        self._timeout = timeout
        self.lock = threading.Lock()
        self._free = threading.BoundedSemaphore(size)
        self._idle: list[Link] = []
        self._all: set[Any] = set()
        self.closed = False

    def take(self) -> Link:
        """A connection that lives, for the caller alone until it is given back."""
        self.require_open()
        if not self._free.acquire(timeout=self._timeout):
            raise QueueStoreLockedError(
                f"all connections to {self._url!r} are in use by other threads; give the store more with connections=",
                path=self._url,
            )
        try:
            while True:
                try:
                    link = self._idle.pop()
                except IndexError:
                    return self._new()
                if not link.poll.poll(0) and (time.monotonic() - link.idle_since < _DOUBTFUL or _answers(link)):
                    return link
                self._forget(link.connection)
        except BaseException:
            self._free.release()
            raise

    def require_open(self) -> None:
        if self.closed:
            raise QueueStoreClosedError(f"the store at {self._url!r} is closed", path=self._url)

    def give(self, link: Link, *, broken: bool = False) -> None:
        if broken or self.closed or link.connection.closed:
            self._forget(link.connection)
        else:
            link.idle_since = time.monotonic()
            self._idle.append(link)
            self._close_idle_if_closed()
        self._free.release()

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """A connection for a block. After an error it is thrown away unless the server has said what was wrong."""
        link = self.take()
        broken = True
        try:
            yield link.connection
            broken = False
        except driver.load().Error as error:
            broken = not driver.sqlstate(error) or driver.is_lost(error)
            raise
        except Exception:
            broken = False
            raise
        finally:
            if not broken and link.pgconn.transaction_status != _IDLE:
                broken = not _rolled_back(link.connection)
            self.give(link, broken=broken)

    def _new(self) -> Link:
        link = Link(self._connect())
        with self.lock:
            self._all.add(link.connection)
        return link

    def _forget(self, connection: Any) -> None:
        with self.lock:
            self._all.discard(connection)
        with suppress(Exception):
            connection.close()

    def _close_idle_if_closed(self) -> None:
        while self.closed:
            try:
                self._forget(self._idle.pop().connection)
            except IndexError:
                return

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it is given back."""
        self.closed = True
        self._close_idle_if_closed()

    def abandon(self) -> None:
        """In the child of a fork: let go of the parent's connections without a word to the server."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        try:
            for connection in self._all:
                with suppress(Exception):
                    os.dup2(nowhere, connection.fileno())
                    connection.close()
        finally:
            os.close(nowhere)


def _answers(link: Link) -> bool:
    with suppress(Exception):
        return bool(link.connection.answers_within(_ANSWER))
    return False


def roll_back(connection: Any) -> None:
    """Undo the open transaction. Not through the driver, which would throw away all prepared statements with it."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    connection.pgconn.send_query(b"ROLLBACK")
    answer(connection, poll)


def _rolled_back(connection: Any) -> bool:
    with suppress(Exception):
        roll_back(connection)
        return bool(connection.pgconn.transaction_status == _IDLE)
    return False
