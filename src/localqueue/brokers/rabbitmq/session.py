"""One connection to RabbitMQ and the thread that drives it.

All of the driver's objects are used in that thread only. Others hand it steps: with `post` and no answer, or with
`call` and one. A connection that is lost stays lost: whoever waits is told, and the broker opens another session.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from localqueue.brokers.rabbitmq.errors import Tongue, load
from localqueue.brokers.rabbitmq.settings import Settings
from localqueue.errors import QueueError, QueueStoreUnavailableError

Reply = Future[Any]
Step = Callable[[Reply], None]


def resolve(reply: Reply, value: Any = None) -> None:
    if not reply.done():
        reply.set_result(value)


def fail(reply: Reply, error: BaseException) -> None:
    if not reply.done():
        reply.set_exception(error)


class Session:
    """Opens at once; raises `QueueStoreUnavailableError` or what the server said against it."""

    def __init__(self, settings: Settings, role: str) -> None:
        self.timeout = settings.timeout
        self.tongue: Tongue = settings.tongue
        self.lost: QueueError | None = None
        self.connection: Any = None
        self._role = role
        self._parameters = settings.parameters(role)
        self._loop = load().adapters.select_connection.IOLoop()
        self._lock = threading.Lock()
        self._steps: deque[tuple[Callable[..., None], Reply | None]] = deque()
        self._scheduled = False
        self._pending: set[Reply] = set()
        self._failure: BaseException | None = None
        self._alarm: str | None = None
        self._no_alarm = threading.Event()
        self._no_alarm.set()
        self._opened: Reply = Future()
        self._pending.add(self._opened)
        self._thread = threading.Thread(target=self._run, name=f"localqueue-rabbitmq-{role}", daemon=True)
        self._thread.start()
        try:
            self._opened.result(settings.timeout + 1.0)
        except TimeoutError:
            self.close(0.0)
            raise self.tongue.unavailable(f"no connection within {settings.timeout:g} seconds") from None
        except QueueError:
            self._thread.join(settings.timeout)
            raise

    # for any thread

    def post(self, step: Callable[[], None]) -> None:
        """Have the thread do this, in turn."""
        self._hand_over(step, None)

    def call(self, step: Step, timeout: float | None = None) -> Any:
        """Have the thread do this, and wait until the reply that the step was given is answered."""
        reply: Reply = Future()
        self._hand_over(step, reply)
        seconds = self.timeout if timeout is None else timeout
        try:
            return reply.result(seconds)
        except TimeoutError:
            raise self.tongue.unavailable(f"no answer within {seconds:g} seconds") from None

    def _hand_over(self, step: Callable[..., None], reply: Reply | None) -> None:
        with self._lock:
            if self.lost is not None:
                raise QueueStoreUnavailableError(str(self.lost), path=self.tongue.shown)
            self._steps.append((step, reply))
            if reply is not None:
                self._pending.add(reply)
            if not self._scheduled:
                self._scheduled = True
                self._loop.add_callback_threadsafe(self._take_steps)  # while the lock keeps the loop from closing

    def await_room(self) -> None:
        """Wait until the server takes messages, which it does not during an alarm of its disk or memory."""
        if not self._no_alarm.wait(self.timeout):
            raise self.blocked_error("nothing was sent")

    @property
    def alarm(self) -> str | None:
        """What the server said when it stopped taking messages over this connection."""
        return self._alarm

    def blocked_error(self, outcome: str) -> QueueError:
        why = f"it takes no messages because of an alarm ({self._alarm}), waited {self.timeout:g} seconds; {outcome}"
        return self.tongue.unavailable(why)

    def close(self, patience: float = 5.0) -> None:
        """Say goodbye after what was handed over, and end the thread; with no answer in time, hang up."""
        with suppress(QueueError):
            self.post(self._say_goodbye)
        self._thread.join(patience)
        if self._thread.is_alive():
            with suppress(Exception):  # when it has just ended by itself
                self._loop.add_callback_threadsafe(self._hang_up)
            self._thread.join(5.0)

    def abandon(self) -> None:
        """In the child of a fork: the connection is the parent's, and is let go of without a word."""
        self.lost = self.tongue.unavailable("the connection belongs to the process this one was forked from")
        with suppress(Exception):
            os.close(self.connection._transport._sock.detach())

    # the thread

    def _run(self) -> None:
        pika = load()
        try:
            self.connection = pika.SelectConnection(
                self._parameters,
                on_open_callback=self._on_open,
                on_open_error_callback=self._on_close,
                on_close_callback=self._on_close,
                custom_ioloop=self._loop,
            )
            self.connection.add_on_connection_blocked_callback(self._on_blocked)
            self.connection.add_on_connection_unblocked_callback(self._on_unblocked)
            self._loop.start()
        except Exception as error:
            self._failure = error
            self._sever()
        self._end()

    def _on_open(self, _: Any) -> None:
        resolve(self._opened)

    def _on_close(self, _: Any, reason: BaseException) -> None:
        self._failure = reason
        self._loop.stop()

    def _on_blocked(self, _: Any, frame: Any) -> None:
        self._alarm = str(frame.method.reason)
        self._no_alarm.clear()

    def _on_unblocked(self, _: Any, __: Any) -> None:
        self._alarm = None
        self._no_alarm.set()

    def _take_steps(self) -> None:
        while True:
            with self._lock:
                if not self._steps:
                    self._scheduled = False
                    return
                steps, self._steps = self._steps, deque()
            for step, reply in steps:
                self._take(step, reply)

    def _take(self, step: Callable[..., None], reply: Reply | None) -> None:
        try:
            if reply is None:
                step()
            else:
                reply.add_done_callback(self._pending.discard)
                step(reply)
        except Exception as error:
            if reply is not None:
                fail(reply, self.tongue.translate(error))

    def _say_goodbye(self) -> None:
        if self.connection.is_open:
            self.connection.close()
        elif not self.connection.is_closing:
            self._hang_up()

    def _hang_up(self) -> None:
        self._sever()
        self._loop.stop()

    def _sever(self) -> None:
        """Close the socket in a state in which the driver would not: it waits for an answer, or has failed."""
        with suppress(Exception):
            self.connection._transport.abort()

    def _end(self) -> None:
        error = self.tongue.translate(self._failure or ConnectionError("the connection was closed"))
        with self._lock:
            self.lost = error
            waiting = [*self._pending, *(reply for _, reply in self._steps if reply is not None)]
            self._steps.clear()
        for reply in waiting:
            fail(reply, error)
        self._no_alarm.set()
        with suppress(Exception):
            self._loop.close()
