"""The rows of a database inside a transaction that may last, because it is the user's: nothing that a consumer needs is
locked.

Messages are looked at without a lock, so what others do to them meanwhile is seen when the user commits: what concerns
ordering keys, upstreams, runs and counts is left to a trigger (0008_guests.up.sql). Timers are settled outside of the
transaction. Only a message that a full queue drops is locked, and passed by claims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from localqueue.errors import QueueError, QueueStoreLockedError
from localqueue.stores.engine.port import Batch, Found, Run, Wanted, Writes
from localqueue.stores.engine.row import Row
from localqueue.stores.postgres.libpq import array
from localqueue.stores.postgres.notify import run_token
from localqueue.stores.postgres.reads import raw
from localqueue.stores.postgres.rows import Anew, PostgresRows, by_queue, row_of
from localqueue.stores.postgres.writer import Writer

_TRIES = 3  # to have a message leave delivery that somebody else may have locked


class TimersFirst(Exception):
    """Something depends on what timers that have passed make of messages, which is none of the user's business."""

    def __init__(self, queue: int, name: str) -> None:
        super().__init__(queue)
        self.queue, self.name = queue, name


class GuestRows(PostgresRows):
    writes_graphs = False  # what waits for others is looked at one by one, when the user commits

    def __init__(self, store: Writer, connection: Any, now: float, settled: Counter[int], *, guarded: bool) -> None:
        super().__init__(store, connection, now, None, guarded=guarded)
        self._settled = settled  # how often the timers of queues were

    def fetch(self, wanted: Wanted) -> Found:
        for queue, _ in wanted.behind:
            self._refuse_to_drop(queue)
        indexed: list[bytes] = []
        holders, heads = by_queue(wanted.holders, indexed), by_queue(wanted.heads, indexed)
        values = (array("int8", list(wanted.keys)), *holders, array("bytea", indexed), *heads)
        rows: list[Row] = []
        seen: list[Row] = []
        newest = 0
        for found in self.ask_for(self.sql.FETCH_SEEN, values):
            if found[1] is None:
                newest = max(newest, found[0])
                continue
            row = row_of(found)
            if (row.queue, row.dedupe_key) in wanted.holders and self._is_outlived(row):
                self._settle_timers(row.queue)
            if (row.queue, row.ordering_key) in wanted.heads and row.holds_key:
                newest = max(newest, row.key)
            (rows if row.key in wanted.keys else seen).append(row)
        return Found(rows, (), seen, newest)

    def _is_outlived(self, row: Row) -> bool:
        return row.expires_at is not None and row.expires_at <= self._now and row.is_due(self._now)

    def _settle_timers(self, queue: int) -> NoReturn:
        name = self.queue_name(queue)
        if self._settled[queue] >= _TRIES:
            raise QueueStoreLockedError(
                f"a message of queue {name!r} that has outlived its time belongs to a transaction that is open at "
                f"{self.store.url}; try again when that is done",
                path=self.store.url,
            )
        raise TimersFirst(queue, name)

    def due(self, queue: int, now: float, limit: int) -> list[Row]:
        find = "SELECT 1 FROM localqueue.lq_messages WHERE queue = $1 AND due_at <= $2 LIMIT 1"
        if not self._settled[queue] and self.ask_for(self.sql.here(find), (queue, now)):
            self._settle_timers(queue)
        return []

    def oldest(self, queue: int, limit: int) -> list[Row]:
        return self._some(self.sql.OLDEST, queue, limit, lock="")

    def oldest_blocked(self, queue: int) -> Row | None:
        if self.ask_for(self.sql.OLDEST_BLOCKED, (queue,)):
            self._refuse_to_drop(queue)
        return None

    def _refuse_to_drop(self, queue: int) -> NoReturn:
        raise QueueError(
            f"queue {self.queue_name(queue)!r} is full, and the oldest message has an ordering key: it is not dropped "
            "inside a transaction of yours, because those behind it could not be delivered before you commit; put "
            "outside of it"
        )

    def runs(self, names: Iterable[str]) -> dict[str, Run]:
        """Those who count what was done in them do not wait for this transaction; who cancels them does."""
        missing = set(names)
        self.named.update(map(run_token, missing))
        found: dict[str, Run] = {}
        while missing:
            values = (self.store.namespace_id, list(map(raw, sorted(missing))))
            there = self.ask_for(self.sql.FIND_RUNS, values)
            if len(there) < len(missing):  # others may be made by somebody else meanwhile
                there += self.ask_for(self.sql.MAKE_RUNS, (*values, self.store._given_now()))
            found.update({name.decode(): Run(run, cancelled) for name, run, cancelled in there})
            missing -= set(found)
        self._runs.update(run.id for run in found.values())
        return found

    def write(self, writes: Writes, now: float) -> None:
        """What becomes of messages that are there already is left to the commit: only who waits for them is new."""
        inserted = [row for row, _ in writes.inserts]
        runs, dropped = writes.runs, writes.dropped
        super().write(replace(writes, updates={}, runs={}, dropped={}), now)
        self._leave_to_commit(
            [row.key for row in inserted if row.ordering_key is not None or row.waiting_on],
            {run: change.total for run, change in runs.items()},
            dropped,
        )

    def write_batch(self, batch: Batch) -> None:
        super().write_batch(batch)
        keyed = zip(batch.keys, batch.messages, strict=True)
        self._leave_to_commit([key for key, message in keyed if message.ordering_key is not None], {}, {})

    def _leave_to_commit(self, keys: Sequence[int], runs: Mapping[int, int], dropped: Mapping[int, int]) -> None:
        if keys or runs or dropped:
            self.tell(
                self.sql.LEAVE_TO_COMMIT,
                self.store._given_now(),
                array("int8", keys),
                *(array("int4", list(part)) for part in (runs, runs.values(), dropped, dropped.values())),
            )

    def _delete(self, writes: Writes) -> None:
        """Messages that are dropped, unless somebody has taken one of them meanwhile."""
        keys = sorted(writes.deletes)
        drop = "DELETE FROM localqueue.lq_messages WHERE key = ANY ($1::bigint[]) AND state = 0 RETURNING key"
        if len(self.ask_for(self.sql.here(drop), (keys,))) < len(keys):
            raise Anew
        self._forget(writes.deletes)
