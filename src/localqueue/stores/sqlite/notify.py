"""The listening half of the port: what a blocked caller looks at, and what tells it to look again."""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from localqueue.stores import rules
from localqueue.stores.port import Waiter
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.connection import Reader
from localqueue.stores.sqlite.reads import Reads
from localqueue.stores.wake import RecordName, StoreWaiter, Wake, change_of

_ANY_CHANGE = object()  # waited for by those who can not say which queue will change


class Notifies(Reads):
    """Waiters for a store with a `Wake`. `_watch` is None when only this process can change the store."""

    _wake: Wake
    _watch: Reader | None
    _polled: tuple[Any, list[tuple[Any, ...]]] = (None, [])

    def listen(self, queues: Sequence[str], *, worker: str | None = None) -> Waiter:
        def check() -> tuple[bool, float]:
            now, next_due = self._clock(), rules.NEVER
            for ready, _, due, paused_at in self._look(queues, worker):
                if paused_at is None:
                    if ready or due <= now:
                        return True, 0.0
                    next_due = min(next_due, due)
            return False, next_due - now

        return StoreWaiter(self._wake, tuple(queues), check)

    def listen_capacity(self, limits: Mapping[str, int]) -> Waiter:
        def check() -> tuple[bool, float]:
            full = [name for name, maxsize in limits.items() if self.load(name) >= maxsize]
            return not full, min((self._read(name, self._next_expiry, rules.NEVER) for name in full), default=0.0)

        return StoreWaiter(self._wake, tuple(limits), check)

    def _next_expiry(self, connection: sqlite3.Connection, queue: int) -> float:
        now = self._clock()
        return float(connection.execute(sql.NEXT_EXPIRY, (queue, now)).fetchone()[0]) - now

    def listen_run(self, run_id: str) -> Waiter:
        return StoreWaiter(self._wake, (_ANY_CHANGE, *self.queues()), change_of(lambda: self.run(run_id)))

    def listen_records(self, kind: str, keys: Sequence[str]) -> Waiter:
        names = tuple(RecordName(kind, key) for key in dict.fromkeys(keys))
        looks = self._watch or self._reader
        return StoreWaiter(self._wake, names, change_of(lambda: self._record_versions(looks, names)))

    def _record_versions(self, looks: Reader, names: Iterable[RecordName]) -> list[tuple[Any, ...]]:
        """In which version each record is; a version is never used again."""
        mine = self.namespace_id

        def look(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            execute = connection.execute
            return [execute(sql.RECORD_VERSION, (mine, *name)).fetchone() or (0,) for name in names]

        return looks.read(look)

    def _version(self, names: Iterable[Hashable]) -> Hashable:
        """The ends of the lines of these queues: whatever wakes somebody changes one of them."""
        assert self._watch is not None
        ends: list[tuple[Any, ...]] = []
        records: list[RecordName] = []
        for name in names:
            if name is _ANY_CHANGE:
                ends += self._watch.rows("PRAGMA data_version")
            elif isinstance(name, RecordName):
                records.append(name)
            elif (queue := self._find_queue(str(name))) is not None:
                ends += self._watch.rows(sql.ENDS_OF_LINE, (queue,))
        if records:
            ends += self._versions_polled(self._watch, records)
        return tuple(ends)

    def _versions_polled(self, watch: Reader, names: list[RecordName]) -> list[tuple[Any, ...]]:
        """The versions of records, which are read anew only when somebody has committed since."""
        moment = (watch.rows("PRAGMA data_version"), names)
        if moment != self._polled[0]:
            self._polled = (moment, self._record_versions(watch, names))
        return self._polled[1]

    def _look(self, queues: Sequence[str], worker: str | None) -> list[tuple[Any, ...]]:
        """Ready and blocked messages, next timer and pause of each queue, or of the worker on it."""
        looks = self._watch or self._reader
        found = (self._find_queue(name) for name in queues)
        return [row for queue in found if queue is not None for row in looks.rows(sql.LOOK, (queue, worker))]
