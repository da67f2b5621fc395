"""Keeps the leases of an open claim for as long as its query lives, however long its batch takes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from localqueue.errors import QueueError
from localqueue.stores.port import Lease, QueueStore

_log = logging.getLogger(__name__)

#: Renewals in the life of a lease: two may fail before it is lost.
_TIMES = 4

#: Seconds between two signs of life.
_SIGN = 15.0


class Keeper:
    """A thread that renews what `leases` returns, four times in a `timeout`, until it is closed or the process ends.
    It also calls `live` every 15 seconds, so that others can tell a long batch from a driver that is gone.

    Spark calls a reader between batches only, so nothing else could do it while one runs. A lease that is lost is found
    out when the claim is settled.
    """

    def __init__(
        self, store: QueueStore, leases: Callable[[], list[Lease]], timeout: float, live: Callable[[], None]
    ) -> None:
        self._store = store
        self._leases = leases
        self._timeout = timeout
        self._live = live
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="localqueue-keeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        pause = self._timeout / _TIMES
        renew_at, live_at = time.monotonic() + pause, time.monotonic() + _SIGN
        while not self._closed.wait(max(0.0, min(renew_at, live_at) - time.monotonic())):
            try:
                if time.monotonic() >= renew_at:
                    renew_at += pause
                    if leases := self._leases():
                        self._store.renew(leases, timeout=self._timeout)
                if time.monotonic() >= live_at:
                    live_at += _SIGN
                    self._live()
            except QueueError as error:
                _log.warning("leases of a claim could not be renewed, which is tried again: %s", error)
