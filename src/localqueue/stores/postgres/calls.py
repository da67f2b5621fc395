"""Talking to the server: single statements, reads of one moment, and transactions.

A transaction that others rolled back (a deadlock, a conflict) did nothing and is tried again. When the connection is
lost, a read is tried once more on another one; a write is not, because it may have happened.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from localqueue.errors import QueueStoreLockedError
from localqueue.stores.postgres import driver
from localqueue.stores.postgres.pool import Link, Pool
from localqueue.stores.postgres.statements import Statements

T = TypeVar("T")

_PAUSE = 0.005
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"


class Calls:
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

    def _on_a_link(self, work: Callable[[Link], T], *, again: bool = False) -> T:
        """Run a transaction that is one round trip, and again when others had it rolled back.

        With `again` it may be run twice, so a lost connection is replaced without telling anybody.
        """
        pool = self._pool
        began = 0.0
        while True:
            link = pool.take()
            try:
                result = work(link)
            except BaseException as error:
                ours = isinstance(error, self._driver_error)
                lost = ours and (not driver.sqlstate(error) or driver.is_lost(error))
                pool.give(link, broken=lost or not isinstance(error, Exception))
                if not ours:
                    raise
                began = began or time.monotonic()
                if lost and again:
                    again = False
                elif driver.is_retryable(error) and time.monotonic() - began < self._timeout:
                    time.sleep(random.uniform(0, _PAUSE))
                else:
                    raise
            else:
                pool.give(link)
                return result

    def _statement(self, statement: str, parameters: Sequence[Any], *, again: bool = False) -> Any:
        """Run one statement as a transaction of its own; its cursor, with the result already here."""
        return self._on_a_link(lambda link: link.connection.execute(statement, parameters, binary=True), again=again)

    def _one(self, statement: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
        """The only row of a read, or None."""
        rows = self._all(statement, parameters)
        return rows[0] if rows else None

    def _all(self, statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows of a read."""
        try:
            rows: list[tuple[Any, ...]] = self._statement(statement, parameters, again=True).fetchall()
            return rows
        except self._driver_error as error:
            raise driver.translate(error, self._url) from error

    def _do(self, statement: str, parameters: Sequence[Any], *, again: bool = False) -> Any:
        """The cursor of a write that is one statement."""
        try:
            return self._statement(statement, parameters, again=again)
        except self._driver_error as error:
            raise driver.translate(error, self._url) from error

    def _snapshot(self, work: Callable[[Callable[..., Any]], T]) -> T:
        """A read of several statements that all see the same moment."""
        for attempt in (1, 2):
            try:
                with self._pool.connection() as connection:
                    # It locks nothing, and what is done with one page may take longer than a transaction may idle.
                    connection.execute(
                        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
                        "SET LOCAL idle_in_transaction_session_timeout = 0"
                    )
                    result = work(lambda statement, values=(): connection.execute(statement, values, binary=True))
                    connection.execute("COMMIT")
                    return result
            except self._driver_error as error:
                if attempt == 2 or not driver.is_lost(error):
                    raise driver.translate(error, self._url) from error
        raise AssertionError("unreachable")

    def _patiently(self, work: Callable[[], T]) -> T:
        """Run a transaction, and again when others had it rolled back, as long as `timeout` allows."""
        began = time.monotonic()
        while True:
            try:
                return work()
            except self._driver_error as error:
                if not driver.is_retryable(error):
                    raise driver.translate(error, self._url) from error
                if time.monotonic() - began > self._timeout:
                    raise QueueStoreLockedError(
                        f"other transactions on {self._url!r} were in the way for longer than timeout=; nothing was "
                        "changed",
                        path=self._url,
                    ) from error
            time.sleep(random.uniform(0, _PAUSE))
