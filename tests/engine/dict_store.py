"""The engine on plain dicts: the smallest store there can be, to test the rules alone.

It keeps what the state machine looks at and nothing that a real store is for: no file, no other process, no waking up.
"""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from localqueue.errors import IdTaken, RecordConflict
from localqueue.events.journal import JournalEvent
from localqueue.ids import Mint, new_secret
from localqueue.message import QueueStats, RunStats
from localqueue.stores import rules
from localqueue.stores.engine.commit import apply
from localqueue.stores.engine.leases import lease
from localqueue.stores.engine.port import Batch, Found, Note, Run, Wanted, Writes
from localqueue.stores.engine.row import BLOCKED, CODE, DEAD, DELAYED, EXPIRED, INFLIGHT, READY, Row, from_json
from localqueue.stores.engine.store import EngineStore
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import (
    STATES,
    Changes,
    CheckReport,
    Committed,
    LeaseRequest,
    NewMessage,
    RecordWrite,
    Settle,
    StoredMessage,
)

T = TypeVar("T")


@dataclass
class Tables:
    queues: dict[str, int] = field(default_factory=dict)
    rows: dict[int, Row] = field(default_factory=dict)
    messages: dict[int, NewMessage] = field(default_factory=dict)
    attempts: dict[int, list[rules.Attempt]] = field(default_factory=dict)
    edges: set[tuple[int, int]] = field(default_factory=set)
    removed: set[int] = field(default_factory=set)
    newest: dict[int, int] = field(default_factory=dict)
    totals: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    cancelled: set[str] = field(default_factory=set)
    dropped: Counter[int] = field(default_factory=Counter)
    paused: set[tuple[int, str | None]] = field(default_factory=set)
    records: dict[tuple[str, str], tuple[bytes, int]] = field(default_factory=dict)
    journal: list[JournalEvent] = field(default_factory=list)


class DictRows:
    guards_dedupe_keys = False
    writes_graphs = False

    def __init__(self, tables: Tables, ids: Mint, now: float, *, journalled: bool = False) -> None:
        self.journalled = journalled
        self.tables = tables
        self.ids = ids
        self._now = now

    def queue(self, name: str) -> int:
        return self.tables.queues.setdefault(name, len(self.tables.queues) + 1)

    def find_queue(self, name: str) -> int | None:
        return self.tables.queues.get(name)

    def queue_name(self, queue: int) -> str:
        return next(name for name, number in self.tables.queues.items() if number == queue)

    def subscription_version(self, topic: int) -> int:
        return 0

    def newest(self, queues: Iterable[int]) -> int:
        return max((self.tables.newest.get(queue, 0) for queue in queues), default=0)

    def where(self, wanted: Callable[[Row], bool], *order: str) -> list[Row]:
        found = sorted((row for row in self.tables.rows.values() if wanted(row)), key=lambda row: row.key)
        for name in reversed(order):
            found.sort(key=lambda row: getattr(row, name))
        return [replace(row) for row in found]

    def fetch(self, wanted: Wanted) -> Found:
        edges = [edge for edge in self.tables.edges if edge[0] in wanted.dependents]
        keys = wanted.keys | {dependent for _, dependent in edges}
        found = self.where(
            lambda row: (
                row.key in keys
                or (row.state < DEAD and (row.queue, row.dedupe_key) in wanted.holders)
                or (row.state <= INFLIGHT and (row.queue, row.ordering_key) in wanted.heads)
            )
        )
        for (queue, ordering_key), behind in wanted.behind.items():
            blocked = self.where(lambda row: row.state == BLOCKED and row.queue == queue)  # noqa: B023
            found += [row for row in blocked if row.ordering_key == ordering_key and row.key > behind][:1]
        return Found(found, edges)

    def due(self, queue: int, now: float, limit: int) -> list[Row]:
        found = self.where(lambda row: row.queue == queue and row.is_due(now))
        return sorted(found, key=lambda row: (row.due_at or 0.0, row.key))[:limit]

    def oldest(self, queue: int, limit: int) -> list[Row]:
        return self.where(lambda row: row.queue == queue and row.state == READY, "available_at")[:limit]

    def oldest_blocked(self, queue: int) -> Row | None:
        return next(iter(self.where(lambda row: row.queue == queue and row.state == BLOCKED)), None)

    def shown(self, row: Row, now: float) -> int:
        """The state of a message, of one that is due what the next claim makes of it."""
        if not row.is_due(now):
            return row.state
        used = row.attempts - row.forgiven
        if row.state == INFLIGHT and row.most is not None and used >= row.most:
            return DEAD
        if row.expires_at is not None and row.expires_at <= now:
            return EXPIRED
        return READY if row.state in (DELAYED, INFLIGHT) else row.state

    def load(self, queue: int, now: float, up_to: int) -> int:
        rows = (row for row in self.tables.rows.values() if row.queue == queue)
        return min(up_to, sum(self.shown(row, now) in (READY, BLOCKED) for row in rows))

    def upstreams(self, dependents: Iterable[int]) -> list[tuple[int, int]]:
        wanted = set(dependents)
        return [edge for edge in self.tables.edges if edge[1] in wanted]

    def removed(self, keys: Iterable[int]) -> set[int]:
        return self.tables.removed.intersection(keys)

    def stored(self, keys: Iterable[int]) -> dict[int, StoredMessage]:
        return {key: self.message(self.tables.rows[key]) for key in keys}

    def message(self, row: Row) -> StoredMessage:
        new, finished = self.tables.messages[row.key], self.tables.attempts.get(row.key, [])
        return StoredMessage(
            self.ids.id_of(row.key), self.queue_name(row.queue), STATES[row.state], new.payload, new.codec,
            row.priority, row.attempts, row.created_at, row.available_at, row.leased_until, row.leased_by,
            from_json(row.last_error), row.failed_at, row.dedupe_key, row.ordering_key, row.expires_at, row.run,
            new.headers, row.waiting_on,
            rules.history(finished, attempts=row.attempts, leased_at=row.leased_at, leased_by=row.leased_by),
            row.forgiven,
        )  # fmt: skip

    def ended(self, queue: int, state: int, until: float, behind: tuple[float, int], limit: int) -> list[Row]:
        found = self.where(lambda row: row.queue == queue and row.state == state, "ended_at")
        return [row for row in found if behind < (row.ended_at or 0.0, row.key) <= (until, sys.maxsize)][:limit]

    def last_ended(self, queue: int, state: int) -> float:
        found = self.where(lambda row: row.queue == queue and row.state == state)
        return max((row.ended_at or 0.0 for row in found), default=0.0)

    def of_queue(self, queue: int, behind: int, limit: int) -> list[Row]:
        return self.where(lambda row: row.queue == queue and row.key > behind)[:limit]

    def runs(self, names: Iterable[str]) -> dict[str, Run]:
        for name in names:
            self.tables.totals.setdefault(name, 0)
        return {name: Run(name, name in self.tables.cancelled) for name in names}

    def cancel(self, name: str, now: float, before: int, limit: int) -> list[Row]:
        if name not in self.tables.totals:
            return []
        self.tables.cancelled.add(name)
        return self.where(lambda row: row.run == name and row.state < DEAD and row.key < before)[::-1][:limit]

    def write(self, writes: Writes, now: float) -> None:
        tables = self.tables
        for row, message in writes.inserts:
            if row.key in tables.rows:
                raise IdTaken("a message id of this commit is in use")
            tables.rows[row.key], tables.messages[row.key] = replace(row, new=False), message
            tables.newest[row.queue] = max(row.key, tables.newest.get(row.queue, 0))
            if message.past is not None:
                tables.attempts[row.key] = rules.attempts_of(message.past.history)
        tables.edges.update(writes.edges)
        for row, _, attempt in writes.attempts:
            tables.attempts[row.key] = [*tables.attempts.get(row.key, []), attempt][-20:]
        for row in writes.updates.values():
            assert row.before is not None and tables.rows[row.key].snapshot() == row.before
            tables.rows[row.key] = replace(row, before=None, told=None)
        tables.removed.update(writes.removed)
        if writes.removed:
            tables.removed = {key for key in tables.removed if key >= writes.remembered_from}
        for key in writes.deletes:
            del tables.rows[key], tables.messages[key]
            tables.attempts.pop(key, None)
        tables.edges = {one for one in tables.edges if one[0] not in writes.freed and one[1] not in writes.forgotten}
        for run, change in writes.runs.items():
            tables.totals[run] += change.total
            tables.done[run] += change.done
        tables.dropped.update(writes.dropped)
        for note in writes.notes:
            self.journal(note)

    def write_batch(self, batch: Batch) -> None:
        self.write(Writes(inserts=list(batch.inserts())), batch.now)

    def journal(self, note: Note) -> None:
        row, new, options = note.row, note.message, None
        if new is not None:
            options = rules.kept_options(
                priority=new.priority,
                dedupe_key=new.dedupe_key,
                ordering_key=new.ordering_key,
                run_id=new.run_id,
                headers=new.headers,
                delay=new.delay,
                ttl=new.ttl,
            )
        self.tables.journal.append(
            JournalEvent(
                len(self.tables.journal) + 1, self._now, note.type, self.queue_name(row.queue),
                self.ids.id_of(row.key), note.attempt if new is None else None, note.leased_by, from_json(note.error),
                None if new is None else new.payload, None if new is None else new.codec, options,
            )
        )  # fmt: skip

    def write_records(self, writes: Sequence[RecordWrite], now: float) -> list[int]:
        versions = []
        for kind, key, value, expect, _ in writes:
            if expect is not None and self.tables.records.get((kind, key), (b"", 0))[1] != expect:
                raise RecordConflict(f"record {key!r} of kind {kind!r}")
            versions.append(0 if value is None else self.ids.reserve())
            self.tables.records.pop((kind, key), None)
            if value is not None:
                self.tables.records[kind, key] = (value, versions[-1])
        return versions

    def timers_settled(self, queue: int) -> None: ...

    def subscribe(self, topic: int, subscriber: str, wanted: bool) -> bool:
        raise NotImplementedError("nobody subscribes here")

    def pause(self, queue: int, worker: str | None, at: float | None) -> None:
        (self.tables.paused.discard if at is None else self.tables.paused.add)((queue, worker))

    def clear(self, queue: int) -> None:
        self.tables.dropped[queue] = 0

    def paused(self, queue: int, worker: str | None) -> bool:
        return (queue, None) in self.tables.paused or (queue, worker) in self.tables.paused

    def claimable(self, queue: int, now: float) -> bool:
        return False

    def claim(self, queue: int, request: LeaseRequest, now: float) -> list[StoredMessage]:
        line = self.where(lambda row: row.queue == queue and row.state == READY, "available_at")
        line.sort(key=lambda row: -row.priority)
        for row in line[: request.limit]:
            row.state, row.attempts, row.leased_until = INFLIGHT, row.attempts + 1, now + request.timeout
            row.leased_at, row.leased_by, row.most = now, request.leased_by, request.max_attempts
            self.tables.rows[row.key] = row
            if self.journalled:
                self.journal(Note("leased", row, row.attempts, row.leased_by))
        return [self.message(row) for row in line[: request.limit]]


class DictStore(EngineStore):
    """What the state machine calls of the port."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        super().__init__(namespace="default")
        self.ids = Mint(new_secret())
        self._clock = clock
        self._tables = Tables()
        self._journalled = False

    url = "dicts"

    def now(self) -> float:
        return self._clock()

    def _look_up_queue(self, name: str) -> int | None:
        return self._tables.queues.get(name)

    def _write(self, work: Callable[[Unit], T], queues: Sequence[str] = ()) -> T:
        """All or nothing: work that fails was done on a copy."""
        tables = copy.deepcopy(self._tables)
        unit = Unit(DictRows(tables, self.ids, self._clock(), journalled=self._journalled), self._clock())
        result = work(unit)
        unit.finish()
        self._tables = tables
        return result

    def _rows(self) -> DictRows:
        return DictRows(self._tables, self.ids, self._clock())

    def commit(self, changes: Changes) -> Committed:
        return self._write(lambda unit: apply(unit, changes))

    def put_one(self, queue: str, payload: str, codec: str | None) -> tuple[str, float]:
        (new_id,) = self.mint()
        done = self.commit(Changes(enqueue=[NewMessage(new_id, queue, payload, codec)])).enqueued[0]
        return done.id or new_id, done.at

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        return self._settle_one(Settle(queue, message_id, "ack", token))

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        return self._write(lambda unit: lease(unit, request, settle_all=True)) or []

    def get(self, queue: str, message_id: str) -> StoredMessage | None:
        row = self._tables.rows.get(self.ids.key_of(message_id) or 0)
        return None if row is None or row.queue != self._tables.queues.get(queue) else self._rows().message(row)

    def _scan(
        self, queue: str, state: str | None, after: str | None, last: int | None, limit: int | None
    ) -> list[StoredMessage]:
        number, rows = self._tables.queues.get(queue), self._rows()
        wanted = None if state is None else CODE[state]
        order = ("ended_at",) if wanted is not None and wanted >= DEAD else ()
        found = rows.where(lambda row: row.queue == number and wanted in (None, row.state), *order)
        return [rows.message(row) for row in found]

    def _run_messages(self, run_id: str, after: str | None, limit: int | None) -> list[StoredMessage]:
        raise NotImplementedError("nobody lists runs here")

    def _splits(self, queue: str, parts: int) -> list[str]:
        raise NotImplementedError("nobody reads in parts here")

    def stats(self, queue: str) -> QueueStats:
        number, rows = self._tables.queues.get(queue, 0), self._rows()
        mine = [row for row in self._tables.rows.values() if row.queue == number]
        counts = Counter(STATES[rows.shown(row, self._clock())] for row in mine)
        return QueueStats(
            **{state: counts[state] for state in STATES},
            total=len(mine),
            dropped=self._tables.dropped[number],
            paused=(number, None) in self._tables.paused,
            paused_workers=tuple(sorted(who for at, who in self._tables.paused if at == number and who is not None)),
        )

    def qsize(self, queue: str) -> int:
        return self.stats(queue).ready

    def load(self, queue: str) -> int:
        return self.stats(queue).ready + self.stats(queue).blocked

    def upstream(self, queue: str, message_id: str) -> list[str]:
        found = self._rows().upstreams([self.ids.key_of(message_id) or 0])
        return sorted(self.ids.id_of(upstream) for upstream, _ in found)

    def run(self, run_id: str) -> RunStats | None:
        if run_id not in self._tables.totals:
            return None
        states = Counter(STATES[row.state] for row in self._tables.rows.values() if row.run == run_id)
        return RunStats(run_id=run_id, total=self._tables.totals[run_id], done=self._tables.done[run_id], **states)

    def _prunable(self, queue: int, state: int, until: float) -> int:
        return len(self._rows().ended(queue, state, until, (0.0, 0), sys.maxsize))

    def paused(self, queue: str, *, worker: str | None = None) -> bool:
        return (self._tables.queues.get(queue), worker) in self._tables.paused

    def _set_journal(self, enabled: bool, keep_seconds: float | None, keep_events: int | None) -> None:
        self._journalled = enabled

    def _events(self, after: int, limit: int | None, queue: int | None) -> list[JournalEvent]:
        return self._tables.journal[after:]

    def journal_span(self) -> tuple[int, int]:
        return 1, len(self._tables.journal)

    def check(self) -> CheckReport:
        """Each ordering key has one message in delivery and nobody waits behind a key without one."""
        heads: Counter[Any] = Counter()
        for row in self._tables.rows.values():
            if row.holds_key:
                heads[row.queue, row.ordering_key] += 1
        blocked = {(row.queue, row.ordering_key) for row in self._tables.rows.values() if row.state == BLOCKED}
        wrong = [key for key, count in heads.items() if count > 1] + [key for key in blocked if not heads[key]]
        waits = Counter(dependent for _, dependent in self._tables.edges)
        wrong += [row.key for row in self._tables.rows.values() if row.waiting_on != waits[row.key]]
        return CheckReport(tuple(map(str, wrong)))

    def close(self) -> None: ...
