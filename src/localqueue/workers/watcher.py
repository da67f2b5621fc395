"""Waits for work on behalf of a pump that found none."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from localqueue.errors import QueueStoreClosedError
from localqueue.policies import NotificationPolicy
from localqueue.policies._wakeup import Wakeup
from localqueue.queue.wait import WorkWait, attach, detach

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

log = logging.getLogger("localqueue.workers")

_AFTER_AN_ERROR = 0.2
_LONG = 3600.0


class Watcher:
    """Once armed it waits until there may be work, then calls `found` and is disarmed."""

    def __init__(
        self,
        queue: PersistentQueue[Any],
        policy: NotificationPolicy | None,
        wait: WorkWait,
        found: Callable[[], object],
    ) -> None:
        self._queue = queue
        self._wait = wait
        self._found = found
        self._armed = False
        self._closed = False
        self._called = Wakeup()
        self._policy: Any = queue.notification_policy if policy is None else policy
        self._attached = attach(self._policy, self._notified, queue.name)  # one thread less between a put and the pump
        self._thread = threading.Thread(target=self._run, name="localqueue-watcher", daemon=True)
        self._thread.start()

    @property
    def armed(self) -> bool:
        return self._armed

    def arm(self) -> None:
        if not self._armed:
            self._armed = True
            self._called.set()

    def interrupt(self) -> None:
        self._armed = False
        self._wait.wake()

    def _notified(self) -> None:
        if self._armed:
            self._armed = False
            self._found()

    def close(self) -> None:
        self._closed = True
        if self._attached:
            detach(self._policy, self._notified, self._queue.name)
        self._wait.wake()
        self._called.set()
        self._thread.join()
        self._wait.close()

    def _run(self) -> None:
        while not self._closed:
            if not self._armed:
                self._called.wait(_LONG)
                continue
            try:
                found = self._wait.wait()
            except QueueStoreClosedError:
                found = True  # the pump will find out
            except Exception as error:
                log.warning("queue %r: %r", self._queue.name, error)
                self._called.wait(_AFTER_AN_ERROR)
                continue
            if found or not self._armed:
                self._armed = False
                self._found()
