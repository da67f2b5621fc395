"""What a queue on a broker has received and nobody has taken yet.

Waiting for a broker is receiving: the message comes with the news. So one thread for each queue that is waited on
receives on behalf of those who wait, no more than they want, and a wait that ends early costs nothing: what arrives
after it is there for the next, or goes back when nobody waits any more.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from types import TracebackType
from typing import Self

from localqueue.brokers.port import Broker, Delivery
from localqueue.errors import QueueError, QueueStoreClosedError, QueueStoreError

_SLICE = 20.0  # seconds that one call to the broker may wait
_LINGER = 1.0


class Intake:
    def __init__(self, broker: Broker, queue: str) -> None:
        self._broker = broker
        self._queue = queue
        self._changed = threading.Condition()
        self._found: deque[Delivery] = deque()
        self._wanted = 0
        self._waiters = 0
        self._lease = 30.0
        self._failure: QueueStoreError | None = None
        self._thread: threading.Thread | None = None
        self._receiving = False
        self._closed = False

    def take(self, limit: int, lease: float) -> list[Delivery]:
        """What is there now: received for somebody who waited, or received for this."""
        with self._changed:
            self._lease = lease
            taken = [self._found.popleft() for _ in range(min(limit, len(self._found)))]
        if len(taken) < limit and (not taken or limit > 1):
            taken += self._broker.receive(self._queue, limit - len(taken), lease=lease)
        return taken

    def look(self) -> bool:
        """Whether something can be taken. While a call to the broker waits for it, there is nothing."""
        with self._changed:
            self._raise_failure()
            if self._found or self._receiving:
                return bool(self._found)
            lease = self._lease
        found = self._broker.receive(self._queue, 1, lease=lease)
        with self._changed:
            self._found.extend(found)
            return bool(self._found)

    def wait(self, waiter: IntakeWaiter, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            self._wanted += 1
            self._start()
            self._changed.notify_all()
            try:
                while not self._found and not waiter.interrupted and not self._closed:
                    self._raise_failure()
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        return False
                    self._changed.wait(left)
                if self._closed:
                    raise QueueStoreClosedError(f"the broker of queue {self._queue!r} is closed")
                return bool(self._found) and not waiter.interrupted
            finally:
                self._wanted -= 1

    def stir(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def enter(self) -> None:
        with self._changed:
            self._waiters += 1

    def leave(self) -> None:
        """One who waited goes; what was received for the last of them goes back."""
        with self._changed:
            self._waiters -= 1
            if self._waiters:
                return
            left = list(self._found)
            self._found.clear()
        self._give_back(left)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            left = list(self._found)
            self._found.clear()
            self._changed.notify_all()
        self._give_back(left)

    def _give_back(self, deliveries: list[Delivery]) -> None:
        if deliveries:
            try:
                self._broker.nack(deliveries)
            except QueueError:
                return  # their leases run out, or have ended with the connection

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="localqueue-intake", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._closed or self._wanted > len(self._found), _LINGER) or (
                    self._closed
                ):
                    self._thread = None
                    return
                wanted, lease = self._wanted - len(self._found), self._lease
                self._receiving = True
            found: list[Delivery] = []
            failure: QueueStoreError | None = None
            try:
                found = self._broker.receive(self._queue, wanted, wait=_SLICE, lease=lease)
            except QueueStoreError as error:
                failure = error
            with self._changed:
                self._receiving = False
                unwanted = found if self._closed or not self._waiters else []
                if not unwanted:
                    self._found.extend(found)
                if failure is not None and self._wanted:
                    self._failure = failure
                    self._thread = None
                self._changed.notify_all()
            self._give_back(unwanted)
            if failure is not None:
                return  # who waits is told, and waits again when he sees fit


class IntakeWaiter:
    """Waits for messages of a queue of a broker, as the port of stores has it."""

    def __init__(self, intake: Intake) -> None:
        self.interrupted = False
        self._intake: Intake | None = intake
        intake.enter()

    def wait(self, timeout: float | None = None) -> bool:
        intake = self._intake
        try:
            if intake is None:
                return False
            return intake.look() if timeout is not None and timeout <= 0 else intake.wait(self, timeout)
        finally:
            self.interrupted = False

    heard = wait

    def interrupt(self) -> None:
        self.interrupted = True
        if self._intake is not None:
            self._intake.stir()

    def close(self) -> None:
        intake, self._intake = self._intake, None
        if intake is not None:
            intake.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
