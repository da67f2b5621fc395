"""The threads behind a dispatcher: one leases into a bounded buffer, the others take from it and call the handlers."""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Sequence
from queue import Empty
from typing import TYPE_CHECKING, Any

from localqueue.dispatch.delivery import Handler, give_back, handle, log, settle
from localqueue.dispatch.keeper import LeaseKeeper
from localqueue.errors import QueueStoreClosedError, QueueStoreError
from localqueue.message import QueueMessage
from localqueue.policies import NO_NOTIFICATION

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

_SHORTEST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_LOOK_AGAIN = 0.05


class Line:
    """Delivers the messages of one queue until it is closed. In its buffer leased messages wait for a thread."""

    def __init__(self, queue: PersistentQueue[Any], handlers: Sequence[Handler], *, threads: int, maxsize: int) -> None:
        self.queue = queue
        self._handlers = handlers
        self._thread_count = threads
        self._maxsize = maxsize
        self._changed = threading.Condition()
        self._buffer: deque[QueueMessage[Any]] = deque()
        self._taking = False
        self._running = 0
        self._stopping = threading.Event()
        self._started = False
        self._keeper = LeaseKeeper(queue)
        self._work = queue.work_wait(NO_NOTIFICATION)
        self._feeder = threading.Thread(target=self._feed, name=f"localqueue-feed-{queue.name}", daemon=True)
        self._runners = [
            threading.Thread(target=self._run, name=f"localqueue-dispatch-{queue.name}-{n}", daemon=True)
            for n in range(threads)
        ]

    def fresh(self) -> Line:
        """The same line before anything of it ran."""
        return Line(self.queue, self._handlers, threads=self._thread_count, maxsize=self._maxsize)

    def start(self) -> None:
        if self._started:
            return
        with self._changed:
            if self._started or self._stopping.is_set():
                return
            self._started = True
        for thread in (self._feeder, *self._runners):
            thread.start()
        atexit.register(self.close)

    def drain(self, timeout: float | None) -> bool:
        """Wait until no ready message is left in the store and none is at work here; False at the timeout."""
        self.start()
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._is_drained():
            remaining = _LOOK_AGAIN if deadline is None else deadline - time.monotonic()
            if remaining <= 0 or self._stopping.is_set():
                return False
            with self._changed:
                self._changed.wait(min(remaining, _LOOK_AGAIN))
        return True

    def close(self, timeout: float | None = None) -> bool:
        """Lease nothing more, give back what is buffered, let running handlers finish; False if some did not."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            self._stopping.set()
            self._changed.notify_all()
        self._work.wake()
        if not self._started:
            self._work.close()
            return True
        atexit.unregister(self.close)
        ended = [_join(thread, deadline) for thread in (self._feeder, *self._runners)]
        if not all(ended):
            log.warning(
                "handlers of queue %r still run after %s s; their leases are left to end", self.queue.name, timeout
            )
        self._keeper.close()
        self._work.close()
        return all(ended)

    def _is_drained(self) -> bool:
        try:
            if self.queue.qsize():
                return False
        except QueueStoreClosedError:
            raise
        except QueueStoreError:
            return False
        # Only after the store: what it does not show any more has been counted here before.
        with self._changed:
            return not (self._taking or self._buffer or self._running)

    # the thread that leases

    def _feed(self) -> None:
        pause = _SHORTEST_PAUSE
        while not self._stopping.is_set():
            try:
                if not self._take():
                    self._work.wait()
                pause = _SHORTEST_PAUSE
            except QueueStoreClosedError:
                if not self._stopping.is_set():
                    log.warning(
                        "the store of queue %r was closed; its dispatcher takes no more messages", self.queue.name
                    )
                break
            except Exception as error:
                log.warning("queue %r can not be read (%s); trying again in %s s", self.queue.name, error, pause)
                self._stopping.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        with self._changed:
            self._stopping.set()
            left = [] if self.queue.desk.consumes else list(self._buffer)
            if left:
                self._buffer.clear()
            self._changed.notify_all()
        self._return_to_store(left)

    def _take(self) -> bool:
        """Lease what there is room for. False when the store had nothing."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._buffer) < self._maxsize or self._stopping.is_set())
            if self._stopping.is_set():
                return True
            self._taking = True
            room = self._maxsize - len(self._buffer)
        messages: list[QueueMessage[Any]] = []
        try:
            messages = self.queue.get_messages(room, block=False)
            self._keeper.hold(messages)
        except Empty:
            pass
        finally:
            with self._changed:
                self._taking = False
                self._buffer.extend(messages)
                self._changed.notify_all()
        return bool(messages)

    def _return_to_store(self, messages: list[QueueMessage[Any]]) -> None:
        for message in messages:
            self._keeper.drop(message)
        try:
            give_back(self.queue, messages)
        except QueueStoreError as error:
            log.warning(
                "%d messages of queue %r stay leased until that ends: %s", len(messages), self.queue.name, error
            )

    # the threads that call handlers

    def _run(self) -> None:
        while (message := self._next()) is not None:
            try:
                error = handle(self.queue, self._handlers, message)
                self._keeper.drop(message)
                self._settle(message, error)
            except Exception:
                log.exception("message %s of queue %r is left to the end of its lease", message.id, self.queue.name)
            finally:
                with self._changed:
                    self._running -= 1
                    self._changed.notify_all()

    def _next(self) -> QueueMessage[Any] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._buffer or (self._stopping.is_set() and not self._taking))
            if not self._buffer or (self._stopping.is_set() and not self.queue.desk.consumes):
                return None
            self._running += 1
            self._changed.notify_all()
            return self._buffer.popleft()

    def _settle(self, message: QueueMessage[Any], error: BaseException | None) -> None:
        """Settle through an outage of the store, for as long as the lease could last."""
        deadline = time.monotonic() + self.queue.lease_timeout
        pause = _SHORTEST_PAUSE
        while True:
            try:
                return settle(self.queue, message, error)
            except QueueStoreClosedError:
                raise
            except QueueStoreError as outage:
                if time.monotonic() + pause > deadline:
                    raise
                log.warning("message %s of queue %r can not be settled yet: %s", message.id, self.queue.name, outage)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _join(thread: threading.Thread, deadline: float | None) -> bool:
    """Whether the thread has ended, or is the one that asks."""
    if thread is threading.current_thread():
        return True
    thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
    return not thread.is_alive()
