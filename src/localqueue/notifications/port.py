"""What the adapters that wake other processes have in common.

Producer and consumer use the same class. `notify` tells whoever waits in this process and sends to the others; a
process that only produces starts no thread and opens nothing to hear with. Listening begins with the first `attach` or
`wait` and ends with the last `detach`, or with `close`. What is sent names a queue and when to look, never a message:
whoever is woken leases from the store, and looks there by itself after `catch_up` seconds, so that a wake-up that was
lost costs time and no message.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

from localqueue.notifications.alarm import ALARM
from localqueue.policies._wakeup import Wakeup

Callback = Callable[[], object]

CATCH_UP = 2.0  # seconds that a waiter may rest without looking into the store, while it is sure to be told
DEAF = 0.2  # and while it is not

_adapters: weakref.WeakSet[CrossProcessNotification] = weakref.WeakSet()


class CrossProcessNotification(ABC):
    """Wakes listeners of other processes after a message is stored, and hears when they do.

    A subclass says how to `send` and how to `listen`, and calls `tell` when it hears something. `queue` is what `wait`
    and an `attach` that names no queue hear of; without it they hear of every queue. `catch_up` is the longest rest of
    a waiter that was told nothing.
    """

    #: what `as_dict` says this is, such as "socket"
    kind: ClassVar[str]
    #: how far it reaches: the processes of this host, or those of any
    scope: ClassVar[Literal["host", "network"]]

    notifies = True
    notifies_on_put = True

    def __init__(self, queue: str | None = None, *, catch_up: float = CATCH_UP) -> None:
        if queue is not None and (not isinstance(queue, str) or not queue):
            raise ValueError(f"queue must be the name of a queue or None for every queue, got {queue!r}")
        if isinstance(catch_up, bool) or not isinstance(catch_up, (int, float)) or not 0 < catch_up < math.inf:
            raise ValueError(f"catch_up must be a positive number of seconds, got {catch_up!r}")
        self.queue = queue
        self._catch_up = float(catch_up)
        self._lock = threading.RLock()
        self._callbacks: dict[str | None, tuple[Callback, ...]] = {}  # replaced, never changed: `tell` takes no lock
        self._heard: frozenset[str | None] = frozenset()  # what `listen` was last called with
        self._told = False
        self._waits = False  # whether `wait` was used, which hears until `close`
        _adapters.add(self)

    # what an adapter fills in

    @abstractmethod
    def send(self, queue: str | None, delay: float) -> None:
        """Have the listeners of `queue` in other processes look in `delay` seconds; None: those of every queue.

        Never blocks for long: a listener that is slow is told already or catches up. An adapter that can not carry a
        delay sends nothing when there is one.
        """

    def send_many(self, queues: Sequence[str | None], delay: float) -> None:
        """The same for several queues, which an adapter may name together."""
        for queue in queues:
            self.send(queue, delay)

    @abstractmethod
    def listen(self, queues: frozenset[str | None]) -> None:
        """Hear of exactly these queues from now on, and call `tell`; with None among them of every queue.

        With no queues at all stop: leave no thread, no connection and no trace for others to send to. Called whenever
        the set changes, by one thread at a time.
        """

    @property
    @abstractmethod
    def live(self) -> bool:
        """Whether this process is sure to be told right now."""

    @abstractmethod
    def abandon(self) -> None:
        """In the child of a fork: let go of what the parent listens with, without a word to anybody."""

    def details(self) -> dict[str, Any]:
        """What `as_dict` says beside what all adapters have in common."""
        return {}

    # what an adapter calls

    def tell(self, queue: str | None, delay: float = 0.0) -> None:
        """Wake those of this process who listen to `queue`, or all for None, in `delay` seconds. Safe in a signal
        handler when there is no delay."""
        if delay > 0:
            # One who rests looks after `catch_up` anyway, and learns there what falls due later.
            if delay <= self._catch_up and (self._waits or self._callbacks_of(queue)):
                ALARM.ring_in(delay, lambda: self.tell(queue))
            return
        if self.queue is None or queue is None or queue == self.queue:
            self._told = True
        for callback in self._callbacks_of(queue):
            callback()

    # what a queue and a worker call

    def notify(self, message: Any) -> None:
        """Wake those who listen to the message's queue when it can be leased. One that waits for others wakes nobody.

        `None` stands for a message of `queue`, or of every queue.
        """
        delay = due_in(message)
        if delay is not None:
            queue = getattr(message, "queue", self.queue)
            self.tell(queue, delay)
            self.send(queue, delay)

    def notify_many(self, messages: Iterable[Any]) -> None:
        """Like `notify` for each of them; each queue is told once for all that can be leased at the same time."""
        due: dict[float, dict[str | None, None]] = {}
        for message in messages:
            delay = due_in(message)
            if delay is not None:
                due.setdefault(delay, {})[getattr(message, "queue", self.queue)] = None
        for delay, queues in due.items():
            for queue in queues:
                self.tell(queue, delay)
            self.send_many(tuple(queues), delay)

    def attach(self, callback: Callback, queue: str | None = None) -> None:
        """Call `callback`, from any thread, whenever something of `queue` may be leased; None: of this one's queue."""
        name = self.queue if queue is None else queue
        with self._lock:
            self._callbacks = {**self._callbacks, name: (*self._callbacks.get(name, ()), callback)}
            self._adjust()

    def detach(self, callback: Callback, queue: str | None = None) -> None:
        """Stop calling `callback` for `queue`."""
        name = self.queue if queue is None else queue
        with self._lock:
            kept, callbacks = list(self._callbacks.get(name, ())), dict(self._callbacks)
            if callback in kept:
                kept.remove(callback)
            callbacks[name] = tuple(kept)
            if not kept:
                del callbacks[name]
            self._callbacks = callbacks
            self._adjust()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until told of `queue`, or of any queue; False when `timeout` seconds passed first.

        Call `clear` before looking for work and `wait` only when there was none. What was told is kept from the first
        `wait` on; what was sent before it is found by looking.
        """
        if not self._waits:
            with self._lock:
                self._waits = True
                self._adjust()
        wakeup = Wakeup()
        self.attach(wakeup.set)
        try:
            if not self._told:
                wakeup.wait(-1 if timeout is None else max(timeout, 0.0))
            return self._told
        finally:
            self.detach(wakeup.set)

    def clear(self) -> None:
        """Forget what was told."""
        self._told = False

    @property
    def catch_up(self) -> float:
        """Seconds a waiter may rest without looking into the store."""
        self._listen_again()
        return self._catch_up if self.live else min(DEAF, self._catch_up)

    @property
    def listener_count(self) -> int:
        """Those of this process who listen."""
        return sum(map(len, self._callbacks.values()))

    def as_dict(self) -> dict[str, Any]:
        return {
            "type": self.kind,
            "scope": self.scope,
            "notifies": self.notifies,
            "notifies_on_put": self.notifies_on_put,
            "listener_count": self.listener_count,
            "queue": self.queue,
            **self.details(),
        }

    def close(self) -> None:
        """Stop listening, whoever is attached. To attach or wait again listens again."""
        with self._lock:
            self._callbacks = {}
            self._waits = False
            self._adjust()

    def _callbacks_of(self, queue: str | None) -> list[Callback]:
        callbacks = self._callbacks
        if queue is None:
            return [callback for each in callbacks.values() for callback in each]
        return [*callbacks.get(queue, ()), *callbacks.get(None, ())]

    def _adjust(self) -> None:
        wanted = frozenset((*self._callbacks, self.queue) if self._waits else self._callbacks)
        if wanted != self._heard:
            # An adapter that fails to listen is asked again with the next who listens, or rests.
            self._heard = frozenset()
            self.listen(wanted)
            self._heard = wanted

    def _listen_again(self) -> None:
        """In the child of a fork nothing is heard until somebody rests."""
        if not self._heard and (self._callbacks or self._waits):
            with self._lock:
                self._adjust()

    def _forget_parent(self) -> None:
        self._lock = threading.RLock()
        self._heard = frozenset()
        self.abandon()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.queue is None else repr(self.queue)})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def due_in(message: Any) -> float | None:
    """In how many seconds a message that was just stored can be leased; None: not before another message is done.

    Anything that does not look like a message counts as one that can be leased now.
    """
    if getattr(message, "state", "ready") != "ready":
        return None
    return max(getattr(message, "available_at", 0.0) - getattr(message, "created_at", 0.0), 0.0)


def _in_child() -> None:
    """A fork copies neither threads nor the right to what they hear with; a lock may have been held."""
    for adapter in list(_adapters):
        adapter._forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
