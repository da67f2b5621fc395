"""Everyday calls on an event loop: quick statements whose answers the loop waits for at the socket.

The connections are those of the store's pool. One that is idle is taken, asked and given back on the loop; a new one is
made in a thread. What is more than a question and its answer is done there too, by the code for threads: to send a
large value, to find out why a server is silent, and to try again what others had rolled back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from localqueue.stores.loops import FollowedCalls, InSteps, Told, tell
from localqueue.stores.port import OffLoop
from localqueue.stores.postgres import errors
from localqueue.stores.postgres.connection import Pool
from localqueue.stores.postgres.libpq import Asked, checked, is_unprepared


class NativeCalls(FollowedCalls):
    """The calls of one store on one loop, so many at a time: some connections are left for the longer ways."""

    def __init__(
        self, store: InSteps, pool: Pool, ask: Callable[[Asked], Any], url: str, off: OffLoop, at_once: int
    ) -> None:
        super().__init__(store, self.ask, off)
        self._pool = pool
        self._ask_in_thread = ask
        self._in_threads: set[asyncio.Future[Any]] = set()
        self._has_ended = False
        self._url = url
        self._free = at_once
        self._connecting = 0
        self._unasked: deque[tuple[Asked, Told]] = deque()
        self._under_way: set[Exchange] = set()
        self._loop = asyncio.get_running_loop()

    def ask(self, asked: Asked, told: Told) -> None:
        if not self._has_ended:  # else nobody is left who waits
            self._unasked.append((asked, told))
            self._go_on()

    def _in_thread(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        done = self._off(work)
        self._in_threads.add(done)
        done.add_done_callback(self._in_threads.discard)
        return done

    def _go_on(self) -> None:
        while self._unasked and self._free:
            try:
                connection = self._pool.take_idle()
            except Exception as error:
                self._loop.call_soon(self._unasked.popleft()[1], None, error)
                continue
            if connection is None:
                self._connect()
                return
            self._exchange(connection)

    def _connect(self) -> None:
        """Have as many connections be made as can be used."""
        while self._connecting < min(self._free, len(self._unasked)):
            self._connecting += 1
            tell(self._in_thread(self._pool.take), self._connected)

    def _connected(self, connection: Any, error: BaseException | None) -> None:
        self._connecting -= 1
        if error is None:
            self._pool.give(connection)
        elif self._unasked:
            self._unasked.popleft()[1](None, error)
        self._go_on()

    def _exchange(self, connection: Any) -> None:
        self._free -= 1
        asked, told = self._unasked.popleft()
        exchange = Exchange(connection, asked, self._in_thread, partial(self._answered, told))
        self._under_way.add(exchange)
        exchange.begin()

    def _answered(self, told: Told, exchange: Exchange, answer: Any, error: BaseException | None) -> None:
        self._under_way.discard(exchange)
        statement, values, again, rows = exchange.asked
        broken = error is not None and errors.is_broken(error)
        self._pool.give(exchange.connection, broken=broken)
        if error is None or not isinstance(error, errors.load().Error):
            self._end(told, answer, error)
        elif (broken and again) or errors.is_retryable(error):
            asked = statement, values, again and not broken, rows
            tell(self._in_thread(partial(self._ask_in_thread, asked)), partial(self._end, told))
        else:
            translated = errors.translate(error, self._url)
            translated.__cause__ = error
            self._end(told, None, translated)

    def _end(self, told: Told, answer: Any, error: BaseException | None) -> None:
        self._free += 1
        told(answer, error)
        self._go_on()

    def close(self, *, at_once: bool = False) -> None:
        if at_once:
            self._has_ended = True
            self._unasked.clear()
            for exchange in [one for one in self._under_way if one.abandon()]:
                self._under_way.discard(exchange)
                self._pool.give(exchange.connection, broken=True)

    async def settle(self) -> None:
        while self._in_threads:
            await asyncio.wait(self._in_threads)


class Exchange:
    """One question on one connection. `done` is told what came of it, as the driver says it."""

    def __init__(
        self,
        connection: Any,
        asked: Asked,
        in_thread: Callable[[Callable[[], Any]], asyncio.Future[Any]],
        done: Callable[[Exchange, Any, BaseException | None], None],
    ) -> None:
        self.connection = connection
        self.asked = asked
        self._statement, self._values, _, self._wants_rows = asked
        self._in_thread = in_thread
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._number: int = connection.pgconn.socket
        self._found: Any = None
        self._is_asked = False  # as long as the statement is being prepared
        self._silence: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._found = None
        try:
            self._is_asked = self._statement.send(self.connection, self._values)
            is_sent = not self.connection.pgconn.flush()
        except Exception as error:
            self._loop.call_soon(self._done, self, None, error)
            return
        if is_sent:
            self._wait()
        else:
            tell(self._in_thread(self.connection.answer), self._answered)

    def _wait(self) -> None:
        self._loop.add_reader(self._number, self._read)
        self._silence = self._loop.call_later(self.connection.patience, self._doubt)

    def _stop_waiting(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
            if not self._loop.is_closed():
                self._loop.remove_reader(self._number)

    def _read(self) -> None:
        pgconn = self.connection.pgconn
        try:
            pgconn.consume_input()
            while not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:
                    break
                self._found = result
            else:
                return
        except Exception as error:
            self._stop_waiting()
            self._done(self, None, error)
            return
        self._stop_waiting()
        self._answered(self._found, None)

    def _doubt(self) -> None:
        """The server has been silent for long: it may be at work, or be gone."""
        self._stop_waiting()
        tell(self._in_thread(self.connection.doubt), self._doubted)

    def _doubted(self, _: None, error: BaseException | None) -> None:
        if error is None:
            self._wait()
        else:
            self._done(self, None, error)

    def _answered(self, result: Any, error: BaseException | None) -> None:
        answer = None
        try:
            if error is None:
                answer = checked(self.connection, result)
                if not self._is_asked:
                    self._statement.note_prepared(self.connection)
                    self.begin()
                    return
                if self._wants_rows:
                    answer = self._statement.rows_of(self.connection, answer)
        except Exception as raised:
            if is_unprepared(raised):
                work = self._statement.rows if self._wants_rows else self._statement.run
                tell(self._in_thread(partial(work, self.connection, self._values)), partial(self._done, self))
                return
            error = raised
        self._done(self, answer, error)

    def abandon(self) -> bool:
        """Whether nobody touches the connection any more: it was waited for here, and not in a thread."""
        waited = self._silence is not None
        self._stop_waiting()
        return waited
