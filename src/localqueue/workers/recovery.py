"""Finishing what workers that died have left in doubt: two-phase commits and sagas."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from localqueue.errors import QueueError
from localqueue.workers.commits import Coordinator
from localqueue.workers.outcome import Steps

log = logging.getLogger("localqueue.workers")

_EVERY = 5.0


class Recovery:
    """Looks when the worker starts and every few seconds after, in a thread of its own."""

    def __init__(self, coordinator: Coordinator, run_steps: Callable[[Steps], Any]) -> None:
        self._coordinator = coordinator
        self._run_steps = run_steps
        self._closed = threading.Event()
        self._look_again = False
        self._thread = threading.Thread(target=self._run, name="localqueue-recovery", daemon=True)

    def start(self) -> None:
        if self._coordinator.needs_recovery:
            self._thread.start()

    def close(self, *, look_again: bool = False) -> None:
        """End the thread; with `look_again` after one more look, for what fell into doubt since the last."""
        self._look_again = look_again
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._look()
            if self._closed.wait(_EVERY):
                break
        if self._look_again:
            self._look()

    def _look(self) -> None:
        try:
            self._run_steps(self._coordinator.recover())
        except QueueError as error:
            log.warning("could not recover what is in doubt, trying again: %s", error)
        except Exception:
            log.exception("could not recover what is in doubt, trying again")
