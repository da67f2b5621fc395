"""The state of one retried call, in Tenacity's terms but counted since the key's first attempt."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tenacity import BaseRetrying, RetryCallState

from localqueue.retry.default_store import Source
from localqueue.retry.record import AttemptStore, RetryRecord
from localqueue.stores.keyvalue.store import now_of


class CallState(RetryCallState):
    """`attempt_number` counts the attempts of all processes; times are since the epoch, so they survive a restart.

    Within a call time passes as the monotonic clock says, whatever becomes of the wall clock.
    """

    outcome_timestamp: float | None
    start_time: float

    def __init__(self, retrying: BaseRetrying, fn: Callable[..., Any] | None, args: Any, kwargs: Any) -> None:
        super().__init__(retrying, fn, args, kwargs)
        self._ahead = time.time() - time.monotonic()

    def now(self) -> float:
        return time.monotonic() + self._ahead

    def set_result(self, val: Any) -> None:
        super().set_result(val)
        self.outcome_timestamp = self.now()

    def set_exception(self, exc_info: Any) -> None:
        super().set_exception(exc_info)
        self.outcome_timestamp = self.now()

    @property
    def seconds_since_start(self) -> float | None:
        if self.outcome_timestamp is None:
            return None
        return max(0.0, self.outcome_timestamp - self.start_time)


class PersistentCallState(CallState):
    """A call whose attempts are recorded. What it does with the store may block."""

    def __init__(
        self, retrying: BaseRetrying, fn: Callable[..., Any] | None, args: Any, kwargs: Any, *, key: str, source: Source
    ) -> None:
        super().__init__(retrying, fn, args, kwargs)
        self.key = key
        self.conclusion: Callable[[], Any] | None = None
        self._source = source
        self._store: AttemptStore | None = None
        self._recorded = False
        self._aligned = False

    @property
    def resumed(self) -> bool:
        return self._store is not None

    def resume(self) -> RetryRecord:
        """Go on where the last call with this key stopped."""
        store = self._source.open()
        record = self._load(store)
        self._store = store
        if record is None:
            record = RetryRecord(first_attempt_at=self.now())
        else:
            self._align()
        self.start_time = record.first_attempt_at
        self.attempt_number = record.attempts + 1
        return record

    def recount(self) -> RetryRecord:
        """Look again: another call may have used the same key, or an operator reset it."""
        self._align()
        record = self._load(self._open()) or RetryRecord(first_attempt_at=self.start_time)
        self.attempt_number = record.attempts + 1
        return record

    def _align(self) -> None:
        """Go by the clock of the store from here on, if it has one: the next attempt may be another host's.

        It is asked where there is something to compare, so that a success at the first attempt costs no question.
        """
        store = self._open()
        if self._aligned or not hasattr(store, "now"):
            return
        self._aligned = True
        lead = now_of(store) - self.now()
        self._ahead += lead
        self.start_time += lead
        if self.outcome_timestamp is not None:
            self.outcome_timestamp += lead

    def save(self, *, exhausted: bool) -> None:
        self._open().save(self.key, RetryRecord(self.attempt_number, self.start_time, exhausted))
        self._recorded = True

    def clear(self) -> None:
        if self._recorded:
            self._open().delete(self.key)

    def _load(self, store: AttemptStore) -> RetryRecord | None:
        record = store.load(self.key)
        self._recorded = record is not None
        return record

    def _open(self) -> AttemptStore:
        return self._source.open() if self._store is None else self._store
