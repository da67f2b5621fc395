"""Reads: none of them changes anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from localqueue.ids import Mint
from localqueue.message import QueueStats, RunStats
from localqueue.stores import rules
from localqueue.stores.port import STATES, CheckReport, Record, StoredMessage, Subscriptions
from localqueue.stores.postgres import maintain
from localqueue.stores.postgres.calls import Calls
from localqueue.stores.postgres.rows import raw, stored_message, text_or_none
from localqueue.stores.postgres.tx import CODE, DEAD

T = TypeVar("T")

_PAGES_OF_A_PART = 100  # by which the ends of a range are found
_SAMPLE_OF_A_PART = 500  # messages: with fewer on those pages, all of the queue are looked at
Execute = Callable[..., Any]


class ReadsQueues(Calls):
    """The reads of the port. A queue that nobody has used yet is simply empty."""

    ids: Mint
    namespace_id: int
    queue_ids: dict[str, int]

    def _find_queue(self, name: str) -> int | None:
        known = self.queue_ids.get(name)
        if known is None:
            row = self._one(
                self.sql.here("SELECT id FROM localqueue.lq_queues WHERE namespace = $1 AND sha256(name) = sha256($2)"),
                (self.namespace_id, raw(name)),
            )
            if row is None:
                return None
            known = self.queue_ids[name] = row[0]
        return known

    def get(self, queue: str, message_id: str) -> StoredMessage | None:
        row, key = self._find_queue(queue), self.ids.key_of(message_id)
        if row is None or key is None:
            return None
        found = self._one(f"{self.sql.FULL_ROW} WHERE m.key = $1 AND m.queue = $2", (key, row))
        return None if found is None else stored_message(self.ids, found)

    def qsize(self, queue: str) -> int:
        return self._count(queue, blocked=False)

    def load(self, queue: str) -> int:
        return self._count(queue, blocked=True)

    def _count(self, queue: str, *, blocked: bool) -> int:
        row = self._find_queue(queue)
        if row is None:
            return 0
        found = self._one(self.sql.READY_COUNT, (row, self._given_now(), blocked))
        assert found is not None
        return int(found[0])

    def stats(self, queue: str) -> QueueStats:
        row = self._find_queue(queue)
        return QueueStats() if row is None else self._snapshot(lambda execute: self._stats(execute, row))

    def _stats(self, execute: Execute, queue: int) -> QueueStats:
        now = self._now_in(execute)
        counts = [0] * len(STATES)
        for state, becomes, count in execute(self.sql.COUNTS, (queue, now)).fetchall():
            if becomes >= 10:  # a timer that has passed: not what its row says any more
                counts[state] -= count
            counts[becomes % 10] += count
        here = self.sql.here
        paused_at, dropped = execute(
            here("SELECT paused_at, dropped FROM localqueue.lq_queues WHERE id = $1"), (queue,)
        ).fetchone()
        inflight = [
            (text_or_none(by), count, first, total)
            for by, count, first, total in execute(self.sql.INFLIGHT, (queue, now)).fetchall()
        ]
        workers = [
            (worker.decode(), leases, last_seen, paused)
            for worker, leases, last_seen, paused in execute(
                here("SELECT worker, leases, last_seen, paused_at FROM localqueue.lq_workers "
                     "WHERE queue = $1 ORDER BY worker"),
                (queue,),
            ).fetchall()
        ]  # fmt: skip
        leased = sum(row[1] for row in inflight)
        return QueueStats(
            **{name: counts[CODE[name]] for name in STATES},
            total=sum(counts),
            by_worker_id={row[0]: row[1] for row in inflight if row[0] is not None},
            leases_by_worker_id={row[0]: row[1] for row in workers if row[1]},
            last_seen_by_worker_id={row[0]: row[2] for row in workers if row[2] is not None},
            oldest_ready_age_seconds=self._oldest_ready_age(execute, queue, now) if counts[0] else None,
            oldest_inflight_age_seconds=max(0.0, now - min(row[2] for row in inflight)) if leased else None,
            average_inflight_age_seconds=max(0.0, now - sum(row[3] for row in inflight) / leased) if leased else None,
            dropped=dropped,
            paused=paused_at is not None,
            paused_workers=tuple(row[0] for row in workers if row[3] is not None),
        )

    def _oldest_ready_age(self, execute: Execute, queue: int, now: float) -> float:
        """Age of the message that has been available longest, counting those that are due but not claimed since."""
        first = execute(self.sql.OLDEST_READY, (queue,)).fetchone()
        (due,) = execute(
            self.sql.here(
                "SELECT min(due_at) FROM localqueue.lq_messages WHERE queue = $1 AND due_at <= $2 "
                "AND (state = 2 OR (state = 1 AND (expires_at IS NULL OR expires_at > $2)))"
            ),
            (queue, now),
        ).fetchone()
        since = [at for at in (None if first is None else first[1], due) if at is not None]
        return max(0.0, now - min(since)) if since else 0.0

    def _prunable(self, queue: int, state: str, older_than: float) -> int:
        """How many messages of a state left delivery by then."""
        count = (
            "SELECT count(*) FROM localqueue.lq_messages WHERE queue = $1 AND state = $2 AND ended_at IS NOT NULL "
            "AND ended_at <= coalesce($3::float8, extract(epoch FROM clock_timestamp())::float8) - $4::float8"
        )
        found = self._one(self.sql.here(count), (queue, CODE[state], self._given_now(), older_than))
        assert found is not None
        return int(found[0])

    def scan(
        self,
        queue: str,
        *,
        state: str | None = None,
        after: str | None = None,
        until: str | None = None,
        limit: int | None = None,
    ) -> list[StoredMessage]:
        last = rules.last_wanted(self.ids, state, until)
        row = self._find_queue(queue)
        if row is None:
            return []
        where, order = "m.queue = $1", "m.key"
        values: list[Any] = [row, limit, None if state is None else CODE[state]]
        if state is not None:
            where += " AND m.state = $3"
            if CODE[state] >= DEAD:
                where += " AND m.ended_at IS NOT NULL"
                order = "m.ended_at, m.key"
        else:
            where += " AND ($3::int IS NULL)"
        if after is not None:
            values.append(self.ids.key_of(after) or 0)
            where += (
                " AND m.key > $4"
                if order == "m.key"
                else " AND (m.ended_at, m.key) > (SELECT a.ended_at, a.key FROM localqueue.lq_messages AS a "
                "WHERE a.key = $4)"
            )
        if last is not None:
            values.append(last)
            where += f" AND m.key <= ${len(values)}"
        find = f"{self.sql.FULL_ROW} {self.sql.here(f'WHERE {where} ORDER BY {order} LIMIT $2::bigint')}"
        return [stored_message(self.ids, found) for found in self._all(find, values)]

    def splits(self, queue: str, parts: int) -> list[str]:
        rules.check_parts(parts)
        row = self._find_queue(queue)
        if row is None:
            return []
        sample = sorted(key for (key,) in self._all(self.sql.SPLIT_SAMPLE, (row, parts * _PAGES_OF_A_PART)))
        if len(sample) < parts * _SAMPLE_OF_A_PART:
            found = self._one(self.sql.SPLITS, (row, [n / parts for n in range(1, parts)]))
            ends, newest = found or (None, None)
        else:
            newest_first = "SELECT key FROM localqueue.lq_messages WHERE queue = $1 ORDER BY key DESC LIMIT 1"
            found = self._one(self.sql.here(newest_first), (row,))
            ends = [sample[end] for end in rules.ends_of_parts(len(sample), parts)[:-1]]
            newest = None if found is None else found[0]
        return [] if newest is None else [self.ids.id_of(key) for key in sorted({*(ends or ()), newest})]

    def queues(self) -> list[str]:
        find = self.sql.here("SELECT name FROM localqueue.lq_queues WHERE namespace = $1 ORDER BY name")
        return [row[0].decode() for row in self._all(find, (self.namespace_id,))]

    def runs(self, *, after: str = "", limit: int | None = None) -> list[str]:
        find = self.sql.here(
            "SELECT name FROM localqueue.lq_runs WHERE namespace = $1 AND name > $2 ORDER BY name LIMIT $3::bigint"
        )
        return [row[0].decode() for row in self._all(find, (self.namespace_id, raw(after), limit))]

    def run(self, run_id: str) -> RunStats | None:
        rows = self._all(self.sql.RUN, (self.namespace_id, raw(run_id)))
        if not rows:
            return None
        states = {STATES[state]: count for _, _, state, count in rows if state is not None}
        return RunStats(run_id=run_id, total=rows[0][0], done=rows[0][1], **states)

    def run_messages(self, run_id: str, *, after: str | None = None, limit: int | None = None) -> list[StoredMessage]:
        where = self.sql.here(
            "WHERE m.run = (SELECT r.id FROM localqueue.lq_runs AS r WHERE r.namespace = $1 "
            "AND sha256(r.name) = sha256($2)) AND m.key > $3 ORDER BY m.key LIMIT $4::bigint"
        )
        values = (self.namespace_id, raw(run_id), (after and self.ids.key_of(after)) or 0, limit)
        return [stored_message(self.ids, row) for row in self._all(f"{self.sql.FULL_ROW} {where}", values)]

    def upstream(self, queue: str, message_id: str) -> list[str]:
        row, key = self._find_queue(queue), self.ids.key_of(message_id)
        if row is None or key is None:
            return []
        find = self.sql.here(
            "SELECT d.upstream FROM localqueue.lq_dependencies AS d JOIN localqueue.lq_messages AS m "
            "ON m.key = d.dependent WHERE d.dependent = $1 AND m.queue = $2 ORDER BY d.upstream"
        )
        return [self.ids.id_of(found[0]) for found in self._all(find, (key, row))]

    def record(self, kind: str, key: str) -> Record | None:
        row = self._one(self.sql.RECORD, (self.namespace_id, raw(kind), raw(key)))
        return None if row is None else _record(row)

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Record]:
        return [_record(row) for row in self._all(self.sql.RECORDS, (self.namespace_id, raw(kind), raw(after), limit))]

    def subscriptions(self, topic: str) -> Subscriptions:
        row = self._find_queue(topic)
        if row is None:
            return Subscriptions(0, ())
        find = self.sql.here(
            "SELECT q.subscriptions, s.subscriber FROM localqueue.lq_queues AS q LEFT JOIN localqueue.lq_subscriptions "
            "AS s ON s.topic = q.id WHERE q.id = $1 ORDER BY s.n"
        )
        rows = self._all(find, (row,))
        return Subscriptions(rows[0][0], tuple(name.decode() for _, name in rows if name is not None))

    def paused(self, queue: str, *, worker: str | None = None) -> bool:
        row = self._find_queue(queue)
        if row is None:
            return False
        if worker is None:
            find, values = "SELECT paused_at FROM localqueue.lq_queues WHERE id = $1", [row]
        else:
            find = "SELECT paused_at FROM localqueue.lq_workers WHERE queue = $1 AND sha256(worker) = sha256($2)"
            values = [row, raw(worker)]  # type: ignore[list-item]
        found = self._one(self.sql.here(find), values)
        return found is not None and found[0] is not None

    def check(self) -> CheckReport:
        return self._snapshot(lambda execute: maintain.check(execute, self.sql, self.namespace_id))


def _record(row: tuple[Any, ...]) -> Record:
    kind, key, value, version, updated_at = row
    return Record(kind.decode(), key.decode(), value, version, updated_at)
