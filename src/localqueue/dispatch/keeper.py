"""Keeping leases while handlers run."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from localqueue.dispatch.delivery import log
from localqueue.errors import QueueStoreError
from localqueue.message import QueueMessage
from localqueue.stores.port import Lease

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

_RENEWALS_A_LEASE = 3  # two may fail before a lease is lost


class LeaseKeeper:
    """Renews the leases it holds, all in one transaction, from a thread that starts with the first of them."""

    def __init__(self, queue: PersistentQueue[Any]) -> None:
        self._queue = queue
        self._needed = not queue.desk.consumes
        self._held: set[Lease] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, messages: Iterable[QueueMessage[Any]]) -> None:
        """Renew the leases of these messages from now on."""
        if not self._needed:
            return
        with self._lock:
            self._held.update(map(_lease_of, messages))
            if self._thread is None:
                name = f"localqueue-leases-{self._queue.name}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()

    def drop(self, message: QueueMessage[Any]) -> None:
        """Leave a lease alone: its message is about to be settled."""
        with self._lock:
            self._held.discard(_lease_of(message))

    def close(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._queue.lease_timeout / _RENEWALS_A_LEASE):
            with self._lock:
                held = list(self._held)
            if held:
                self._renew(held)

    def _renew(self, held: list[Lease]) -> None:
        try:
            expiries = self._queue.store.renew(held, timeout=self._queue.lease_timeout)
        except QueueStoreError as error:
            log.warning("leases of queue %r could not be renewed: %s", self._queue.name, error)
            return
        for lease, expiry in zip(held, expiries, strict=True):
            if expiry is None:
                with self._lock:
                    if lease not in self._held:
                        continue
                    self._held.discard(lease)
                log.warning("the lease of message %s of queue %r was lost while at work", lease.id, lease.queue)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _lease_of(message: QueueMessage[Any]) -> Lease:
    return Lease(message.queue, message.id, message.attempts)
