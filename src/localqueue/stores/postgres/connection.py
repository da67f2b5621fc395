"""The connections of one store, and the ways to talk through them: statements, reads of one moment, transactions.

A connection that the server has closed meanwhile (it was restarted, or somebody ended the session) shows that on its
socket, which is looked at before each use; so a restart costs a new connection and no failed call.

A transaction that others rolled back (a deadlock, a conflict) did nothing and is tried again. When the connection is
lost, a read is tried once more on another one; a write is not, because it may have happened.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from localqueue.errors import QueueStoreLockedError
from localqueue.stores import refusals
from localqueue.stores.address import parse
from localqueue.stores.engine.store import EngineStore
from localqueue.stores.postgres import errors, libpq
from localqueue.stores.postgres.schema import Statements
from localqueue.stores.steps import Steps, run

T = TypeVar("T")

_IDLE = 0  # libpq's state of a connection with no transaction open
_DOUBTFUL = 30.0  # seconds of idleness after which a connection is asked whether it still lives
_ANSWER = 3.0  # seconds it has for that
_PAUSE = 0.005
_IN_THE_WAY = (
    0.9  # seconds that a transaction waits for others while claims may wait for it; less than deadlock_timeout
)
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"

#: Has the system notice, within about a minute, that the other end is gone although nobody said so.
_KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
_PREPARE_AFTER = 2

#: What we name is ours, where we say so, or the server's own, whatever the role, the database or the address say.
_NAMES = "-c search_path=pg_catalog,pg_temp"
_READ_ONLY = " -c default_transaction_read_only=on"

#: The same for the server, which keeps what a host has locked until it finds out that the host is gone.
_KEPT_ALIVE = "-c tcp_keepalives_idle=20 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=4"

#: The tables swing between empty and millions of rows faster than they are analysed, so plans are not left to
#: statistics: everything is looked up by index. Behind a pooler, where nothing can be set for a session, our functions
#: say the same for themselves.
_PLANNING = "-c jit=off -c enable_seqscan=off -c enable_bitmapscan=off -c plan_cache_mode=force_generic_plan"


def conninfo(url: str, *, timeout: float, pooled: bool, read_only: bool = False) -> str:
    """The address with what we need added; what the user has set in it is kept."""
    given = errors.parameters_of(parse(url))
    wanted: dict[str, Any] = {
        "connect_timeout": max(2, round(timeout)),
        "application_name": "localqueue",
        "client_encoding": "utf8",
        **_KEEPALIVE,
        **given,
    }
    if not pooled:  # a pooler has sessions of its own and takes no options for them
        ours = (
            f"{_NAMES} {_PLANNING} {_KEPT_ALIVE} -c lock_timeout={_milliseconds(timeout)} "
            f"-c idle_in_transaction_session_timeout={idle_timeout(timeout)} "
            f"-c default_transaction_isolation=read\\ committed{_READ_ONLY if read_only else ''}"
        )
        wanted["options"] = f"{given.get('options', '')} {ours}".strip()
    return str(errors.load().conninfo.make_conninfo("", **wanted))


def _milliseconds(timeout: float) -> int:
    return max(1, min(int(timeout * 1000), 2_000_000_000))


def idle_timeout(timeout: float) -> int:
    """Milliseconds after which the server ends a transaction whose host says nothing more.

    Others, which wait for its locks as long as `timeout`, shall still get them.
    """
    return min(max(1000, _milliseconds(timeout) // 3), 10_000)


def lock_timeouts(timeout: float) -> tuple[str, str]:
    """For a transaction without a lock that others wait for, and for one with the lock of a queue, which it then gives
    up to try again: claims wait for that."""
    return f"{_milliseconds(timeout)}ms", f"{_milliseconds(min(timeout, _IN_THE_WAY))}ms"


def connect(info: str, *, pooled: bool, timeout: float) -> Any:
    """A connection whose statements are transactions of their own unless one is begun."""
    return libpq.connect(
        info,
        patience=libpq.patience_of(timeout),
        ask_at=None if pooled else info,  # behind a pooler nobody knows which session is ours
        prepare_threshold=None if pooled else _PREPARE_AFTER,
    )


class Pool:
    def __init__(self, connect: Callable[[], Any], url: str, size: int, timeout: float) -> None:
        self._connect = connect
        self._url = url
        self._timeout = timeout
        self.lock = threading.Lock()
        self._free = threading.BoundedSemaphore(size)
        self._idle: list[Any] = []
        self._all: set[Any] = set()
        self.closed = False

    def take(self) -> Any:
        """A connection that lives, for the caller alone until it is given back."""
        self.require_open()
        if not self._free.acquire(timeout=self._timeout):
            raise QueueStoreLockedError(
                f"all connections to {self._url!r} are in use by other threads; give the store more with connections=",
                path=self._url,
            )
        return self._living()

    def take_idle(self) -> Any | None:
        """One that is idle and lives, without waiting for anything; None when there is none."""
        self.require_open()
        while self._free.acquire(blocking=False):
            try:
                one = self._idle.pop()
            except IndexError:
                self._free.release()
                break
            if not one.incoming.poll(0) and time.monotonic() - one.idle_since < _DOUBTFUL:
                return one
            self.give(one, broken=True)
        return None

    def time(self) -> float | None:
        """The server's time; None when all connections are in use, perhaps by the one who asks."""
        self.require_open()
        if not self._free.acquire(blocking=False):
            return None
        connection = self._living()
        try:
            return float(connection.execute(_NOW).fetchone()[0])
        except errors.load().Error as error:
            raise errors.translate(error, self._url) from error
        finally:
            self.give(connection, broken=connection.pgconn.transaction_status != _IDLE)

    def _living(self) -> Any:
        try:
            while True:
                try:
                    one = self._idle.pop()
                except IndexError:
                    return self._new()
                if not one.incoming.poll(0) and (time.monotonic() - one.idle_since < _DOUBTFUL or _answers(one)):
                    return one
                self._forget(one)
        except BaseException:
            self._free.release()
            raise

    def require_open(self) -> None:
        if self.closed:
            raise refusals.closed(self._url)

    def give(self, connection: Any, *, broken: bool = False) -> None:
        if broken or self.closed or connection.closed:
            self._forget(connection)
        else:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
            self._close_idle_if_closed()
        self._free.release()

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """A connection for a block. After an error it is thrown away unless the server has said what was wrong."""
        connection = self.take()
        broken = False
        try:
            yield connection
        except BaseException as error:
            broken = errors.is_broken(error)
            raise
        finally:
            if not broken and connection.pgconn.transaction_status != _IDLE:
                broken = not _rolled_back(connection)
            self.give(connection, broken=broken)

    def at_once(self, work: Callable[[Any, Sequence[Any]], T], values: Sequence[Any], *, again: bool = False) -> T:
        """Run a transaction that is one round trip, and again when others had it rolled back.

        With `again` it may be run twice, so a lost connection is replaced without telling anybody.
        """
        began = 0.0
        while True:
            connection = self.take()
            try:
                result = work(connection, values)
            except BaseException as error:
                broken = errors.is_broken(error)
                self.give(connection, broken=broken)
                if not isinstance(error, errors.load().Error):
                    raise
                began = began or time.monotonic()
                if broken and again:
                    again = False
                elif errors.is_retryable(error) and time.monotonic() - began < self._timeout:
                    time.sleep(random.uniform(0, _PAUSE))
                else:
                    raise errors.translate(error, self._url) from error
            else:
                self.give(connection)
                return result

    def _new(self) -> Any:
        try:
            connection = self._connect()
        except errors.load().Error as error:
            raise errors.translate(error, self._url) from error
        with self.lock:
            self._all.add(connection)
        return connection

    def _forget(self, connection: Any) -> None:
        with self.lock:
            self._all.discard(connection)
        with suppress(Exception):
            connection.close()

    def _close_idle_if_closed(self) -> None:
        while self.closed:
            try:
                self._forget(self._idle.pop())
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


def _answers(connection: Any) -> bool:
    with suppress(Exception):
        return bool(connection.answers_within(_ANSWER))
    return False


def _rolled_back(connection: Any) -> bool:
    with suppress(Exception):
        connection.undo()
        return bool(connection.pgconn.transaction_status == _IDLE)
    return False


class Calls(EngineStore):
    sql: Statements
    _pool: Pool
    _url: str
    _timeout: float
    _clock: Callable[[], float] | None
    _driver_error: type[Exception]

    def _given_now(self) -> float | None:
        """The time by the clock that replaces the server's, if one does."""
        return None if self._clock is None else self._clock()

    def _now_in(self, execute: Callable[..., Any]) -> float:
        return float(execute(_NOW).fetchone()[0]) if self._clock is None else self._clock()

    def _at_once(self, work: Callable[[Any, Sequence[Any]], T], values: Sequence[Any], *, again: bool = False) -> T:
        return self._pool.at_once(work, values, again=again)

    def _ask(self, asked: libpq.Asked) -> Any:
        statement, values, again, rows = asked
        return self._at_once(statement.rows if rows else statement.run, values, again=again)

    def _run(self, steps: Steps[T]) -> T:
        return run(steps, self._ask)

    def _do(self, statement: str, values: Sequence[Any], *, again: bool = False) -> Any:
        """Run one statement as a transaction of its own; its cursor, with the result already here."""
        return self._at_once(lambda one, values: one.execute(statement, values, binary=True), values, again=again)

    def _one(self, statement: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """The only row of a read, or None."""
        rows = self._all(statement, values)
        return rows[0] if rows else None

    def _all(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows of a read."""
        rows: list[tuple[Any, ...]] = self._do(statement, values, again=True).fetchall()
        return rows

    def _snapshot(self, work: Callable[[Callable[..., Any]], T], *, again: bool = True) -> T:
        """A read of several statements that all see the same moment."""
        try:
            with self._pool.connection() as connection:
                # It locks nothing, and what is done with one page may take longer than a transaction may idle.
                connection.execute(
                    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = 0"
                )
                result = work(lambda statement, values=(): connection.execute(statement, values, binary=True))
                connection.execute("COMMIT")
                return result
        except self._driver_error as error:
            if again and errors.is_lost(error):
                return self._snapshot(work, again=False)
            raise errors.translate(error, self._url) from error

    def _patiently(self, work: Callable[[], T]) -> T:
        """Run a transaction, and again when others had it rolled back, as long as `timeout` allows."""
        began = time.monotonic()
        while True:
            try:
                return work()
            except self._driver_error as error:
                if not errors.is_retryable(error) and not errors.is_lock_timeout(error):
                    raise errors.translate(error, self._url) from error
                if time.monotonic() - began > self._timeout:
                    raise QueueStoreLockedError(
                        f"other transactions on {self._url!r} were in the way for longer than timeout=; nothing was "
                        "changed",
                        path=self._url,
                    ) from error
            time.sleep(random.uniform(0, _PAUSE))
