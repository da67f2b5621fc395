"""The page of a book in the store: read, changed by a few decisions, and written if nobody else has written it."""

from __future__ import annotations

from localqueue.limits.book import Book, Entrant, Promotion
from localqueue.limits.limits import Limited, Limits
from localqueue.stores.port import INFLIGHT, QueueStore, Record, RecordWrite

#: The kind of the records.
KIND = "limit"


class Page:
    def __init__(self, record: Record | None, key: str, limits: Limits, now: float, *, shared: bool) -> None:
        self.key = key
        self.limits = limits
        self.book = Book() if record is None else Book.decode(record.value)
        self.changed = False
        self._version = 0 if record is None else record.version
        self._shared = shared
        self.now = self.book.turn_to(now, limits)
        self._was_full = self.book.is_full(limits)

    @classmethod
    def read(cls, store: QueueStore, one: Limited) -> Page:
        record = store.record(KIND, one.record)
        return cls(record, one.record, one.limits, store.now(), shared=one.key is None)

    def has_place_for(self, message: Entrant) -> bool:
        return self.book.has_place_for(self.now, self.limits, message)

    def drop_dead(self, store: QueueStore) -> None:
        """Forget holders whose messages are not leased any more, or to somebody else."""
        for name in self.book.doubtful(self.now):
            holder = self.book.holders[name]
            if is_held(store, holder.queue, name, holder.token, self.now):
                self.book.confirm(name, self.now)
            else:
                del self.book.holders[name]
            self.changed = True

    def promote(self) -> list[Promotion]:
        promoted = self.book.promote(self.now, self.limits)
        self.changed = self.changed or bool(promoted)
        return promoted

    def writes(self) -> list[RecordWrite]:
        """What is to be written. Those who wait for a place are told of it; of one with keys, each is brought back."""
        if not self.changed:
            return []
        idle = self.book.is_idle(self.now)
        if idle and not self._version:
            return []
        tell = self._shared and self._was_full and not self.book.is_full(self.limits)
        return [RecordWrite(KIND, self.key, None if idle else self.book.encode(), self._version, tell)]


def is_held(store: QueueStore, queue: str, name: str, token: int, now: float) -> bool:
    """Whether a message is under the lease with this token."""
    stored = store.get(queue, name)
    if stored is None or stored.state != INFLIGHT or stored.attempts != token:
        return False
    return stored.leased_until is None or stored.leased_until > now
