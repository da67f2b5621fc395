"""Waiting for work without polling the store for it, and without ever depending on the wake-up.

A wait is a few decisions (`_course`) that say when to look into the store and how long to rest; `wait` and `wait_async`
carry them out. The order is: forget earlier wake-ups, look, rest only when there was nothing. Whatever is put after
the look ends the rest, so no put falls in between.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from localqueue.policies import NotificationPolicy
from localqueue.policies._wakeup import Wakeup
from localqueue.queue.core import QueueCore
from localqueue.queue.drafts import check_timeout
from localqueue.stores.port import BellWaiter, Waiter
from localqueue.stores.rules import NEVER

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

R = TypeVar("R")

_FIRST_REST = 0.005
_LONGEST_REST = 0.2
_STORE_REST = 2.0  # the store ends the rest by itself; each rest begins with a look


def tells_of_processes(policy: Any) -> bool:
    """Whether a policy tells of what other processes have put, queue by queue: then it says how long one may rest."""
    return hasattr(policy, "catch_up")


def attach(policy: Any, callback: Callable[[], object], queue: str) -> bool:
    """Have a policy call `callback` when the queue may have something; False when it calls nobody."""
    if not (hasattr(policy, "attach") and hasattr(policy, "detach")):
        return False
    if tells_of_processes(policy):
        policy.attach(callback, queue)
    else:
        policy.attach(callback)
    return True


def detach(policy: Any, callback: Callable[[], object], queue: str) -> None:
    """Undo `attach`."""
    if tells_of_processes(policy):
        policy.detach(callback, queue)
    else:
        policy.detach(callback)


class WorkWait:
    """Waits until a queue may have a message to lease, for anybody or for `worker`, who may be paused.

    It is woken by the notification policy (the queue's own unless one is given). Behind that is a catch-up: the store
    is looked at when the wait begins, when it says that something falls due, and at growing intervals of at most 0.2 s,
    so that delayed messages, leases that run out and messages of other processes are seen too. A policy that tells of
    other processes says itself how long one may rest (`catch_up`). A policy that can not be waited for leaves the
    waiting to the store, which sees all of these by itself.

    For one thread or task at a time; any number of objects may share a policy.
    """

    def __init__(
        self,
        queue: QueueCore[Any],
        notification_policy: NotificationPolicy | None = None,
        *,
        worker: str | None = None,
    ) -> None:
        policy: Any = notification_policy
        if policy is None:
            policy = queue.desk.configuration.notification_policy
        self._queue = queue
        self._worker = worker
        self._waiter: Waiter | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._wakeup = Wakeup()
        self._interrupted = False
        self._policy = policy
        self._again = NEVER
        self._is_attached = attach(policy, self._wakeup.set, queue.name)

    def wait(self, timeout: float | None = None) -> bool:
        """True when there may be work; False after `timeout` seconds, or when `wake` ended the wait."""
        rest = self._rest()
        course = self._course(timeout, at_store=rest is None)
        rest = rest or self._store_rest
        try:
            seconds = next(course)
            while True:
                seconds = course.send(self._look() if seconds is None else bool(rest(seconds)))
        except StopIteration as end:
            return bool(end.value)

    async def wait_async(self, timeout: float | None = None) -> bool:
        """The same without blocking the event loop: the store is looked at from another thread."""
        rest = self._async_rest()
        course = self._course(timeout, at_store=rest is None)
        rest = rest or self._off_loop(self._store_rest)
        try:
            seconds = next(course)
            while True:
                found = await (self._in_thread(self._look) if seconds is None else rest(seconds))
                seconds = course.send(bool(found))
        except StopIteration as end:
            return bool(end.value)

    def wake(self) -> None:
        """End the wait that runs, or the next one. May be called from any thread and from a signal handler."""
        self._interrupted = True
        self._wakeup.set()
        waiter = self._waiter
        if waiter is not None:
            waiter.interrupt()

    def close(self) -> None:
        """Stop listening."""
        if self._is_attached:
            self._is_attached = False
            detach(self._policy, self._wakeup.set, self._queue.name)
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None

    def _course(self, timeout: float | None, *, at_store: bool) -> Generator[float | None, bool, bool]:
        """Yields None to have the store looked at, or seconds to rest; is sent whether that found something."""
        check_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        tells = tells_of_processes(self._policy)
        pause = _STORE_REST if at_store else _FIRST_REST
        while True:
            self._wakeup.clear()
            if not (at_store or self._is_attached) and hasattr(self._policy, "clear"):
                self._policy.clear()
            if self._take_interruption():
                return False
            if (yield None):
                return True
            if self._take_interruption():
                return False
            if tells:
                pause = self._policy.catch_up
            rest = pause if at_store else min(pause, self._again)
            if deadline is not None:
                rest = min(rest, deadline - time.monotonic())
                if rest <= 0:
                    return False
            if (yield rest):
                return not self._take_interruption()
            if not at_store:
                pause = min(2 * pause, _LONGEST_REST)

    def _take_interruption(self) -> bool:
        interrupted, self._interrupted = self._interrupted, False
        return interrupted

    def _look(self) -> bool:
        waiter = self._listening()
        if isinstance(waiter, BellWaiter):
            found, self._again = waiter.look()
            return found
        self._again = _LONGEST_REST  # it does not say when something falls due
        return waiter.heard(0)

    def _store_rest(self, seconds: float) -> bool:
        return self._listening().heard(seconds)

    def _listening(self) -> Waiter:
        if self._waiter is None:
            self._waiter = self._queue.store.listen((self._queue.name,), worker=self._worker)
        return self._waiter

    def _rest(self) -> Callable[[float], Any] | None:
        """How to sleep until the policy wakes us, if it can."""
        return self._wakeup.wait if self._is_attached else getattr(self._policy, "wait", None)

    def _async_rest(self) -> Callable[[float], Awaitable[Any]] | None:
        if self._is_attached:
            return self._wakeup.wait_async
        blocking = getattr(self._policy, "wait", None)
        return getattr(self._policy, "wait_async", None if blocking is None else self._off_loop(blocking))

    def _off_loop(self, rest: Callable[[float], R]) -> Callable[[float], Awaitable[R]]:
        return lambda seconds: self._in_thread(rest, seconds)

    async def _in_thread(self, work: Callable[..., R], *arguments: Any) -> R:
        """Run in a thread of our own: in the loop's shared pool a few waiters would keep everybody else out."""
        import asyncio

        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor

            self._threads = ThreadPoolExecutor(1, thread_name_prefix="localqueue-wait")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
