"""One piece of work inside a transaction of several statements: moving messages between states.

Such a transaction holds the lock of every queue it decides about, so two of them never decide about the same queue at
the same time. The everyday puts, claims and acks do not take it: they are single statements on single rows, and meet a
transaction only at the row, which it locks before it reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from localqueue.errors import RunCancelled
from localqueue.events.journal import JOURNAL_CODES
from localqueue.stores import rules
from localqueue.stores.port import HISTORY_LIMIT, STATES, Transition
from localqueue.stores.postgres.rows import from_json, raw, text_or_none
from localqueue.stores.postgres.tokens import queue_token, run_token

if TYPE_CHECKING:
    from localqueue.stores.postgres.store import PostgresQueueStore

CODE = {name: code for code, name in enumerate(STATES)}
READY, DELAYED, INFLIGHT, WAITING, BLOCKED, DEAD, EXPIRED, CANCELLED = range(len(STATES))

_AS_IT_IS: Any = object()

#: The event of a message that enters one of the states behind `dead`.
ENDINGS = {DEAD: "dead_lettered", EXPIRED: "expired", CANCELLED: "cancelled"}


class LockNeeded(Exception):
    """Another transaction holds the lock of a queue that this one did not know it would need. To wait for it now could
    be a deadlock, so everything is undone and begun again with that lock among the first."""

    def __init__(self, queue: int) -> None:
        super().__init__(queue)
        self.queue = queue


class Current(NamedTuple):
    """A message as `current_row.sql` reads and locks it."""

    key: int
    queue: int
    state: int
    priority: int
    attempts: int
    available_at: float
    expires_at: float | None
    forgiven: int
    history: int
    dependents: bool
    waiting_on: int
    run: int | None
    ordering_key: bytes | None
    dedupe_key: bytes | None
    last_error: str | None
    leased_until: float | None
    leased_at: float | None
    leased_by: bytes | None
    most: int | None

    @property
    def token(self) -> int | None:
        return self.attempts if self.state == INFLIGHT else None

    @property
    def holds_key(self) -> bool:
        """Whether this is the message its ordering key's others wait behind."""
        return self.ordering_key is not None and self.state in (READY, DELAYED, INFLIGHT)


class Tx:
    def __init__(
        self, store: PostgresQueueStore, connection: Any, now: float, held: set[int], *, observed: bool = False
    ) -> None:
        self.store = store
        self.sql = store.sql
        self.connection = connection
        self.now = now
        self.held = held
        self.new_queues: dict[str, int] = {}
        self.touched: set[str] = set()
        self.observed = observed
        self.transitions: list[Transition] = []
        self._names: dict[int, str] = {}

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        return self.connection.execute(statement, parameters, binary=True)

    def run_sql(self, text: str, parameters: Sequence[Any] = ()) -> Any:
        """Like `execute`, for a statement that is written out in the code."""
        return self.connection.execute(self.sql.here(text), parameters, binary=True)

    # queues

    def queue_id(self, name: str) -> int:
        """The row of a queue, made on first use and locked."""
        self.touched.add(queue_token(name))
        known = self.find_or_make_queue(name)
        self._names[known] = name
        self.hold(known)
        return known

    def find_or_make_queue(self, name: str) -> int:
        """The row of a queue, made on first use."""
        known = self.store.queue_ids.get(name) or self.new_queues.get(name)
        return known or self._make_queue(name)

    def _make_queue(self, name: str) -> int:
        values = (self.store.namespace_id, raw(name))
        find = "SELECT id FROM localqueue.lq_queues WHERE namespace = $1 AND sha256(name) = sha256($2::bytea)"
        row = self.run_sql(find, values).fetchone()
        while row is None:
            row = (
                self.run_sql(
                    "INSERT INTO localqueue.lq_queues (namespace, name) VALUES ($1, $2) "
                    "ON CONFLICT (namespace, sha256(name)) DO NOTHING RETURNING id",
                    values,
                ).fetchone()
                or self.run_sql(find, values).fetchone()
            )
        self.new_queues[name] = int(row[0])
        return int(row[0])

    def hold(self, queue: int) -> None:
        """Make sure that no other transaction decides about this queue until we commit."""
        if queue in self.held:
            return
        (got,) = self.execute("SELECT pg_try_advisory_xact_lock(1819373157, $1::int)", (queue,)).fetchone()
        if not got:
            raise LockNeeded(queue)
        self.held.add(queue)

    def queue_name(self, queue: int) -> str:
        name = self._names.get(queue)
        if name is None:
            (found,) = self.run_sql("SELECT name FROM localqueue.lq_queues WHERE id = $1", (queue,)).fetchone()
            name = self._names[queue] = found.decode()
        return name

    def touch(self, queue: int) -> None:
        """Wake those who wait for something in this queue."""
        self.touched.add(queue_token(self.queue_name(queue)))

    # messages

    def current(self, key: int) -> Current | None:
        """A message, locked, together with its queue."""
        row = self.execute(self.sql.CURRENT_ROW, (key,)).fetchone()
        if row is None:
            return None
        message = Current(*row)
        self.hold(message.queue)
        return message

    def move(
        self,
        message: Current,
        state: int,
        *,
        available_at: float | None = None,
        expires_at: float | None = _AS_IT_IS,
        error: str | None = None,
    ) -> None:
        """Put a message into another state than inflight, ending its lease. The times default to those it has."""
        if self.observed and state >= DEAD > message.state:
            self._note_end(ENDINGS[state], message, error)
        if available_at is None:
            available_at = message.available_at
        if expires_at is _AS_IT_IS:
            expires_at = message.expires_at
        due = rules.due_at(STATES[state], available_at=available_at, expires_at=expires_at)
        ended_at = self.now if state >= DEAD else None
        failed_at = None if error is None else self.now
        values = (message.key, state, available_at, due, ended_at, expires_at, error, failed_at)
        self.execute(self.sql.MOVE_MESSAGE, values)
        self.touch(message.queue)
        self.touch_run(message.run)
        if state >= DEAD and message.holds_key:
            self.free_key(message.queue, message.ordering_key)

    def delete(self, message: Current) -> None:
        """Remove a message with all that belongs to it, but not the messages that wait for it."""
        self.run_sql("DELETE FROM localqueue.lq_messages WHERE key = $1", (message.key,))
        if message.history:
            self.run_sql("DELETE FROM localqueue.lq_attempts WHERE message = $1", (message.key,))
        if message.waiting_on:
            self.run_sql("DELETE FROM localqueue.lq_dependencies WHERE dependent = $1", (message.key,))
        self.touch(message.queue)
        self.touch_run(message.run)
        if message.holds_key:
            self.free_key(message.queue, message.ordering_key)

    def note(self, event: str, message: Current, error: str | None = None) -> None:
        """Tell the caller, if it wants to know, of a change that it will not find in the result of its call."""
        if self.observed:
            self.transitions.append(
                Transition(
                    event, self.queue_name(message.queue), self.store.ids.id_of(message.key), self.now,
                    message.attempts, text_or_none(message.leased_by), message.leased_at, from_json(error),
                )
            )  # fmt: skip

    def _note_end(self, event: str, message: Current, error: str | None) -> None:
        """Note that a message left delivery, unless its history has just said so."""
        last = self.transitions[-1] if self.transitions else None
        if last is None or last.type != event or last.id != self.store.ids.id_of(message.key):
            self.note(event, message._replace(leased_by=None, leased_at=None), error)

    def mark_removed(self, keys: Sequence[int], why: str) -> None:
        """Remember of messages that are about to be deleted that they were not acked."""
        self.run_sql(
            "INSERT INTO localqueue.lq_removed (key, namespace, why) "
            "SELECT key, $2::int, $3::smallint FROM unnest($1::bigint[]) AS key ON CONFLICT DO NOTHING",
            (list(keys), self.store.namespace_id, JOURNAL_CODES[why]),
        )
        if self.observed:
            for message in filter(None, map(self.current, keys)):
                self.note(why, message)

    def remember(self, message: Current, event: str, error: str | None = None) -> None:
        """Add to a message's history, forgetting what is older than the last attempts."""
        self.note(event, message, error)
        (n,) = self.run_sql(
            "WITH grown AS (UPDATE localqueue.lq_messages SET history = history + 1 WHERE key = $1 RETURNING history) "
            "INSERT INTO localqueue.lq_attempts (message, n, attempt, event, at, leased_at, leased_by, error) "
            "SELECT $1, history, $2::int, $3::text, $4::float8, $5::float8, $6::bytea, $7::text FROM grown RETURNING n",
            (message.key, message.attempts, event, self.now, message.leased_at, message.leased_by, error),
        ).fetchone()
        if n > HISTORY_LIMIT:
            old = "DELETE FROM localqueue.lq_attempts WHERE message = $1 AND n <= $2"
            self.run_sql(old, (message.key, n - HISTORY_LIMIT))

    # ordering keys

    def free_key(self, queue: int, ordering_key: bytes | None) -> None:
        """The head of an ordering key left: the next message of the key takes its place."""
        row = self.run_sql(
            "SELECT key FROM localqueue.lq_messages WHERE queue = $1 AND sha256(ordering_key) = sha256($2::bytea) "
            "AND ordering_key IS NOT NULL AND ended_at IS NULL AND state = 4 ORDER BY key LIMIT 1",
            (queue, ordering_key),
        ).fetchone()
        message = None if row is None else self.current(row[0])
        if message is None:
            return
        landed = CODE[rules.landing(now=self.now, available_at=message.available_at, expires_at=message.expires_at)]
        if landed == EXPIRED:
            self.remember(message, "expired")
        self.move(message, landed)
        if landed == EXPIRED:
            self.free_key(queue, ordering_key)

    def key_busy(self, queue: int, ordering_key: bytes | None) -> bool:
        """Whether a message of the key is ready, delayed or inflight."""
        if ordering_key is None:
            return False
        row = self.run_sql(
            "SELECT 1 FROM localqueue.lq_messages WHERE queue = $1 AND sha256(ordering_key) = sha256($2::bytea) "
            "AND ordering_key IS NOT NULL AND ended_at IS NULL AND state <= 2 LIMIT 1",
            (queue, ordering_key),
        ).fetchone()
        return row is not None

    def land(self, message: Current, available_at: float, expires_at: float | None, waiting_on: int = 0) -> None:
        """Return a message to delivery: ready, or whatever stands in its way."""
        landed = rules.landing(
            now=self.now,
            available_at=available_at,
            expires_at=expires_at,
            waiting_on=waiting_on,
            key_busy=not message.holds_key and self.key_busy(message.queue, message.ordering_key),
        )
        self.move(message, CODE[landed], available_at=available_at, expires_at=expires_at)

    # runs

    def run(self, run_id: str, *, even_cancelled: bool = False) -> int:
        """The row of a run that still takes messages, made on first use and locked."""
        self.touched.add(run_token(run_id))
        row = self.run_sql(
            "INSERT INTO localqueue.lq_runs AS r (namespace, name, total) VALUES ($1, $2, 1) "
            "ON CONFLICT (namespace, sha256(name)) DO UPDATE SET total = r.total + 1 RETURNING id, cancelled_at",
            (self.store.namespace_id, raw(run_id)),
        ).fetchone()
        if row[1] is not None and not even_cancelled:
            raise RunCancelled(f"run {run_id!r} was cancelled: it takes no more messages; use another run_id")
        return int(row[0])

    def touch_run(self, run: int | None) -> None:
        """Wake those who wait for the run."""
        if run is not None:
            (name,) = self.run_sql("SELECT name FROM localqueue.lq_runs WHERE id = $1", (run,)).fetchone()
            self.touched.add(run_token(name.decode()))

    def flush(self) -> None:
        """Have the commit tell everybody who waits for what was changed."""
        if self.touched:
            self.execute("SELECT pg_notify($1, $2)", (self.store.channel, said(self.touched)))

    def commit(self) -> None:
        """The same, and the commit, in one round trip. Neither a channel nor a token has anything of a user's text."""
        notify = f"SELECT pg_notify('{self.store.channel}', '{said(self.touched)}'); " if self.touched else ""
        self.connection.execute(f"{notify}COMMIT")


def said(tokens: set[str]) -> str:
    """What is told to other processes: what was changed, or nothing in particular when that would be long."""
    return ",".join(sorted(tokens)) if len(tokens) <= 100 else ""
