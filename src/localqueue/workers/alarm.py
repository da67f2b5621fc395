"""Hears that something of a queue was cancelled, for a worker whose handlers run long enough to be told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from localqueue.errors import QueueStoreClosedError
from localqueue.jobs import cancellation
from localqueue.stores.port import Waiter

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

log = logging.getLogger("localqueue.workers")

_AFTER_AN_ERROR = 1.0


class Alarm:
    """Calls `ring`, in a thread of its own, when it begins to listen and whenever something was cancelled since."""

    def __init__(self, queue: PersistentQueue[Any], ring: Callable[[], object]) -> None:
        self._queue = queue
        self._ring = ring
        self._closed = threading.Event()
        self._waiter: Waiter | None = None
        self._thread = threading.Thread(target=self._run, name="localqueue-alarm", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        waiter = self._waiter
        if waiter is not None:
            waiter.interrupt()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._listen()
            except QueueStoreClosedError:
                return
            except Exception as error:  # until it listens again, cancelled messages are noticed when they are renewed
                log.warning("queue %r: can not hear of cancelled messages: %s", self._queue.name, error)
                self._closed.wait(_AFTER_AN_ERROR)

    def _listen(self) -> None:
        name, store = self._queue.name, self._queue.store
        with store.listen_records(cancellation.KIND, cancellation.keys(name)) as self._waiter:
            self._ring()
            while not self._closed.is_set():
                if self._waiter.wait():
                    self._ring()
