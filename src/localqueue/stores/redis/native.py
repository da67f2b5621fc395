"""Everyday calls on an event loop: one connection for each loop, which all calls share.

The server answers in the order it was asked, so nobody waits for a connection, and the answer to a call that was given
up is read and dropped. A connection is made by the same code as all others, off the loop, and only then read here.
What is more than a question and its answer is handed to that code too: an answer that may be another one in a moment,
or from another node of a cluster, and a question that may be asked again when a connection broke.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import hiredis

from localqueue.stores.loops import FollowedCalls, InSteps, Told, tell
from localqueue.stores.port import OffLoop
from localqueue.stores.redis.connection import Address, Connections, Question, pack
from localqueue.stores.redis.errors import is_passing, translate, unavailable

_CHUNK = 65_536
_JUST_NOW = 50e-6  # seconds after an answer for which a connection is not looked at before it is used again
_MORE = object()  # is yet to come of an answer


class Answered(Exception):
    """An error that the server answered with, as it said it."""


class NativeCalls(FollowedCalls):
    """The calls of one store on one loop."""

    def __init__(self, store: InSteps, server: Connections, off: OffLoop) -> None:
        super().__init__(store, self.ask, off)
        self._server = server
        self._wire: Wire | None = None
        self._is_closed = False
        self._unasked: list[tuple[Question, Told]] = []  # while there is no connection

    def ask(self, question: Question, told: Told) -> None:
        wire = self._wire
        if wire is not None:
            if wire.node == self._server.node and wire.is_alive():
                wire.ask(question, told)
                return
            wire.retire()
            self._wire = None
        self._unasked.append((question, told))
        if len(self._unasked) == 1:
            self._off(self._server.open_for_loop).add_done_callback(self._connected)

    def _connected(self, opened: asyncio.Future[tuple[Any, Address | None]]) -> None:
        unasked, self._unasked = self._unasked, []
        error = asyncio.CancelledError() if opened.cancelled() else opened.exception()
        if error is None:
            connection, node = opened.result()
            self._wire = Wire(connection, node, self._server.silence, self._answered)
        for question, told in unasked:
            if error is not None:
                told(None, error)
            elif self._wire is not None:
                self._wire.ask(question, told)
            else:  # one of those before has found that it is gone
                self.ask(question, told)
        if self._is_closed:
            self.close()

    def _answered(self, question: Question, told: Told, answer: Any, lost: Exception | None) -> None:
        command, again = question
        if lost is not None:
            if again:
                tell(self._off(partial(self._server.ask, *command)), told)
            else:
                told(None, unavailable(self._server.shown, lost))
        elif not isinstance(answer, Answered):
            told(answer, None)
        elif is_passing(answer):
            tell(self._off(partial(self._server.answer, question)), told)
        else:
            told(None, translate(answer, self._server.shown))

    def close(self, *, at_once: bool = False) -> None:
        self._is_closed = True
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.retire(at_once=at_once)

    async def settle(self) -> None:
        """A connection that is still being made is closed when nobody takes it."""


class Wire:
    """A connection that is read on the loop which runs. `answered` gets each question with its answer, or with what the
    connection was lost by."""

    def __init__(
        self,
        connection: Any,
        node: Address | None,
        silence: float | None,
        answered: Callable[[Question, Told, Any, Exception | None], None],
    ) -> None:
        self.node = node
        self._connection = connection  # keeps the socket, and closes it without a word after a fork
        self._socket: socket.socket = connection._sock
        self._socket.setblocking(False)
        self._number = self._socket.fileno()
        self._answers = hiredis.Reader(replyError=Answered, notEnoughData=_MORE)
        self._answered = answered
        self._asked: deque[tuple[Question, Told]] = deque()
        self._unsent = bytearray()
        self._sends_soon = False
        self._is_stuck = False  # until the socket takes more
        self._is_retired = False
        self._lost: Exception | None = None
        self._loop = asyncio.get_running_loop()
        self._silence = silence
        self._heard_at = self._loop.time()
        self._watch: asyncio.TimerHandle | None = None
        self._loop.add_reader(self._number, self._read)

    def is_alive(self) -> bool:
        """Whether it can be asked. The server may have closed it while nothing was asked, and nobody has looked yet."""
        if self._lost is None and not self._asked and self._loop.time() - self._heard_at > _JUST_NOW:
            try:
                self._socket.recv(1, socket.MSG_PEEK)
                self._lose(ConnectionError("the server has closed the connection"))
            except BlockingIOError:
                pass
            except OSError as error:
                self._lose(error)
        return self._lost is None

    def ask(self, question: Question, told: Told) -> None:
        if self._lost is not None:
            self._answered(question, told, None, self._lost)
            return
        is_first = not self._asked
        self._asked.append((question, told))
        self._unsent += pack(question[0])
        if is_first:
            self._heard_at = self._loop.time()
            if self._watch is None and self._silence is not None:
                self._watch = self._loop.call_later(self._silence, self._look)
            if not self._is_stuck:
                self._send()
        elif not (self._is_stuck or self._sends_soon):  # what others ask in this turn of the loop goes with it
            self._sends_soon = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._sends_soon = False
        if self._lost is not None:
            return
        try:
            sent = self._socket.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._lose(error)
            return
        is_stuck = sent < len(self._unsent)
        del self._unsent[:sent]
        if is_stuck != self._is_stuck:
            self._is_stuck = is_stuck
            if is_stuck:
                self._loop.add_writer(self._number, self._send)
            else:
                self._loop.remove_writer(self._number)

    def _read(self) -> None:
        try:
            got = self._socket.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        if not got:
            self._lose(ConnectionError("the server has closed the connection"))
            return
        self._heard_at = self._loop.time()
        self._answers.feed(got)
        while self._asked:
            answer = self._answers.gets()
            if answer is _MORE:
                break
            question, told = self._asked.popleft()
            self._answered(question, told, answer, None)
        if not self._asked and (self._is_retired or self._answers.has_data()):
            self._lose(ConnectionError("the connection is closed"))

    def _look(self) -> None:
        """Give a server up that is silent for too long."""
        assert self._silence is not None
        self._watch = None
        if self._asked:
            quiet = self._loop.time() - self._heard_at
            if quiet >= self._silence:
                self._lose(TimeoutError(f"no answer within {self._silence:g} s"))
            else:
                self._watch = self._loop.call_later(self._silence - quiet, self._look)

    def retire(self, *, at_once: bool = False) -> None:
        """Close when the questions that were asked are answered, or without waiting for that."""
        self._is_retired = True
        if at_once or not self._asked:
            self._lose(ConnectionError("the connection is closed"))

    def _lose(self, error: Exception) -> None:
        if self._lost is not None:
            return
        self._lost = error
        if self._watch is not None:
            self._watch.cancel()
        if self._loop.is_closed():
            self._asked.clear()
        else:
            self._loop.remove_reader(self._number)
            self._loop.remove_writer(self._number)
        self._connection.disconnect()
        while self._asked:
            question, told = self._asked.popleft()
            self._answered(question, told, None, error)
