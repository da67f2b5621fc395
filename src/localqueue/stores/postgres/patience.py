"""Waiting for the server, but not for ever.

When the network swallows everything nobody says that anything is wrong: libpq would wait for an answer until the system
gives the connection up, which may be never. So every wait is for so many seconds of silence. Then the server is asked,
on another connection, whether it is still at work on our statement, which may be a long one. If it is not, or can not
be asked, the connection is cut, and the call fails as it does with a connection that was lost.
"""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress
from functools import cache
from typing import Any

from localqueue.stores.postgres import driver

#: A statement may wait as long as `timeout` for a lock; only what comes on top of that is silence.
_BEYOND_LOCKS = 3.0
_ASKING = 3.0
_LONGEST = 1_000_000.0

#: Not one whose answer is on the way to us, or that waits for us: what it says, or what we said, was lost.
_AT_WORK = (
    "SELECT 1 FROM pg_catalog.pg_stat_activity "
    "WHERE pid = $1 AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Client'"
)

_BAD = 1  # libpq's state of a connection that is gone
_EVENTS = {1: select.POLLIN, 2: select.POLLOUT, 3: select.POLLIN | select.POLLOUT}  # of the driver's Wait.R, W and RW


def of_timeout(timeout: float) -> float:
    """How many seconds of silence are too many for a store with that `timeout`."""
    return min(timeout + _BEYOND_LOCKS, _LONGEST)


@cache
def connection_class() -> Any:
    """The driver's connection, with a wait of ours in all that its cursors do."""
    psycopg = driver.load()

    class Connection(psycopg.Connection):  # type: ignore[misc, name-defined]
        patience = _LONGEST
        ask_at: str | None = None  # where to ask whether the server is still at work; nowhere behind a pooler

        def wait(self, gen: Any, *_: Any, **__: Any) -> Any:
            poll, last, pgconn = select.poll(), None, self.pgconn
            fileno = pgconn.socket
            try:
                wanted = next(gen)
                while True:
                    if wanted != last:
                        poll.register(fileno, _EVENTS[wanted])
                        last = wanted
                    # A socket that libpq has closed is not looked at: the driver finds out when it reads.
                    found = select.POLLIN if pgconn.status == _BAD else self.wait_until(poll)
                    # An error or the other end's going away shows when it is read.
                    ready = (1 if found & ~select.POLLOUT else 0) | (2 if found & select.POLLOUT else 0)
                    wanted = gen.send(ready & wanted or wanted)
            except StopIteration as end:
                return end.value
            except BaseException:
                with suppress(Exception):  # what it does at its end fails too, and nobody else would be told
                    gen.close()
                raise

        def wait_until(self, poll: Any) -> int:
            """Until there is something on the socket; raises `OperationalError` when the server is silent."""
            while True:
                found = poll.poll(self.patience * 1000)
                if found:
                    return int(found[0][1])
                if not self._at_work():
                    self.cut()
                    raise psycopg.OperationalError(f"no answer within {self.patience:.1f} s")

        def answers_within(self, seconds: float) -> bool:
            usual = self.patience, self.ask_at
            self.patience, self.ask_at = seconds, None
            try:
                self.execute("SELECT 1")
            finally:
                self.patience, self.ask_at = usual
            return True

        def _at_work(self) -> bool:
            if self.ask_at is None:
                return False
            with suppress(psycopg.Error), connect(self.ask_at, patience=_ASKING, connect_timeout=int(_ASKING)) as other:
                return other.execute(_AT_WORK, (self.info.backend_pid,)).fetchone() is not None
            return False

        def cut(self) -> None:
            """Have everything that is still done with the connection fail at once, the goodbye included."""
            with suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)

    return Connection


def connect(info: str, *, patience: float, ask_at: str | None = None, **options: Any) -> Any:
    """A connection whose statements are transactions of their own unless one is begun."""
    kind = connection_class()
    connection = kind.connect(info, autocommit=True, cursor_factory=driver.load().RawCursor, **options)
    connection.patience = patience
    connection.ask_at = ask_at
    return connection


def answer(connection: Any, poll: Any) -> Any:
    """The last result of what was sent with libpq itself; `poll` looks at what comes on the connection."""
    pgconn = connection.pgconn
    while pgconn.flush():
        _wait_to_send(connection)
    found = None
    while True:
        while pgconn.is_busy():
            connection.wait_until(poll)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            return found
        found = result


def _wait_to_send(connection: Any) -> None:
    """Until more of a large value can be sent; what the server says meanwhile is taken in."""
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN | select.POLLOUT)
    if connection.wait_until(poll) & ~select.POLLOUT:
        connection.pgconn.consume_input()
