"""Forgetting runs that ended long ago, so that nothing grows for ever.

Whoever ends runs forgets others: a page of them is looked at for every so many that end. A page is larger than what
ended since the one before, so the walk comes around faster than runs come in.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from localqueue.errors import QueueError
from localqueue.workflows.history import History
from localqueue.workflows.records import ENDED, RUN, STATE, RunHeader, RunState, read
from localqueue.workflows.runs import forget_run

EVERY = 100
PAGE = 250

log = logging.getLogger("localqueue.workflows")


class Retention:
    """The part of one worker in the forgetting. `keep` says how many seconds the runs of each workflow are kept."""

    def __init__(self, history: History, keep: Mapping[str, float]) -> None:
        self._history = history
        self._keep = keep
        self._lock = threading.Lock()
        # Anywhere: a worker that ends before it has come so far, again and again, has its turn as well.
        self._left = 1 + time.monotonic_ns() // 1000 % EVERY
        self._behind = ""

    def note(self) -> None:
        """A run has ended; sometimes others are forgotten for it, in this thread."""
        with self._lock:
            self._left -= 1
            if self._left > 0 or not self._keep:
                return
            self._left = EVERY
        try:
            self.forget_some()
        except QueueError as error:  # another walk comes here, of this worker or of another
            log.warning("old runs were not forgotten: %s", error)

    def forget_some(self) -> int:
        """Look at the next page of runs; how many of them were forgotten."""
        store = self._history.store
        found = store.records(STATE, after=self._behind, limit=PAGE)
        self._behind = found[-1].key if len(found) == PAGE else ""
        now, count = store.now() if found else 0.0, 0
        for record in found:
            if record.updated_at > now - min(self._keep.values()) or read(record, RunState).value.state not in ENDED:
                continue
            header = store.record(RUN, record.key)
            keep = None if header is None else self._keep.get(read(header, RunHeader).value.workflow)
            if keep is not None and record.updated_at <= now - keep:
                forget_run(store, record.key, self._history.values)
                count += 1
        return count
