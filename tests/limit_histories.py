"""What handlers and commits show of a limit while it is kept: who ran when, and which starts were noted."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from localqueue.limits.book import Book
from localqueue.limits.page import KIND
from localqueue.stores.port import Changes, Committed, LeaseRequest, QueueStore, StoredMessage


class Span(NamedTuple):
    """One run of a handler, by a clock that all processes of the machine share."""

    key: str
    begin: float
    end: float


class Spans:
    """Kept by the handlers of one process."""

    def __init__(self) -> None:
        self.all: list[Span] = []

    def handle(self, value: Any) -> None:
        begin = time.monotonic()
        time.sleep(value.get("seconds", 0.0))
        self.all.append(Span(str(value.get("user")), begin, time.monotonic()))


def most_at_once(spans: Iterable[Span]) -> int:
    """How many ran at the same time at most; one that begins as another ends does not."""
    edges = sorted([edge for one in spans for edge in ((one.end, -1), (one.begin, 1))])
    running = most = 0
    for _, change in edges:
        running += change
        most = max(most, running)
    return most


def by_key(spans: Iterable[Span]) -> dict[str, list[Span]]:
    found: dict[str, list[Span]] = defaultdict(list)
    for one in spans:
        found[one.key].append(one)
    return dict(found)


class Watched:
    """Counts the leases that a store was asked for, and keeps the starts that were committed, for each record."""

    def __init__(self, store: QueueStore) -> None:
        self.leased: Counter[str] = Counter()
        self.asked = 0
        self.looks = 0
        self.starts: dict[str, Counter[float]] = defaultdict(Counter)
        self._lock = threading.Lock()
        self._own = threading.local()
        self._store: Any = store
        self._commit, self._lease, self._record = store.commit, store.lease, store.record
        self._store.commit, self._store.lease, self._store.record = self.commit, self.lease, self.record

    def commit(self, changes: Changes) -> Committed:
        self._own.committing = True
        try:
            committed = self._commit(changes)
        finally:
            self._own.committing = False
        with self._lock:
            for write in changes.records:
                if write.kind == KIND and write.value is not None:
                    self.starts[write.key] |= Counter(one.at for one in Book.decode(write.value).starts)
            self._count(changes.lease, committed.leased)
        return committed

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        leased = self._lease(request)
        if not getattr(self._own, "committing", False):  # else it is counted as part of the commit
            with self._lock:
                self._count(request, leased)
        return leased

    def record(self, kind: str, key: str) -> Any:
        if kind == KIND:
            self.looks += 1
        return self._record(kind, key)

    def _count(self, request: LeaseRequest | None, leased: Iterable[StoredMessage]) -> None:
        if request is not None and request.limit:
            self.asked += 1
            self.leased.update(message.id for message in leased)


def exceeds(starts: Iterable[float], most: int, seconds: float) -> bool:
    """Whether more than `most` of the starts are in some window of so many seconds."""
    ordered = sorted(starts)
    return any(first + seconds > last for first, last in zip(ordered, ordered[most:], strict=False))
