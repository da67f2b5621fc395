"""The rows of a file: what the engine is given of them, and how what it decided is written down."""

from __future__ import annotations

import functools
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from localqueue.errors import IdTaken
from localqueue.events.journal import JOURNAL_CODES
from localqueue.ids import Mint
from localqueue.stores import rules
from localqueue.stores.engine.port import Batch, Found, Insert, KeyTaken, Run, Wanted, Writes
from localqueue.stores.engine.row import INFLIGHT, READY, Row, to_json
from localqueue.stores.port import (
    HISTORY_LIMIT,
    STATES,
    Lease,
    LeaseRequest,
    Payload,
    RecordWrite,
    StoredMessage,
)
from localqueue.stores.sqlite import reads
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.errors import is_taken
from localqueue.stores.sqlite.inserts import insert, insert_batch, insert_plain
from localqueue.stores.sqlite.reads import claimed_message, claimed_messages, stored_message
from localqueue.stores.sqlite.records import with_record, write_records

if TYPE_CHECKING:
    from localqueue.stores.sqlite.store import SQLiteQueueStore

Execute = Callable[..., sqlite3.Cursor]

_KEPT = tuple(code for code, name in enumerate(STATES) if name not in ("ready", "inflight"))  # have a column in queues
_SIZES = (1, 8, 64, 500)  # of lists in a statement, so that there are few different ones


@functools.cache
def _heads(count: int) -> str:
    """That they are there is all that matters, which an index knows."""
    keys = ", ".join("?" * count)
    return (
        f"SELECT key, state, ordering_key FROM lq_messages WHERE queue = ? AND ordering_key IN ({keys}) AND state <= 1"
    )


@functools.cache
def _rows_where(condition: str, count: int) -> str:
    return f"{sql.ROWS} WHERE {condition.replace('...', ', '.join('?' * count))}"


def _lists(values: Iterable[Any]) -> Iterable[list[Any]]:
    """The values in lists of a few sizes, filled up with NULL."""
    rest = list(values)
    for start in range(0, len(rest), _SIZES[-1]):
        part = rest[start : start + _SIZES[-1]]
        size = next(size for size in _SIZES if size >= len(part))
        yield part + [None] * (size - len(part))


def row_of(found: tuple[Any, ...]) -> Row:
    """A row of `rows.sql`."""
    (key, queue, state, priority, created_at, available_at, attempts, expires_at, ended_at, forgiven, waiting_on,
     dependents, history, run, ordering_key, dedupe_key, last_error, failed_at, token, until, since, by,
     most) = found  # fmt: skip
    if token is not None:
        state, attempts = INFLIGHT, token
    return Row(
        key, queue, state, priority, created_at, available_at, attempts, expires_at, ended_at, until, since, by, most,
        forgiven, waiting_on, dependents, history, run, ordering_key, dedupe_key, last_error, failed_at,
    )  # fmt: skip


def attempt_values(key: int, past: StoredMessage) -> list[tuple[Any, ...]]:
    """The attempts a message had elsewhere, for `insert_attempt.sql`."""
    return [(key, n, *one[:5], to_json(one.error)) for n, one in enumerate(rules.attempts_of(past.history), 1)]


class SQLiteRows:
    """The engine's `Rows` inside a write transaction of a connection."""

    journalled = False  # triggers write the journal
    guards_dedupe_keys = True  # by an index
    writes_graphs = True

    def __init__(self, store: SQLiteQueueStore, connection: sqlite3.Connection) -> None:
        self.store = store
        self.connection = connection
        self.execute: Execute = connection.execute
        self.new_queues: dict[str, int] = {}
        self.ends: dict[int, tuple[int, float]] = {}

    @property
    def ids(self) -> Mint:
        return self.store.ids

    # queues

    def queue(self, name: str) -> int:
        known = self.store.queue_ids.get(name) or self.new_queues.get(name)
        if known is None:
            known = int(self.execute(sql.MAKE_QUEUE, (self.store.namespace_id, name)).fetchall()[0][0])
            self.execute(sql.MAKE_LINE, (known,))
            self.new_queues[name] = known
        return known

    def find_queue(self, name: str) -> int | None:
        known = self.store.queue_ids.get(name) or self.new_queues.get(name)
        return known or reads.find_queue(self.connection, self.store.namespace_id, name)

    def queue_name(self, queue: int) -> str:
        return str(self.execute("SELECT name FROM lq_queues WHERE id = ?", (queue,)).fetchone()[0])

    def subscription_version(self, topic: int) -> int:
        return int(self.execute("SELECT subscriptions FROM lq_queues WHERE id = ?", (topic,)).fetchone()[0])

    def end(self, queue: int) -> tuple[int, float]:
        """The newest key of a queue, and the position that nobody in its line is behind."""
        end = self.ends.get(queue)
        if end is None:
            end = self.ends[queue] = self.execute(sql.END_OF_LINE, (queue,)).fetchone()
            if type(end[0]) is not int:  # ids are minted above it
                raise TypeError(f"{end[0]!r} is no key")
        return end

    def newest(self, queues: Iterable[int]) -> int:
        return max((self.end(queue)[0] for queue in queues), default=0)

    # rows in

    def _rows(self, statement: str, values: Sequence[Any]) -> list[Row]:
        return [row_of(found) for found in self.execute(statement, values).fetchall()]

    def _rows_of(self, condition: str, values: Iterable[Any], *first: Any) -> list[Row]:
        """Rows by a list of values, which stands for the dots of the condition."""
        found: list[Row] = []
        for part in _lists(values):
            found += self._rows(_rows_where(condition, len(part)), (*first, *part))
        return found

    def fetch(self, wanted: Wanted) -> Found:
        edges: list[tuple[int, int]] = []
        for upstream in wanted.dependents:
            edges += self.execute("SELECT upstream, dependent FROM lq_dependencies WHERE upstream = ?", (upstream,))
        keys = wanted.keys.union(dependent for _, dependent in edges)
        rows = self._rows_of("m.key IN (...)", keys)
        for queue, names in _by_queue(wanted.holders).items():
            rows += self._rows_of("m.ended_at IS NULL AND m.queue = ? AND m.dedupe_key IN (...)", names, queue)
        seen: list[Row] = []
        for queue, names in _by_queue(wanted.heads).items():
            for part in _lists(names):
                heads = self.execute(_heads(len(part)), (queue, *part)).fetchall()
                seen += [Row(key, queue, state, 0, 0.0, 0.0, ordering_key=name) for key, state, name in heads]
        for (queue, ordering_key), behind in wanted.behind.items():
            rows += self._rows(sql.ROWS + sql.NEXT_OF_KEY, (queue, ordering_key, behind))
        return Found(rows, edges, seen)

    def due(self, queue: int, now: float, limit: int) -> list[Row]:
        (until,) = self.execute("SELECT until FROM lq_line WHERE queue = ? AND part = 0", (queue,)).fetchone()
        if until > now:
            return []
        rows = self._rows(sql.ROWS + sql.EXPIRED_LEASES, (queue, now, limit))
        rows += self._rows(sql.ROWS + sql.DUE_ROWS, (queue, now, limit))
        if not rows:
            self.timers_settled(queue)
        return sorted(rows, key=lambda row: (row.due_at or 0.0, row.key))[:limit]

    def timers_settled(self, queue: int) -> None:
        until = self.execute(sql.NEXT_DUE, (queue,)).fetchone()[0]
        self.execute("UPDATE lq_line SET until = ? WHERE queue = ? AND part = 0", (until, queue))

    def oldest(self, queue: int, limit: int) -> list[Row]:
        keys = [key for key, _ in self.execute(sql.OLDEST_READY, (queue, limit)).fetchall()]
        rows = {row.key: row for row in self._rows_of("m.key IN (...)", keys)}
        return [rows[key] for key in keys]

    def oldest_blocked(self, queue: int) -> Row | None:
        where = " WHERE m.queue = ? AND m.ordering_key IS NOT NULL AND m.state = 4 ORDER BY m.key LIMIT 1"
        return next(iter(self._rows(sql.ROWS + where, (queue,))), None)

    def load(self, queue: int, now: float, up_to: int) -> int:
        return reads.load(self.connection, queue, now)

    def upstreams(self, dependents: Iterable[int]) -> list[tuple[int, int]]:
        find = "SELECT upstream, dependent FROM lq_dependencies WHERE dependent = ?"
        return [edge for key in dependents for edge in self.execute(find, (key,)).fetchall()]

    def removed(self, keys: Iterable[int]) -> set[int]:
        find = "SELECT key FROM lq_removed WHERE key = ?"
        return {key for key in keys if self.execute(find, (key,)).fetchone()}

    def stored(self, keys: Iterable[int]) -> dict[int, StoredMessage]:
        return {key: self.message(key) for key in keys}

    def message(self, key: int) -> StoredMessage:
        found = self.execute(f"{sql.FULL_ROW} WHERE m.key = ?", (key,)).fetchone()
        return stored_message(self.ids, self.connection, found)

    def ended(self, queue: int, state: int, until: float, behind: tuple[float, int], limit: int) -> list[Row]:
        """Those of the same moment apart: the index finds either, and would pass all of a moment for both together."""
        at, key = behind
        find = f"{sql.ROWS} WHERE m.queue = ? AND m.state = ? AND "
        rows = self._rows(f"{find} m.ended_at = ? AND m.key > ? ORDER BY m.key LIMIT ?", (queue, state, at, key, limit))
        later = f"{find} m.ended_at > ? AND m.ended_at <= ? ORDER BY m.ended_at, m.key LIMIT ?"
        return rows + self._rows(later, (queue, state, at, until, limit - len(rows)))

    def last_ended(self, queue: int, state: int) -> float:
        last = "SELECT max(ended_at) FROM lq_messages WHERE queue = ? AND state = ? AND ended_at IS NOT NULL"
        return float(self.execute(last, (queue, state)).fetchone()[0] or 0.0)

    def of_queue(self, queue: int, behind: int, limit: int) -> list[Row]:
        keys = [key for (key,) in self.execute(sql.OF_QUEUE, (queue, limit)).fetchall()]
        return sorted(self._rows_of("m.key IN (...)", keys), key=lambda row: row.key)

    def runs(self, names: Iterable[str]) -> dict[str, Run]:
        found, now = {}, self.store.now()
        for name in names:
            run, cancelled_at = self.execute(sql.ENTER_RUN, (self.store.namespace_id, name, now)).fetchall()[0]
            found[name] = Run(run, cancelled_at is not None)
        self.execute(sql.FORGET_RUNS, (self.store.namespace_id, now - rules.KNOWN, 2 + 2 * len(found)))
        return found

    def cancel(self, name: str, now: float, before: int, limit: int) -> list[Row]:
        run = self.execute(sql.CANCEL_RUN, (now, self.store.namespace_id, name)).fetchall()
        live = f"{sql.ROWS} WHERE m.run = ? AND m.state < 5 AND m.key < ? ORDER BY m.key DESC LIMIT ?"
        return self._rows(live, (*run[0], before, limit)) if run else []

    # rows out

    def write(self, writes: Writes, now: float) -> None:
        counts = Counts(self)
        many = self.connection.executemany
        with _new_ids():
            for one in writes.inserts:
                self._insert(one, counts, now)
        if writes.edges:
            many("INSERT INTO lq_dependencies (upstream, dependent) VALUES (?, ?)", writes.edges)
        for row, n, attempt in writes.attempts:
            self.execute(sql.INSERT_ATTEMPT, (row.key, n, *attempt[:5], to_json(attempt.error)))
            if n > HISTORY_LIMIT:
                self.execute("DELETE FROM lq_attempts WHERE message = ? AND n = ?", (row.key, n - HISTORY_LIMIT))
        for row in writes.updates.values():
            self._update(row, counts)
        if writes.removed:
            many(
                "INSERT OR IGNORE INTO lq_removed VALUES (?, ?)",
                [(key, JOURNAL_CODES[why]) for key, why in writes.removed.items()],
            )
        for row in writes.deletes.values():
            self.execute("DELETE FROM lq_messages WHERE key = ?", (row.key,))
            self._leave(row, counts)
            if row.history:
                self.execute("DELETE FROM lq_attempts WHERE message = ?", (row.key,))
        if writes.removed:  # not before: the journal looks here for why a message went
            self.execute(sql.FORGET_REMOVED, (writes.remembered_from, 2 * len(writes.removed)))
        if writes.freed:
            many("DELETE FROM lq_dependencies WHERE upstream = ?", [(key,) for key in writes.freed])
        if writes.forgotten:
            many("DELETE FROM lq_dependencies WHERE dependent = ?", [(key,) for key in writes.forgotten])
        for run, change in writes.runs.items():
            self.execute(sql.COUNT_RUN, (change.total, change.done, now, run))
        for queue, dropped in writes.dropped.items():
            self.execute("UPDATE lq_queues SET dropped = dropped + ? WHERE id = ?", (dropped, queue))
        counts.write()

    def write_batch(self, batch: Batch) -> None:
        counts = Counts(self)
        self.execute("SAVEPOINT batch")
        try:
            insert_batch(self.execute, batch, counts)
        except sqlite3.IntegrityError as error:
            self.execute("ROLLBACK TO batch")
            self.execute("RELEASE batch")
            raise KeyTaken from error
        self.execute("RELEASE batch")
        counts.write()

    def write_plain(self, queue: int, keys: range, payloads: Sequence[Payload], codec: str | None, now: float) -> None:
        """Insert messages of one queue that have no options."""
        if not keys:
            return
        counts = Counts(self)
        with _new_ids():
            insert_plain(self.execute, now, queue, payloads, codec, keys, counts)
        counts.write()

    def _insert(self, one: Insert, counts: Counts, now: float) -> None:
        """A message with a past comes after its attempts, so that the journal does not take them for new, and is dated
        by itself: the journal's last entries are about it."""
        past = one.message.past
        if past is not None:
            self.connection.executemany(sql.INSERT_ATTEMPT, attempt_values(one.row.key, past))
        insert(self.execute, one, counts)
        if past is not None:
            self._date_entries(one, now)

    def _date_entries(self, one: Insert, now: float) -> None:
        row, message = one
        options = rules.kept_options(
            priority=row.priority,
            dedupe_key=row.dedupe_key,
            ordering_key=row.ordering_key,
            run_id=message.run_id,
            headers=message.headers,
            delay=row.available_at - now,
            ttl=None if row.expires_at is None else row.expires_at - now,
        )
        self.execute(sql.DATE_ENTRIES, (now, row.key, self.store.namespace_id, to_json(options)))

    def _update(self, row: Row, counts: Counts) -> None:
        if row.state == INFLIGHT:
            self.execute(sql.MARK_MESSAGE, (row.key, row.waiting_on, row.dependents))
            return
        before, due = row.before, row.due_at
        assert before is not None
        moved = (before.state, before.available_at, before.expires_at) != (row.state, row.available_at, row.expires_at)
        if moved:
            self._leave(row, counts)
        self.execute(
            sql.MOVE_MESSAGE,
            (
                row.key, row.state, row.attempts, row.available_at, due, row.ended_at, row.expires_at, row.last_error,
                row.failed_at, row.forgiven, row.history, row.waiting_on, row.dependents,
            ),
        )  # fmt: skip
        if moved:
            if row.state == READY:
                place = (row.queue, -row.priority, row.available_at, row.key, row.attempts, row.expires_at)
                self.execute(sql.ENTER_LINE, place)
            counts.add(row.queue, row.state, 1)
            if due is not None:
                counts.due(row.queue, due)

    def _leave(self, row: Row, counts: Counts) -> None:
        """Take a message from where the store has it. A lease of a deleted message goes with it, by a trigger."""
        before = row.before
        assert before is not None
        if before.state == INFLIGHT:
            end = "DELETE FROM lq_line WHERE queue = ? AND part = 1 AND rank = 0 AND position = 0 AND key = ?"
            self.execute(end, (row.queue, row.key))
        elif before.state == READY:
            place = (row.queue, -row.priority, before.available_at, row.key)
            if not self.execute(sql.LEAVE_LINE, place).rowcount:
                self.execute(sql.LEAVE_LINE_BEHIND, place)
        counts.add(row.queue, before.state, -1)

    def write_records(self, writes: Sequence[RecordWrite], now: float) -> list[int]:
        return write_records(self.store, self.execute, now, writes)

    # claiming

    def paused(self, queue: int, worker: str | None) -> bool:
        since, pauses = self.execute(
            "SELECT since, most FROM lq_line WHERE queue = ? AND part = 0", (queue,)
        ).fetchone()
        return since is not None or (pauses is not None and reads.is_paused(self.connection, queue, worker))

    def claimable(self, queue: int, now: float) -> bool:
        ready = "SELECT 1 FROM lq_line WHERE queue = ? AND part = 2 LIMIT 1"
        overdue = "SELECT 1 FROM lq_messages WHERE queue = ? AND due_at <= ? AND state = 0 LIMIT 1"
        if self.execute(ready, (queue,)).fetchone() is None:
            return False
        return self.execute(overdue, (queue, now)).fetchone() is None

    def claim(self, queue: int, request: LeaseRequest, now: float) -> list[StoredMessage]:
        rows = self.execute(sql.NEXT_IN_LINE, (queue, request.limit)).fetchall()
        if not rows:
            return []
        until, last = now + request.timeout, rows[-1][:3]
        leases = (until, now, request.leased_by, request.max_attempts, queue, *last)
        self.execute(sql.LEASE_UP_TO, leases)
        self.execute(sql.LEAVE_LINE_UP_TO, (queue, *last))
        counts = Counts(self)
        counts.add(queue, READY, -len(rows))
        counts.due(queue, until)
        counts.write()
        mortal = [(row[2],) for row in rows if row[12] is not None]
        if mortal:  # whether they have expired is decided when the lease ends
            self.connection.executemany("UPDATE lq_messages SET due_at = NULL WHERE key = ?", mortal)
        if request.leased_by is not None and request.counted:
            name = request.leased_by
            if self.execute(sql.COUNT_LEASES, (queue, name, len(rows))).fetchall() == [(len(rows),)]:  # a new one
                self.execute(sql.FORGET_NAMES, (queue, name, rules.NAMES))
        if request.ledger is None and not any(row[16] for row in rows):
            return claimed_messages(self.ids, request.queue, rows, now, until, request.leased_by)
        messages = []
        for row in rows:
            key, token = row[2], row[3] + 1
            message = claimed_message(self.ids, request.queue, key, token, row[4:], now, until, request.leased_by)
            messages.append(with_record(self.store, self.execute, request, message or self.message(key)))
        return messages

    def renew(self, lease: Lease, until: float) -> float | None:
        queue, key = self.find_queue(lease.queue), self.ids.key_of(lease.id)
        if not self.execute(sql.RENEW_LEASE, (until, queue, key, lease.token)).rowcount or queue is None:
            return None
        counts = Counts(self)
        counts.due(queue, until)
        counts.write()
        return until

    # operations

    def subscribe(self, topic: int, subscriber: str, wanted: bool) -> bool:
        remove = "DELETE FROM lq_subscriptions WHERE topic = ? AND subscriber = ?"
        changed = self.execute(sql.ADD_SUBSCRIPTION if wanted else remove, (topic, subscriber)).rowcount
        if changed:
            self.execute("UPDATE lq_queues SET subscriptions = subscriptions + 1 WHERE id = ?", (topic,))
        return bool(changed)

    def pause(self, queue: int, worker: str | None, at: float | None) -> None:
        """Pause the queue, or one worker on it; without a time, resume it."""
        if worker is None:
            self.execute("UPDATE lq_line SET since = ? WHERE queue = ? AND part = 0", (at, queue))
            return
        self.execute(sql.PAUSE_WORKER, (queue, worker, at))
        # Tells claims to look at the worker, and those who wait in other processes that something changed.
        self.execute("UPDATE lq_line SET most = coalesce(most, 0) + 1 WHERE queue = ? AND part = 0", (queue,))

    def clear(self, queue: int) -> None:
        """Let a queue whose messages are all gone be as if it had never had one."""
        self.execute("DELETE FROM lq_workers WHERE queue = ? AND paused_at IS NULL", (queue,))
        self.execute("UPDATE lq_workers SET leases = 0, last_seen = NULL WHERE queue = ?", (queue,))
        self.execute("DELETE FROM lq_line WHERE queue = ? AND part IN (1, 2)", (queue,))
        self.execute(sql.PURGE_LINE, (queue,))
        self.execute(sql.PURGE_COUNTS, (queue,))


class Counts:
    """The counts of queues that a write changes, and their next timers."""

    __slots__ = ("_arrivals", "_departures", "_due", "_ended", "_rows", "_states")

    def __init__(self, rows: SQLiteRows) -> None:
        self._rows = rows
        self._ended: set[int] = set()  # queues whose line ends elsewhere than before
        self._arrivals: dict[int, int] = {}
        self._departures: dict[int, int] = {}
        self._states: dict[int, list[int]] = {}
        self._due: dict[int, float] = {}

    def add(self, queue: int, state: int, by: int) -> None:
        """A state has a column of its own, or the arrivals and departures that make up the ready count."""
        if state == READY:
            side = self._arrivals if by > 0 else self._departures
            side[queue] = side.get(queue, 0) + abs(by)
        elif state != INFLIGHT:
            self._states.setdefault(queue, [0] * len(STATES))[state] += by

    def due(self, queue: int, at: float) -> None:
        if at < self._due.get(queue, rules.NEVER):
            self._due[queue] = at

    def newest(self, queue: int, key: int) -> None:
        """A message with this key comes."""
        newest, position = self._rows.end(queue)
        if key > newest:
            self._rows.ends[queue] = (key, position)
        self._ended.add(queue)

    def position(self, queue: int, at: float) -> float:
        """Where a message that is ready at once enters the line: behind all that are there, whatever the clock says."""
        newest, position = self._rows.end(queue)
        if at <= position:
            return position
        self._rows.ends[queue] = (newest, at)
        self._ended.add(queue)
        return at

    def write(self) -> None:
        execute = self._rows.execute
        for queue in self._arrivals.keys() | self._ended:
            execute(sql.COUNT_ARRIVALS, (queue, self._arrivals.get(queue, 0), *self._rows.end(queue)))
        for queue in self._departures.keys() | self._due.keys():
            due = self._due.get(queue, rules.NEVER)
            execute(sql.COUNT_DEPARTURES, (self._departures.get(queue, 0), due, queue))
        for queue, counts in self._states.items():
            execute(sql.COUNT_STATES, (*(counts[state] for state in _KEPT), queue))


@contextmanager
def _new_ids() -> Iterator[None]:
    try:
        yield
    except sqlite3.IntegrityError as error:
        if not is_taken(error):
            raise
        raise IdTaken("a message id of this commit is in use") from error


def _by_queue(keys: Iterable[tuple[int, str]]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for queue, name in keys:
        found[queue].append(name)
    return found
