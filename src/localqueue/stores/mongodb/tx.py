"""One piece of work inside a transaction: messages with the runs they count for and the keys they hold.

Two transactions that only read the same document do not notice each other, so those that must exclude each other write
one: a message that gets a dependent counts it, everybody who decides by an ordering key writes that key's lock, and
everybody who counts against a capacity writes the queue. The locks of ordering keys are a fixed number of documents.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any

from localqueue.errors import RunCancelled
from localqueue.stores import rules
from localqueue.stores.mongodb import schema
from localqueue.stores.mongodb.gathering import Gathering
from localqueue.stores.mongodb.rows import BLOCKED, CODE, DEAD, ENDINGS, EXPIRED, HEADS, Row
from localqueue.stores.port import STATES

_PARTS_OF_A_RUN = 8


def to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"), default=str)


class Tx(Gathering):
    def move(self, row: Row, state: int, *, available_at: float, error: str | None = None) -> None:
        """Put a message into another state that is not inflight, dropping its lease."""
        before, held, row.state = row.state, row.holds_key, state
        row.available_at = available_at
        row.due_at = rules.due_at(STATES[state], available_at=available_at, expires_at=row.expires_at)
        row.ended_at = self.now if state >= DEAD else None
        row.leased_at = row.leased_by = None
        if state >= DEAD > before and row.said != ENDINGS[state]:
            self.note(ENDINGS[state], row, error=error)
        row.most = None
        if error is not None:
            row.last_error, row.failed_at = error, self.now
        self.save(row)
        if state >= DEAD and held:
            self.free_key(row.queue, row.ordering_key)

    def finish(self) -> None:
        self.flush()
        self._count_entered()
        self._write_done()
        self.journal.write(self.server, self.session, self.now)

    # runs

    def enter_run(self, run_id: str, *, even_cancelled: bool = False) -> None:
        """Count a message of a run, made on first use. Cancelling it writes the same document."""
        if run_id in self._entered:
            self._entered[run_id] += 1
            return
        named = {"n": self.store.namespace_id, "name": run_id}
        runs = self.server.database.lq_runs
        before = runs.find_one_and_update(named, {"$inc": {"total": 1}}, upsert=True, session=self.session)
        if before is not None and before.get("cancelled_at") is not None and not even_cancelled:
            raise RunCancelled(f"run {run_id!r} was cancelled: it takes no more messages; use another run_id")
        self._entered[run_id] = 0  # how many more have come since

    def _count_entered(self) -> None:
        for run_id, more in self._entered.items():
            if more:
                named = {"n": self.store.namespace_id, "name": run_id}
                self.server.database.lq_runs.update_one(named, {"$inc": {"total": more}}, session=self.session)
        self._entered.clear()

    def count_done(self, row: Row) -> None:
        assert row.run is not None
        self._done[row.run] = self._done.get(row.run, 0) + 1

    def _write_done(self) -> None:
        part = self.store.ids.reserve() % _PARTS_OF_A_RUN
        for run_id, count in self._done.items():
            named = {"n": self.store.namespace_id, "name": run_id, "part": part}
            self.server.database.lq_done.update_one(named, {"$inc": {"done": count}}, upsert=True, session=self.session)
        self._done.clear()

    # dedupe and ordering keys, and what else excludes others

    def lock_queue(self, number: int) -> None:
        """Exclude everybody else who counts the messages of this queue."""
        if -number not in self._locked:
            self._locked.add(-number)
            self.change_queue(number, {"$inc": {"lock": 1}})

    def look_up_holders(self, queue: int, dedupe_keys: Iterable[str]) -> None:
        """Find out in one round trip who holds these keys, for `holder`."""
        unknown = [key for key in dict.fromkeys(dedupe_keys) if (queue, key) not in self._holders]
        if unknown:
            for key in unknown:
                self._holders[queue, key] = None
            for row in self.find({"q": queue, "u": {"$in": unknown}}, ()):
                self._know(row)

    def holder(self, queue: int, dedupe_key: str) -> Row | None:
        """The live message with this dedupe key."""
        self.look_up_holders(queue, [dedupe_key])
        row = self._holders[queue, dedupe_key]
        return row if row is not None and self._is_here(row) and row.state < DEAD else None

    def look_up_heads(self, queue: int, ordering_keys: Iterable[str]) -> None:
        """Exclude everybody else who decides by these keys, and find out which are in use, for `key_busy`."""
        keys = list(dict.fromkeys(ordering_keys))
        self._lock_keys(queue, keys)
        unknown = [key for key in keys if (queue, key) not in self._heads]
        if unknown:
            for key in unknown:
                self._heads[queue, key] = None
            for row in self.find({"q": queue, "ok": {"$in": unknown}, "s": {"$in": HEADS}}, ()):
                self._know(row)

    def _lock_keys(self, queue: int, ordering_keys: Iterable[str]) -> None:
        """Keys share a fixed number of locks, so some exclude each other without need."""
        locks = {zlib.crc32(f"{queue}:{key}".encode()) % schema.KEY_LOCKS for key in ordering_keys} - self._locked
        if locks:
            self._locked |= locks
            wanted = {"_id": {"$in": sorted(locks)}}
            self.server.database.lq_locks.update_many(wanted, {"$inc": {"n": 1}}, session=self.session)

    def key_busy(self, queue: int, ordering_key: str | None) -> bool:
        """Whether a message of the key is ready, delayed or inflight."""
        if ordering_key is None:
            return False
        self.look_up_heads(queue, [ordering_key])
        row = self._heads[queue, ordering_key]
        return row is not None and self._is_here(row) and row.holds_key

    def free_key(self, queue: int, ordering_key: str | None) -> None:
        """The head of an ordering key left: the next message of the key takes its place."""
        assert ordering_key is not None
        self._lock_keys(queue, [ordering_key])
        for row in self.find({"q": queue, "ok": ordering_key, "s": BLOCKED}, [("_id", 1)], 1):
            landed = CODE[rules.landing(now=self.now, available_at=row.available_at, expires_at=row.expires_at)]
            if landed == EXPIRED:
                self.remember(row, "expired")
            self.move(row, landed, available_at=row.available_at)
            if landed == EXPIRED:
                self.free_key(queue, ordering_key)

    def lock_edges(self) -> None:
        """Exclude everybody else who adds a dependency to a message that is there already."""
        lock = schema.KEY_LOCKS + self.store.namespace_id
        if lock not in self._locked:
            self._locked.add(lock)
            locks = self.server.database.lq_locks
            locks.update_one({"_id": lock}, {"$inc": {"n": 1}}, upsert=True, session=self.session)
