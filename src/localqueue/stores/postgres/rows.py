"""The rows of a database: what the engine is given of them, and how what it decided is written down.

One `PostgresRows` is one transaction. It holds the lock of every queue it decides about, so two of them never decide
about the same queue at the same time. The everyday puts, claims and acks do not take it: they are single statements on
single rows, and meet a transaction only at the row, which it locks before it reads it.

What is written is sent with the next question, or with the commit, in one round trip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from localqueue.events.journal import JOURNAL_CODES
from localqueue.ids import Mint
from localqueue.stores import refusals, rules
from localqueue.stores.engine.port import Batch, Found, Insert, Key, Run, Wanted, Writes
from localqueue.stores.engine.row import Row, to_json
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import HISTORY_LIMIT, LeaseRequest, Limit, Page, RecordWrite, StoredMessage
from localqueue.stores.postgres.inserts import COLUMNS, COPY_FROM, batch_columns, message_columns
from localqueue.stores.postgres.libpq import Packed, array, copied
from localqueue.stores.postgres.locks import Locks, page_locks, run_lock, topic_lock
from localqueue.stores.postgres.notify import Changed, queue_token, record_token, run_token
from localqueue.stores.postgres.reads import claimed_message, raw, raw_or_none, stored_message

if TYPE_CHECKING:
    from localqueue.stores.postgres.writer import Writer

# The types of the columns of statements that take many rows.
_UPDATES = (
    *("int8", "int2", "float8", "float8", "float8", "float8", "int4", "bool", "int4", "int4", "text", "float8"),
)
_ATTEMPTS = ("int8", "int4", "int4", "text", "float8", "float8", "bytea", "text")
_RECORDS = ("bytea", "bytea", "bytea", "int8", "int8")


class Anew(Exception):
    """Everything is to be undone and begun again, with the locks of these queues, and these locks, among the first.

    Another transaction holds one of them, and to wait for it now could be a deadlock; or something that was seen is
    gone.
    """

    def __init__(self, *queues: int, locks: Locks = ()) -> None:
        super().__init__(*queues)
        self.queues = queues
        self.locks = locks


def row_of(found: Sequence[Any]) -> Row:
    """A row of `row.sql`."""
    (key, queue, state, priority, created_at, available_at, attempts, expires_at, ended_at, until, since, by, most,
     forgiven, waiting_on, dependents, history, run, ordering_key, dedupe_key, last_error,
     failed_at) = found  # fmt: skip
    return Row(
        key, queue, state, priority, created_at, available_at, attempts, expires_at, ended_at, until, since,
        None if by is None else by.decode(), most, forgiven, waiting_on, int(dependents), history, run,
        None if ordering_key is None else ordering_key.decode(), None if dedupe_key is None else dedupe_key.decode(),
        last_error, failed_at,
    )  # fmt: skip


def claim_values(
    store: Writer, queue: int, request: LeaseRequest, *, alone: bool | None, now: float | None, consume: bool
) -> tuple[Any, ...]:
    """The parameters of `lq_claim`."""
    name = request.queue
    return (
        alone, now, queue, request.limit, float(request.timeout), raw_or_none(request.leased_by), request.max_attempts,
        consume, request.counted, store.namespace_id, raw_or_none(request.ledger),
        raw(name) if request.ledger is not None else b"", store.channel, queue_token(name),
    )  # fmt: skip


class PostgresRows:
    """The engine's `Rows` inside a transaction on a connection, which holds the locks of the queues `held`.

    None is for one that puts plain messages: nothing has to be decided about their queues.
    """

    journalled = False  # triggers write the journal
    writes_graphs = True

    def __init__(
        self, store: Writer, connection: Any, now: float, held: set[int] | None, *, guarded: bool = True
    ) -> None:
        self.guards_dedupe_keys = guarded  # by an index: a key that is taken ends the transaction
        self.store = store
        self.sql = store.sql
        self.new_queues: dict[str, int] = {}
        self.named: set[str] = set()  # tokens of the queues and runs that this transaction was asked for by name
        self._connection = connection
        self._now = now
        self._held = held
        self._runs: set[int] = set()  # the runs among them
        self.new_names: dict[int, str] = {}
        self._gone: set[int] = set()
        self._locked: set[int] = set()  # of what pages need
        self._above: dict[int, list[int]] = {}  # what messages wait for, as far as it was looked up
        self._unsent: list[tuple[str, Sequence[Any]]] = []

    @property
    def ids(self) -> Mint:
        return self.store.ids

    # talking to the server

    def ask(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """The cursor of a statement that sees everything written before it."""
        if not self._unsent:
            return self._connection.execute(statement, values, binary=True)
        with self._in_one_go():
            self._send()
            return self._connection.execute(statement, values, binary=True)

    def ask_for(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self.ask(statement, values).fetchall()
        return rows

    def tell(self, statement: str, *values: Any) -> None:
        """Have a statement sent before whatever is asked next."""
        self._unsent.append((statement, values))

    def run_script(self, script: str) -> None:
        """Several statements without parameters."""
        self._connection.execute(script)

    def copy(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Insert messages by COPY, given by columns."""
        if self._unsent:
            with self._in_one_go():
                self._send()
        names, pieces = copied([(name, COLUMNS[name], values) for name, values in columns.items()])
        statement = f"COPY localqueue.lq_messages ({names}) FROM STDIN (FORMAT binary)"
        with self._connection.cursor() as cursor, cursor.copy(self.sql.here(statement)) as copy:
            for piece in pieces:
                copy.write(piece)

    def _in_one_go(self) -> AbstractContextManager[Any]:
        pipeline: AbstractContextManager[Any] = self._connection.pipeline()
        return pipeline

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        for statement, values in unsent:
            self._connection.execute(statement, values, binary=True)

    def changed(self, unit: Unit) -> Changed:
        """What those are woken by who wait for what this transaction changed."""
        things = self.named | {queue_token(self.queue_name(queue)) for queue in unit.changed_queues}
        runs = unit.changed_runs - self._runs
        if runs:
            find = self.sql.here("SELECT name FROM localqueue.lq_runs WHERE id = ANY ($1::int[])")
            named = self.ask_for(find, (array("int4", list(runs)),))
            things.update(run_token(name.decode()) for (name,) in named)
        return Changed(things, {record_token(*name) for name in unit.changed_records})

    def finish(self, changed: Changed, *, commit: bool) -> None:
        """Send what is left, tell others of it when it is committed, and commit it. All commits of a namespace wait for
        the journal's numbers, and whoever gave up there would only come back."""
        notices = self.store.notices(changed)
        patiently = f"SET LOCAL lock_timeout = '{self.store._lock_timeouts[0]}'"
        if commit and not self._unsent:  # neither a channel nor a token has anything of a user's text
            notify = "".join(f"SELECT pg_notify('{channel}', '{said}'); " for channel, said in notices)
            self._connection.execute(f"{notify}{patiently}; COMMIT")
            return
        with self._in_one_go():
            self._send()
            for notice in notices:
                self._connection.execute("SELECT pg_notify($1, $2)", notice)
            if commit:
                self._connection.execute(patiently)
                self._connection.execute("COMMIT")

    # queues

    def queue(self, name: str) -> int:
        known = self.find_queue(name)
        if known is not None:
            return known
        values = (self.store.namespace_id, raw(name))
        while True:
            made = self.ask_for(self.sql.MAKE_QUEUE, values) or self.ask_for(self.sql.FIND_QUEUE, values)
            if made:
                return self._enter(name, int(made[0][0]))

    def find_queue(self, name: str) -> int | None:
        known = self.new_queues.get(name)
        if known is None:
            known = self.store.queue_ids.get(name)
            if known is None:
                found = self.ask_for(self.sql.FIND_QUEUE, (self.store.namespace_id, raw(name)))
                if not found:
                    return None
                known = int(found[0][0])
            self._enter(name, known)
        return known

    def _enter(self, name: str, queue: int) -> int:
        self.hold([queue])
        self.new_queues[name] = queue
        self.new_names[queue] = name
        self.named.add(queue_token(name))
        return queue

    def hold(self, queues: Iterable[int]) -> None:
        """Make sure that no other transaction decides about these queues until this one is done."""
        if self._held is None:
            return
        for queue in sorted(set(queues) - self._held):
            ((got,),) = self.ask_for("SELECT pg_try_advisory_xact_lock(1819373157, $1::int)", (queue,))
            if not got:
                raise Anew(queue)
            self._held.add(queue)

    def _await_guests(self, lock: int) -> None:
        """Make sure that no transaction of a user that is open has put what this lock stands for."""
        ((got,),) = self.ask_for("SELECT pg_try_advisory_xact_lock(1819373160, $1::int)", (lock,))
        if not got:
            raise Anew(locks=[(lock, False)])

    def lock_for(self, page: Page, limits: Mapping[str, Limit]) -> None:
        """Keep others from putting with keys into the queues of a page, and into the room that is counted."""
        for lock in page_locks(self.store.namespace_id, page, limits):
            if lock not in self._locked:
                self._await_guests(lock)
                self._locked.add(lock)

    def queue_name(self, queue: int) -> str:
        name = self.new_names.get(queue) or self.store.queue_names.get(queue)
        if name is None:
            find = self.sql.here("SELECT name FROM localqueue.lq_queues WHERE id = $1")
            name = self.new_names[queue] = self.ask_for(find, (queue,))[0][0].decode()
        return name

    def newest(self, queues: Iterable[int]) -> int:
        return 0

    def subscription_version(self, topic: int) -> int:
        find = self.sql.here("SELECT subscriptions FROM localqueue.lq_queues WHERE id = $1")
        return int(self.ask_for(find, (topic,))[0][0])

    # rows in

    def fetch(self, wanted: Wanted) -> Found:
        held = self._held
        assert held is not None
        behind = list(wanted.behind)
        indexed: list[bytes] = []
        holders, heads = by_queue(wanted.holders, indexed), by_queue(wanted.heads, indexed)
        values = (
            array("int8", list(wanted.keys)), *_apart(behind), array("int8", [wanted.behind[key] for key in behind]),
            array("int8", list(wanted.dependents)), *holders, array("bytea", indexed), *heads,
            array("int4", list(held)), self._now,
        )  # fmt: skip
        rows: list[Row] = []
        seen: list[Row] = []
        edges: list[tuple[int, int]] = []
        newest = 0
        for *found, got, upstreams in self.ask_for(self.sql.FETCH, values):
            if found[1] is None:
                newest = max(newest, found[0])
                continue
            row = row_of(found)
            if got is None:
                seen.append(row)
                if row.holds_key and (row.queue, row.ordering_key) in wanted.heads:
                    newest = max(newest, row.key)
                continue
            if not got:
                raise Anew(row.queue)
            held.add(row.queue)
            rows.append(row)
            edges += [(upstream, row.key) for upstream in upstreams or ()]
        return Found(rows, edges, seen, newest)

    def _rows(self, where: str, *values: Any, lock: str = "FOR UPDATE") -> list[Row]:
        """Rows, locked in the order of their keys."""
        statement = self.sql.here(f"{self.sql.ROW} WHERE {where} ORDER BY m.key {lock}")
        return [row_of(found) for found in self.ask_for(statement, values)]

    def _some(self, keys: str, *values: Any, still: str | None = None, lock: str = "FOR UPDATE") -> list[Row]:
        """Rows whose keys a statement finds, in its order. With `still` it is asked again when somebody was faster, and
        one of them is gone or is not that any more."""
        where = "m.key = ANY ($1::bigint[])" + (f" AND {still}" if still else "")
        while True:
            order = [row[0] for row in self.ask_for(self.sql.here(keys), values)]
            found = {row.key: row for row in self._rows(where, array("int8", order), lock=lock)} if order else {}
            if still is None or len(found) == len(order):
                return [found[key] for key in order if key in found]

    def due(self, queue: int, now: float, limit: int) -> list[Row]:
        """But for those that somebody else has locked: an ack on its way, or a user's transaction that drops one, and
        may last."""
        due = "m.queue = $1 AND m.due_at <= $2 ORDER BY m.due_at, m.key LIMIT $3 FOR UPDATE SKIP LOCKED"
        return [row_of(found) for found in self.ask_for(f"{self.sql.ROW} WHERE {due}", (queue, now, limit))]

    def oldest(self, queue: int, limit: int) -> list[Row]:
        return self._some(self.sql.OLDEST, queue, limit, still="m.state = 0")

    def oldest_blocked(self, queue: int) -> Row | None:
        return next(iter(self._some(self.sql.OLDEST_BLOCKED, queue)), None)

    def load(self, queue: int, now: float, up_to: int) -> int:
        return int(self.ask_for(self.sql.LOAD, (queue, now, True, up_to, False))[0][0])

    def upstreams(self, dependents: Iterable[int]) -> list[tuple[int, int]]:
        wanted = list(dependents)
        missing = [key for key in wanted if key not in self._above]
        if missing:
            # Two commits that close a circle from both ends would not see each other's edge.
            self.tell("SELECT pg_advisory_xact_lock(1819373158, $1::int)", self.store.namespace_id)
            self._above.update({key: [] for key in missing})
            for upstream, dependent in self.ask_for(self.sql.UPSTREAMS, (missing,)):
                self._above.setdefault(upstream, [])
                above = self._above.setdefault(dependent, [])
                if upstream not in above:
                    above.append(upstream)
        return [(upstream, key) for key in wanted for upstream in self._above[key]]

    def removed(self, keys: Iterable[int]) -> set[int]:
        find = self.sql.here("SELECT key FROM localqueue.lq_removed WHERE key = ANY ($1::bigint[])")
        return {key for (key,) in self.ask_for(find, (list(keys),))}

    def stored(self, keys: Iterable[int]) -> dict[int, StoredMessage]:
        wanted = set(keys) - self._gone
        rows = self.ask_for(f"{self.sql.FULL_ROW} WHERE m.key = ANY ($1::bigint[])", (list(wanted),))
        if len(rows) < len(wanted):  # one was only seen, and has been acked since: it is no duplicate any more
            raise Anew
        return {row[0]: stored_message(self.ids, row) for row in rows}

    def ended(self, queue: int, state: int, until: float, behind: tuple[float, int], limit: int) -> list[Row]:
        return self._some(self.sql.ENDED, queue, state, until, *behind, limit)

    def last_ended(self, queue: int, state: int) -> float:
        last = "SELECT max(ended_at) FROM localqueue.lq_messages WHERE queue = $1::int AND state = $2::int"
        return float(self.ask_for(self.sql.here(last), (queue, state))[0][0] or 0.0)

    def of_queue(self, queue: int, behind: int, limit: int) -> list[Row]:
        some = "SELECT key FROM localqueue.lq_messages WHERE queue = $1 AND key > $2 ORDER BY key LIMIT $3"
        return self._some(some, queue, behind, limit)

    # runs

    def runs(self, names: Iterable[str]) -> dict[str, Run]:
        wanted = sorted(names)
        self.named.update(map(run_token, wanted))
        entered = (self.store.namespace_id, list(map(raw, wanted)), self.store._given_now(), rules.KNOWN)
        found = self.ask_for(self.sql.ENTER_RUNS, entered)
        self._runs.update(run for _, run, _ in found)
        return {name.decode(): Run(run, cancelled) for name, run, cancelled in found}

    def cancel(self, name: str, now: float, before: int, limit: int) -> list[Row]:
        run = (self.store.namespace_id, raw(name))
        self._await_guests(run_lock(self.store.namespace_id, name))
        # Queues come before the run: whoever acks one of its messages locks the queue and then the run.
        self.hold(queue for (queue,) in self.ask_for(self.sql.QUEUES_TO_CANCEL, (*run, before, limit)))
        found = self.ask_for(self.sql.CANCEL_RUN, (*run, now))
        if not found:
            return []
        self.named.add(run_token(name))
        rows = self._some(self.sql.LIVE_OF_RUN, found[0][0], before, limit, still="m.state < 5")
        self.hold(row.queue for row in rows)
        return rows

    # rows out

    def write(self, writes: Writes, now: float) -> None:
        sql, tell = self.sql, self.tell
        if writes.inserts:
            self._insert(writes.inserts)
        if writes.edges:
            tell(sql.INSERT_EDGES, *_columns(("int8", "int8"), writes.edges))
            self._above.clear()
        if writes.attempts:
            self._remember([(row.key, n, attempt) for row, n, attempt in writes.attempts])
        if writes.updates:
            self._update(writes.updates.values())
        if writes.removed:
            codes = [(key, JOURNAL_CODES[why]) for key, why in writes.removed.items()]
            tell(sql.MARK_REMOVED, *_columns(("int8", "int2"), codes), self.store.namespace_id)
        if writes.deletes:
            self._delete(writes)
        if writes.removed:  # not before: the journal looks here for why a message went
            tell(sql.FORGET_REMOVED, self.store.namespace_id, writes.remembered_from, 2 * len(writes.removed))
        for end, keys in (("upstream", writes.freed), ("dependent", writes.forgotten)):
            if keys:
                tell(sql.here(f"DELETE FROM localqueue.lq_dependencies WHERE {end} = ANY ($1::bigint[])"), keys)
                self._above.clear()
        if writes.runs:
            runs = sorted(writes.runs.items())
            counts = [(run, change.total, change.done) for run, change in runs]
            tell(sql.COUNT_RUNS, *_columns(("int4", "int4", "int4"), counts), now)
        if writes.dropped:
            tell(sql.COUNT_DROPPED, *_columns(("int4", "int4"), sorted(writes.dropped.items())))

    def write_batch(self, batch: Batch) -> None:
        if len(batch.keys) < COPY_FROM:
            self._insert(list(batch.inserts()))
        else:
            self.copy(batch_columns(batch))
        if batch.graph is not None and batch.graph.edges:
            self.tell(self.sql.INSERT_EDGES, *_columns(("int8", "int8"), batch.graph.edges))

    def _insert(self, inserts: Sequence[Insert]) -> None:
        """Messages come after the attempts that they had elsewhere, so that the journal does not take those for new."""
        past = [
            (row.key, n, attempt)
            for row, message in inserts
            if message.past is not None
            for n, attempt in enumerate(rules.attempts_of(message.past.history), 1)
        ]
        if past:
            self._remember(past)
        columns = message_columns(inserts)
        if len(inserts) < COPY_FROM:
            self.tell(self.sql.INSERT_MESSAGES, *(array(COLUMNS[name], values) for name, values in columns.items()))
        else:
            self.copy(columns)

    def _remember(self, attempts: Sequence[tuple[int, int, rules.Attempt]]) -> None:
        rows = [
            (key, n, one.attempt, one.event, one.at, one.leased_at, raw_or_none(one.leased_by), to_json(one.error))
            for key, n, one in attempts
        ]
        self.tell(self.sql.INSERT_ATTEMPTS, *_columns(_ATTEMPTS, rows))
        old = [(key, n - HISTORY_LIMIT) for key, n, _ in attempts if n > HISTORY_LIMIT]
        if old:
            self.tell(self.sql.FORGET_ATTEMPTS, *_columns(("int8", "int4"), old))

    def _update(self, rows: Iterable[Row]) -> None:
        cells = [
            (
                row.key, row.state, row.available_at, row.due_at, row.ended_at, row.expires_at, row.waiting_on,
                row.dependents > 0, row.forgiven, row.history, row.last_error, row.failed_at,
            )
            for row in sorted(rows, key=lambda row: row.key)
        ]  # fmt: skip
        self.tell(self.sql.UPDATE_MESSAGES, *_columns(_UPDATES, cells))

    def _delete(self, writes: Writes) -> None:
        keys = sorted(writes.deletes)
        self.tell(self.sql.here("DELETE FROM localqueue.lq_messages WHERE key = ANY ($1::bigint[])"), keys)
        self._forget(writes.deletes)

    def _forget(self, deletes: Mapping[int, Row]) -> None:
        """Delete the histories of messages that go."""
        self._gone.update(deletes)
        remembered = [key for key, row in deletes.items() if row.history]
        if remembered:
            forget = self.sql.here("DELETE FROM localqueue.lq_attempts WHERE message = ANY ($1::bigint[])")
            self.tell(forget, remembered)

    def write_records(self, writes: Sequence[RecordWrite], now: float) -> list[int]:
        """A version is never used again, so a stale `expect` can not match by chance."""
        versions = [0 if write.value is None else self.ids.reserve() for write in writes]
        cells = [
            (raw(write.kind), raw(write.key), write.value, version, write.expect)
            for write, version in zip(writes, versions, strict=True)
        ]
        done = self.ask_for(self.sql.WRITE_RECORDS, (self.store.namespace_id, now, *_columns(_RECORDS, cells)))
        for write, (as_expected,) in zip(writes, done, strict=True):
            if not as_expected:
                found = self.ask_for(self.sql.RECORD, (self.store.namespace_id, raw(write.kind), raw(write.key)))
                raise refusals.record_conflict(write, found[0][3] if found else 0)
        return versions

    def timers_settled(self, queue: int) -> None:
        """The next timer is found by an index."""

    # claiming

    def paused(self, queue: int, worker: str | None) -> bool:
        return bool(self.ask_for(self.sql.PAUSED, (queue, raw_or_none(worker)))[0][0])

    def claimable(self, queue: int, now: float) -> bool:
        """Claims take what is ready once all timers are settled."""
        return False

    def claim(self, queue: int, request: LeaseRequest, now: float) -> list[StoredMessage]:
        values = claim_values(self.store, queue, request, alone=None, now=now, consume=False)
        return [claimed_message(self.ids, request, row) for row in self.ask_for(self.sql.CLAIM, values)]

    def claim_at_once(self, request: LeaseRequest, unit: Unit) -> list[StoredMessage] | None:
        """Claim in one round trip, where no timer has passed; None where one has, and nothing is claimed."""
        queue = self.find_queue(request.queue)
        if queue is None:
            return []
        values = claim_values(self.store, queue, request, alone=True, now=unit.now, consume=False)
        rows = self.ask_for(self.sql.CLAIM, values)
        if rows and rows[0][0] is None:
            return None
        if rows:
            unit.changed_queues.add(queue)
        return [claimed_message(self.ids, request, row) for row in rows]

    # operations

    def subscribe(self, topic: int, subscriber: str, wanted: bool) -> bool:
        self._await_guests(topic_lock(self.store.namespace_id, self.queue_name(topic)))
        remove = "DELETE FROM localqueue.lq_subscriptions WHERE topic = $1 AND sha256(subscriber) = sha256($2::bytea)"
        statement = self.sql.SUBSCRIBE if wanted else self.sql.here(remove)
        changed = bool(self.ask(statement, (topic, raw(subscriber))).rowcount)
        if changed:
            grow = "UPDATE localqueue.lq_queues SET subscriptions = subscriptions + 1 WHERE id = $1"
            self.tell(self.sql.here(grow), topic)
        return changed

    def pause(self, queue: int, worker: str | None, at: float | None) -> None:
        """Pause the queue, or one worker on it; without a time, resume it."""
        if worker is None:
            self.tell(self.sql.here("UPDATE localqueue.lq_queues SET paused_at = $2 WHERE id = $1"), queue, at)
        else:
            self.tell(self.sql.PAUSE_WORKER, queue, raw(worker), at)

    def clear(self, queue: int) -> None:
        """Let a queue whose messages are all gone be as if it had never had one."""
        here = self.sql.here
        self.tell(here("DELETE FROM localqueue.lq_workers WHERE queue = $1 AND paused_at IS NULL"), queue)
        self.tell(here("UPDATE localqueue.lq_workers SET leases = 0, last_seen = NULL WHERE queue = $1"), queue)
        self.tell(here("UPDATE localqueue.lq_queues SET dropped = 0 WHERE id = $1"), queue)


def _apart(keys: Iterable[Key]) -> tuple[Packed, Packed]:
    keys = list(keys)
    return array("int4", [queue for queue, _ in keys]), array("bytea", [raw(name) for _, name in keys])


def by_queue(keys: Iterable[Key], indexed: list[bytes]) -> list[Packed]:
    """Queues, and where in the list, counted from 1, their keys begin and end; there they are as the indexes have them
    (`lq_key`)."""
    names: dict[int, list[bytes]] = {}
    for queue, name in keys:
        names.setdefault(queue, []).append(name.encode())
    places = []
    for queue, named in names.items():
        first = len(indexed) + 1
        indexed += [name if len(name) <= 200 else name[:200] + sha256(name).digest() for name in named]
        places.append((queue, first, len(indexed)))
    return _columns(("int4", "int4", "int4"), places) if places else [array("int4", [])] * 3


def _columns(kinds: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[Packed]:
    return [array(kind, column) for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)]


def rows_of(unit: Unit) -> PostgresRows:
    assert isinstance(unit.rows, PostgresRows)
    return unit.rows
