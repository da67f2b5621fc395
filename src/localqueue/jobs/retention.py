"""Forgetting what became of messages, so that nothing grows for ever.

Whoever writes outcomes forgets others that are past their end: a page for every so many that are written, in the order
of the messages' ids, which is about that of their ends. A page is larger than what was written since the one before, so
the walk comes around faster than records come in.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from localqueue.errors import PayloadError, QueueError
from localqueue.jobs import outcome, progress
from localqueue.stores.port import INFLIGHT, Changes, QueueStore, Record, RecordWrite

EVERY = 100
PAGE = 250
_FIRST_PIECE = 25
_BYTES = 4 * 2**20  # of records that are looked at together
_OLD = 3600.0  # seconds after which a progress is looked at: its message may be gone
_KINDS = (outcome.KIND, progress.KIND)


class Retention:
    """One queue object's part in the forgetting."""

    def __init__(self, store: Callable[[], QueueStore]) -> None:
        self._store = store
        self._counting = threading.Lock()
        self._walking = threading.Lock()
        # Anywhere: a program that ends before it has written a page's worth, again and again, has its turn as well.
        self._left = 1 + time.monotonic_ns() // 1000 % EVERY
        self._behind = dict.fromkeys(_KINDS, "")
        self._piece = dict.fromkeys(_KINDS, _FIRST_PIECE)

    def note(self, writes: Iterable[RecordWrite]) -> None:
        """These were committed; sometimes others are forgotten for it, in this thread."""
        count = sum(write.kind in _KINDS and write.value is not None for write in writes)
        if not count:
            return
        with self._counting:
            self._left -= count
            pages = 0 if self._left > 0 else 1 + -self._left // EVERY
            self._left += pages * EVERY
        for _ in range(pages):
            self.forget_some()

    def forget_some(self) -> None:
        """Look at the next page of each kind; nobody else need do so at the same time."""
        if not self._walking.acquire(blocking=False):
            return
        try:
            store = self._store()
            for kind in _KINDS:
                self._forget(store, kind)
        except QueueError as error:  # another walk comes here, of this process or of another
            import logging  # every queue loads this module, and few come here

            logging.getLogger("localqueue.jobs").debug("old outcomes were not forgotten: %s", error)
        finally:
            self._walking.release()

    def _forget(self, store: QueueStore, kind: str) -> None:
        """Look at a page, in as many pieces as it takes for large results not to be in memory all at once."""
        left = PAGE
        while left > 0:
            limit = min(left, self._piece[kind])
            found = store.records(kind, after=self._behind[kind], limit=limit)
            self._behind[kind] = found[-1].key if len(found) == limit else ""
            now = store.now() if found else 0.0
            over = [record for record in found if _is_over(store, record, now)]
            if over:
                store.commit(Changes(records=[RecordWrite(kind, one.key, None, one.version) for one in over]))
            if len(found) < limit:
                return
            left -= limit
            self._piece[kind] = max(_BYTES * limit // (1 + sum(len(one.value) for one in found)), 1)


def _is_over(store: QueueStore, record: Record, now: float) -> bool:
    try:
        if record.kind == outcome.KIND:
            return outcome.ends_at(record) <= now
        if record.updated_at > now - _OLD:
            return False
        queue, attempt, *_ = progress.read(record)
    except PayloadError:  # of another release, which forgets it
        return False
    message = store.get(queue, record.key)
    return message is None or message.state != INFLIGHT or message.attempts != attempt
