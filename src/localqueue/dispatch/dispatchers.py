"""Dispatchers that deliver: they lease from the store, call handlers in threads of their own, and settle."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from localqueue.dispatch.delivery import Handler
from localqueue.dispatch.line import Line
from localqueue.policies.dispatch import check_handlers

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue


class LeasingDispatcher:
    """What the dispatchers share: handlers, the queue they serve, and its line of threads.

    The threads start with the first put, or with `start()`, and then take everything that is ready: messages of other
    processes and of earlier runs too. A failing handler is logged and recorded on its message, which is delivered
    again after a delay, or dead-lettered after `max_attempts`. Leases are renewed while messages are held.
    """

    kind: str
    dispatches = True
    dispatches_on_put = True
    leases = True

    def __init__(self, handlers: Iterable[Handler], *, threads: int, maxsize: int | None) -> None:
        self.handlers = check_handlers(handlers)
        self._threads = _check_count("workers", threads)
        self.maxsize = threads if maxsize is None else _check_count("maxsize", maxsize)
        self._lock = threading.Lock()
        self._line: Line | None = None
        _alive.add(self)

    @property
    def handler_count(self) -> int:
        return len(self.handlers)

    @property
    def queue(self) -> PersistentQueue[Any] | None:
        """The queue it serves, until either of them is closed."""
        line = self._line
        return None if line is None else line.queue

    def bind(self, queue: PersistentQueue[Any]) -> None:
        """Serve this queue; the queue's constructor calls it."""
        with self._lock:
            served = self.queue
            if served is queue:
                return
            if served is not None:
                raise ValueError(
                    f"this {type(self).__name__} serves queue {served.name!r} already; make another one for queue "
                    f"{queue.name!r}, or close {served.name!r} first"
                )
            self._line = Line(queue, self.handlers, threads=self._threads, maxsize=self.maxsize)

    def start(self) -> None:
        """Take what is ready without waiting for a put."""
        self._bound().start()

    def dispatch(self, message: Any) -> None:
        """Have the message taken from the store soon. Never waits: when the buffer is full it stays there meanwhile."""
        line = self._line
        if line is not None:  # closed while somebody was putting; the message is stored
            line.start()

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until everything that is ready has been handled; False when `timeout` seconds passed first.

        Delayed messages, which those are that failed and will be tried again, do not count.
        """
        return self._bound().drain(timeout)

    def close(self, timeout: float | None = None) -> bool:
        """Finish the handlers that run, give back what is buffered, end the threads. The queue's `close` calls it.

        False when `timeout` seconds were not enough: those handlers go on, and their messages are delivered again
        unless they can still be acked.
        """
        with self._lock:
            line, self._line = self._line, None
        return line is None or line.close(timeout)

    def as_dict(self) -> dict[str, Any]:
        return {
            "type": self.kind,
            **self._shape(),
            "dispatches": self.dispatches,
            "dispatches_on_put": self.dispatches_on_put,
            "handler_count": self.handler_count,
        }

    def _shape(self) -> dict[str, int]:
        return {"maxsize": self.maxsize}

    def _bound(self) -> Line:
        line = self._line
        if line is None:
            raise ValueError(
                f"this {type(self).__name__} serves no queue; pass it as dispatch_policy= to a PersistentQueue"
            )
        return line

    def _after_fork(self) -> None:
        """The threads stayed with the parent, and so do the messages they hold."""
        self._lock = threading.Lock()
        if self._line is not None:
            self._line = self._line.fresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        shape = "".join(f", {name}={value}" for name, value in self._shape().items())
        return f"{type(self).__name__}({self.handlers!r}{shape})"


class ThreadedDispatcher(LeasingDispatcher):
    """Calls handlers in one background thread, one message at a time in the order they are leased.

    `maxsize` is how many leased messages may wait for it (one unless given); the others wait in the store.
    """

    kind = "threaded"

    def __init__(self, handlers: Iterable[Handler], *, maxsize: int | None = None) -> None:
        super().__init__(handlers, threads=1, maxsize=maxsize)


class WorkerPoolDispatcher(LeasingDispatcher):
    """Calls handlers in `workers` background threads; messages finish in any order.

    `maxsize` is how many leased messages may wait for a thread (as many as there are threads unless given); the others
    wait in the store.
    """

    kind = "worker-pool"

    def __init__(self, handlers: Iterable[Handler], *, workers: int = 4, maxsize: int | None = None) -> None:
        super().__init__(handlers, threads=workers, maxsize=maxsize)

    @property
    def workers(self) -> int:
        return self._threads

    def _shape(self) -> dict[str, int]:
        return {"workers": self.workers, "maxsize": self.maxsize}


def _check_count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return value


_alive: weakref.WeakSet[LeasingDispatcher] = weakref.WeakSet()


def _in_child() -> None:
    for dispatcher in list(_alive):
        dispatcher._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
