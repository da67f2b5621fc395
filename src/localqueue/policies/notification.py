"""Who is woken after a message is stored.

A notification is a hint. It carries no message and proves no delivery: whoever is woken still
leases from the store, and a lost wake-up costs latency, never a message.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from localqueue._dataclass import KW_ONLY, dataclass, field
from localqueue.policies._described import Described
from localqueue.policies._listeners import Listeners, TellsListeners

if TYPE_CHECKING:
    # Loading asyncio takes longer than the rest of localqueue, and few queues need it.
    import asyncio


class NotificationPolicy(Protocol):
    """Wakes listeners after a message is stored.

    A policy that can be waited for also has `wait(timeout)` or `wait_async(timeout)`, and `clear()`. One that has
    `attach(callback)` and `detach(callback)` calls each callback on every notification, from any thread: then any
    number of waiters share it and none takes the wake-up of another.
    """

    @property
    def notifies(self) -> bool: ...

    @property
    def notifies_on_put(self) -> bool: ...

    def notify(self, message: Any) -> None: ...

    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NoNotification(Described):
    """A put wakes nobody."""

    notifies: bool = False
    notifies_on_put: bool = False
    listener_count: int = 0

    def notify(self, message: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class CallbackNotification(Described):
    """Calls one listener, or each of several, in the producer's thread.

    Every listener is called even when one before it fails. A single failure is raised as it is,
    several as an ExceptionGroup; the message stays stored either way.
    """

    listeners: Callable[[Any], object] | Iterable[Callable[[Any], object]]
    _: KW_ONLY
    notifies: bool = True
    notifies_on_put: bool = True

    def __post_init__(self) -> None:
        given = self.listeners
        listeners = (given,) if callable(given) else tuple(given)
        if not listeners:
            raise ValueError("listeners cannot be empty")
        for listener in listeners:
            if not callable(listener):
                raise TypeError(f"listeners must be callable, got {listener!r}")
        object.__setattr__(self, "listeners", listeners)

    @property
    def listener_count(self) -> int:
        return len(self._callables())

    def notify(self, message: Any) -> None:
        failures: list[Exception] = []
        for listener in self._callables():
            try:
                listener(message)
            except Exception as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        if failures:
            raise ExceptionGroup("several notification listeners failed", failures)

    def as_dict(self) -> dict[str, Any]:
        return _in_process("callback", self, self.listener_count)

    def _callables(self) -> tuple[Callable[[Any], object], ...]:
        assert isinstance(self.listeners, tuple)
        return self.listeners


@dataclass(frozen=True, slots=True)
class InProcessNotification(TellsListeners, Described):
    """Sets a `threading.Event` that threads of this process can wait for.

    Call `clear` before looking for work and `wait` only when there was none: a put in between
    then ends the wait at once. The event is one for all: threads that clear it can take each other's
    wake-up, which `PersistentQueue.wait_for_notification` does not.
    """

    event: threading.Event = field(default_factory=threading.Event)
    _: KW_ONLY
    notifies: bool = True
    notifies_on_put: bool = True
    _listeners: Listeners = field(default_factory=Listeners, init=False, repr=False, compare=False)

    def notify(self, message: Any) -> None:
        self.event.set()
        self._listeners.tell()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until notified; False when `timeout` seconds passed first."""
        return self.event.wait(timeout)

    def clear(self) -> None:
        """Forget earlier notifications."""
        self.event.clear()

    def as_dict(self) -> dict[str, Any]:
        return _in_process("thread-event", self, 1)


def _new_event() -> asyncio.Event:
    import asyncio

    return asyncio.Event()


class _AsyncWaiters:
    """What `AsyncNotification` remembers between calls, shared by all threads and loops."""

    __slots__ = ("futures", "lock", "notified")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.notified = False
        self.futures: set[asyncio.Future[None]] = set()


@dataclass(frozen=True, slots=True)
class AsyncNotification(TellsListeners, Described):
    """Wakes coroutines of this process, whichever thread or event loop they run on.

    `notify` may be called from any thread. `event` mirrors the state for code that waits on an
    `asyncio.Event` itself; it is set on `loop`, which is the loop running at construction unless
    one is given.
    """

    event: asyncio.Event = field(default_factory=_new_event)
    loop: asyncio.AbstractEventLoop | None = None
    _: KW_ONLY
    notifies: bool = True
    notifies_on_put: bool = True
    _waiters: _AsyncWaiters = field(default_factory=_AsyncWaiters, init=False, repr=False, compare=False)
    _listeners: Listeners = field(default_factory=Listeners, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.loop is None:
            object.__setattr__(self, "loop", _running_loop())

    def notify(self, message: Any) -> None:
        waiters = self._waiters
        with waiters.lock:
            waiters.notified = True
            for future in waiters.futures:
                # A loop that closed with a waiter on it has nobody left to wake.
                with suppress(RuntimeError):
                    future.get_loop().call_soon_threadsafe(_finish, future)
            waiters.futures.clear()
        self._listeners.tell()
        self._mirror()

    async def wait_async(self, timeout: float | None = None) -> bool:
        """Wait until notified; False when `timeout` seconds passed first."""
        import asyncio

        waiters = self._waiters
        with waiters.lock:
            if waiters.notified or self.event.is_set():
                return True
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiters.futures.add(future)
        try:
            await asyncio.wait_for(future, timeout)
        except TimeoutError:
            return False
        finally:
            with waiters.lock:
                waiters.futures.discard(future)
        return True

    def clear(self) -> None:
        """Forget earlier notifications."""
        with self._waiters.lock:
            self._waiters.notified = False
            self.event.clear()

    def as_dict(self) -> dict[str, Any]:
        return _in_process("asyncio-event", self, 1)

    def _mirror(self) -> None:
        loop = self.loop
        if loop is not None and not loop.is_closed() and loop is not _running_loop():
            # The loop may close between the check and the call.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self.event.set)
                return
        self.event.set()


AsyncioNotification = AsyncNotification


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _in_process(kind: str, policy: NotificationPolicy, listener_count: int) -> dict[str, Any]:
    return {
        "type": kind,
        "scope": "in-process",
        "notifies": policy.notifies,
        "notifies_on_put": policy.notifies_on_put,
        "listener_count": listener_count,
    }


NO_NOTIFICATION = NoNotification()
