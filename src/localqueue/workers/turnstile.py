"""Where a worker holds its messages to their limits: before they are leased, before they run, when they are done."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from localqueue.errors import LeaseLost, QueueError, QueueStoreClosedError, QueueStoreError
from localqueue.limits.book import Entrant
from localqueue.limits.limiter import Limiter, Look, Wish
from localqueue.limits.page import KIND
from localqueue.message import QueueMessage
from localqueue.queue.wait import WorkWait
from localqueue.stores.port import Waiter
from localqueue.workers.lane import unstarted
from localqueue.workers.outcome import Outcome

if TYPE_CHECKING:
    from localqueue.workers.core import WorkerCore
    from localqueue.workers.keeper import Held

log = logging.getLogger("localqueue.workers")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_SHORTEST_CATCH_UP, _LONGEST_CATCH_UP = 1.0, 10.0
_LONG = 3600.0
_SHORT = 0.2  # until a thread of this worker has started what it was let through for
_SWEEP_EVERY, _SWEEP_FOR = 30.0, 0.5


class Turnstile:
    """One per run of a worker, shared by its threads.

    The limits that all messages of the queue are under are looked at before any is leased: what could not run stays
    where it is. A message is held to all of its limits after it was leased; one that may not run now is given back in
    the commit that notes it, and its delivery does not count.
    """

    def __init__(self, worker: WorkerCore) -> None:
        queue = worker.queue
        self._worker = worker
        self._is_open = not worker.has_limits
        self._shared = tuple(worker.shared_limits())
        self._names = frozenset(one.name for one in self._shared)
        self._limiter = Limiter(queue.store, queue.desk.commit, catch_up=max(queue.lease_timeout, _SHORTEST_CATCH_UP))
        self._lock = threading.Lock()
        self._granted = 0  # messages that are about to be leased
        self._pending: set[tuple[str, int]] = set()  # leased, and about to enter
        self._inside: dict[tuple[str, int], Wish] = {}
        self._own = _OfThread()
        self.held_back = False  # whether the last swap leased less than was wanted
        self._used = False  # whether any message was under a limit
        self._sweep_at = time.monotonic() + _SWEEP_EVERY

    @property
    def catch_up(self) -> float:
        """Seconds after which a limit is looked at again in case that somebody died who should have told."""
        return min(max(self._worker.queue.lease_timeout / 3, _SHORTEST_CATCH_UP), _LONGEST_CATCH_UP)

    def waiting(self) -> WorkWait:
        """Waits for work that could start."""
        worker = self._worker
        if self._shared:
            return LimitedWait(self, worker)
        return WorkWait(worker.queue, worker.notification_policy, worker=worker.worker_id)

    def swap(self, outcomes: Sequence[Outcome], wanted: int) -> list[QueueMessage[Any]]:
        """Commit outcomes, and lease as many of the messages that are `wanted` as could start."""
        if self._is_open:
            return self._worker.exchange.swap(outcomes, wanted)
        granted = self._grant(wanted, outcomes)
        self.held_back = granted < wanted
        messages: list[QueueMessage[Any]] = []
        self._own.leasing = True
        try:
            messages = self._worker.exchange.swap(outcomes, granted)
        finally:
            self._own.leasing = False
            if self._shared:
                with self._lock:
                    self._granted -= granted
                    self._pending.update((message.id, message.attempts) for message in messages)
        if not messages:
            self.flush()
        return messages

    def look(self) -> Look:
        """What the limits of all messages allow, less what threads of this worker are about to start."""
        look = self._limiter.look(self._shared)
        with self._lock:
            free = look.free - self._granted - len(self._pending)
        return look if free == look.free else Look(max(free, 0), _SHORT if look.free else look.opens_in)

    def admits(self, held: Held) -> bool:
        """Whether the handler of a message may run now. If not, the message has left the worker's hands."""
        if self._is_open:
            return True
        worker, message = self._worker, held.job.message
        try:
            limited = worker.limits_of(message)
        except Exception as error:
            self._fail(held, error)
            return False
        if not limited:
            self.flush()
            return True
        self._used = True
        wish = Wish(_entrant(message), limited)
        pause = _FIRST_PAUSE
        while True:
            try:
                (verdict,) = self._limiter.change([wish], self._own.leaving, shared=self._names)
                break
            except QueueStoreClosedError:
                raise
            except QueueStoreError as error:
                log.warning("queue %r: the store does not answer, trying again: %s", message.queue, error)
            if worker.stopping.wait(pause):
                worker.exchange.settle([unstarted(message.queue, message)])
                return False
            pause = min(pause * 2, _LONGEST_PAUSE)
        self._own.leaving = []
        with self._lock:
            self._pending.discard((message.id, message.attempts))
            if verdict == "admitted" and any(one.limits.concurrency is not None for one in limited):
                self._inside[message.id, message.attempts] = wish
        if verdict == "refused":
            worker.keeper.drop(message)
        elif verdict == "lost":
            lost = LeaseLost(message.queue, message.id, message.attempts)
            worker.exchange.settle([Outcome(message, "lost", None, error=lost)])
        return verdict == "admitted"

    def holds_place(self, message: QueueMessage[Any]) -> bool:
        """Whether others may wait for this message to be settled."""
        return (message.id, message.attempts) in self._inside

    def left(self, message: QueueMessage[Any]) -> None:
        """A message is settled: others may have its place. In a swap, that is told together with who takes it."""
        if self._is_open:
            return
        with self._lock:
            self._pending.discard((message.id, message.attempts))
            wish = self._inside.pop((message.id, message.attempts), None)
        if wish is not None:
            self._own.leaving.append(wish)
            if not self._own.leasing:
                self.flush()

    def flush(self) -> None:
        """Give places back. If that fails they are given back by whoever finds that nobody holds them."""
        leaving, self._own.leaving = self._own.leaving, []
        if leaving:
            try:
                self._limiter.change(leaving=leaving)
            except QueueError as error:
                log.warning("queue %r: places of a limit stay taken for a while: %s", self._worker.queue.name, error)

    def beat(self) -> None:
        """Once in a while, remove what keys that are not in use have left in the store."""
        if not self._used or time.monotonic() < self._sweep_at:
            return
        self._sweep_at = time.monotonic() + _SWEEP_EVERY
        try:
            self._limiter.sweep(min(_SWEEP_FOR, self._worker.queue.lease_timeout / 10))
        except QueueError as error:
            log.warning("queue %r: limits were not swept: %s", self._worker.queue.name, error)

    def listen(self) -> Waiter:
        return self._worker.queue.store.listen_records(KIND, [one.record for one in self._shared])

    def _grant(self, wanted: int, outcomes: Sequence[Outcome]) -> int:
        if not self._shared or wanted == 0:
            return wanted
        leaving = sum(self.holds_place(one.message) for one in outcomes)
        try:
            look = self._limiter.look(self._shared, leaving)
        except QueueStoreClosedError:
            raise
        except QueueStoreError as error:
            log.warning("queue %r: the store does not answer: %s", self._worker.queue.name, error)
            return 0
        with self._lock:
            granted = max(min(wanted, look.free - self._granted - len(self._pending)), 0)
            self._granted += granted
        return granted

    def _fail(self, held: Held, error: Exception) -> None:
        """The key of a message could not be told: that is a failure like one of the handler."""
        delivery, message = self._worker.delivery, held.job.message
        try:
            outcome = delivery.failure(message, error, held.job.now)
        except Exception as problem:  # the ledger could not be written
            outcome = delivery.interrupted(message, problem)
        self._worker.exchange.settle([outcome])
        self.flush()


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.leasing = False
        self.leaving: list[Wish] = []


class LimitedWait(WorkWait):
    """Waits until there may be a message that the limits of its queue let start. A mere look tells of any message."""

    def __init__(self, turnstile: Turnstile, worker: WorkerCore) -> None:
        super().__init__(worker.queue, worker.notification_policy, worker=worker.worker_id)
        self._turnstile = turnstile
        self._places: Waiter | None = None
        self._woken = False

    def wait(self, timeout: float | None = None) -> bool:
        end = None if timeout is None else time.monotonic() + timeout
        self._woken = False
        if not super().wait(timeout):
            return False
        if timeout == 0:
            return True
        if self._places is None:
            self._places = self._turnstile.listen()
        while not self._woken:
            look = self._turnstile.look()
            if look.free:
                return True
            pause = min(self._turnstile.catch_up, _LONG if look.opens_in is None else look.opens_in)
            if end is not None:
                pause = min(pause, end - time.monotonic())
                if pause <= 0:
                    return False
            self._places.heard(pause)
        return False

    def wake(self) -> None:
        self._woken = True
        super().wake()
        if self._places is not None:
            self._places.interrupt()

    def close(self) -> None:
        super().close()
        places, self._places = self._places, None
        if places is not None:
            places.close()


def _entrant(message: QueueMessage[Any]) -> Entrant:
    return Entrant(
        message.queue, message.id, message.attempts, message.priority, message.available_at, message.forgiven
    )
