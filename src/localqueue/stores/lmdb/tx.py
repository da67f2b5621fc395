"""One piece of work inside a write transaction: loading, saving and removing messages with all that the indexes and
the counts know about them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from localqueue.errors import IdTaken, QueueStoreCorruptError, RunCancelled
from localqueue.events.journal import JOURNAL_CODES
from localqueue.stores import rules
from localqueue.stores.lmdb import keys
from localqueue.stores.lmdb.driver import Txn
from localqueue.stores.lmdb.journal import Entry, Switch, append
from localqueue.stores.lmdb.rows import BLOCKED, CANCELLED, CODE, DEAD, EXPIRED, MessageRow, QueueRow, RunRow
from localqueue.stores.port import HISTORY_LIMIT, STATES, StoredMessage, Transition

if TYPE_CHECKING:
    from localqueue.stores.lmdb.store import LMDBQueueStore


#: The event of a message that enters one of the states behind `dead`.
ENDINGS = {DEAD: "dead_lettered", EXPIRED: "expired", CANCELLED: "cancelled"}


def to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"), default=str)


class Tx:
    __slots__ = (
        *("_entries", "_journal", "_queues"),
        *("new_queues", "now", "observed", "store", "touched", "transitions", "txn"),
    )

    def __init__(self, store: LMDBQueueStore, txn: Txn, now: float, observed: bool = False) -> None:
        self.store = store
        self.txn = txn
        self.now = now
        self.new_queues: dict[str, int] = {}
        self.touched: set[str] = set()
        self._queues: dict[int, QueueRow] = {}
        self.observed = observed
        self.transitions: list[Transition] = []
        self._journal = Switch.read(txn, store.namespace_id)
        self._entries: list[Entry] = []

    # queues and runs

    def queue_id(self, name: str) -> int:
        """The number of a queue, made on first use."""
        self.touched.add(name)
        known = self.store.queue_ids.get(name) or self.new_queues.get(name)
        if known is None:
            named = keys.queue_id(self.store.namespace_id, name)
            value = self.txn.get(named)
            if value is None:
                known = keys.next_number(self.txn, b"q", 4)
                self.txn.put(named, keys.key_bytes(known))
                self.txn.put(keys.queue(known), QueueRow(known, name).pack())
            else:
                known = keys.last_number(value)
            self.new_queues[name] = known
        return known

    def queue(self, queue: int) -> QueueRow:
        """The row of a queue; changes to it are written by `flush`."""
        row = self._queues.get(queue)
        if row is None:
            value = self.txn.get(keys.queue(queue))
            if value is None:
                raise QueueStoreCorruptError(f"queue number {queue} is missing; run check() on {self.store.path!r}")
            row = self._queues[queue] = QueueRow.unpack(queue, value)
        return row

    def flush(self) -> None:
        for row in self._queues.values():
            packed = row.pack()
            if packed != row.packed:
                self.txn.put(keys.queue(row.id), packed)
                row.packed = packed
        if self._entries:
            append(self.txn, self.store.namespace_id, self._journal, self._entries, self.now)
            self._entries.clear()

    # events

    def journal(self, event: str, row: MessageRow, *, error: str | None = None, content: bytes = b"") -> None:
        """Append to the journal, if one is kept, when the transaction is done."""
        if self._journal.enabled:
            attempt = -1 if content else row.attempts
            entry = Entry(JOURNAL_CODES[event], row.queue, row.key, attempt, row.leased_by, error, content)
            self._entries.append(entry)

    def note(self, event: str, row: MessageRow, *, error: str | None = None) -> None:
        """Journal a change that the caller will not find in the result of its call, and tell it if it wants to know."""
        self.journal(event, row, error=error)
        if self.observed:
            self.transitions.append(
                Transition(
                    event, self.queue(row.queue).name, self.store.ids.id_of(row.key), self.now, row.attempts,
                    row.leased_by, row.leased_at, None if error is None else json.loads(error),
                )
            )  # fmt: skip

    def run(self, run_id: str, *, even_cancelled: bool = False) -> RunRow:
        """The row of a run that still takes messages, made on first use."""
        named = keys.run_id(self.store.namespace_id, run_id)
        value = self.txn.get(named)
        if value is None:
            run = RunRow(keys.next_number(self.txn, b"V", 8), run_id)
            self.txn.put(named, keys.key_bytes(run.id))
            return run
        run = self.run_row(keys.last_number(value))
        if run.cancelled_at is not None and not even_cancelled:
            raise RunCancelled(f"run {run_id!r} was cancelled: it takes no more messages; use another run_id")
        return run

    def run_row(self, run: int) -> RunRow:
        value = self.txn.get(keys.run(run))
        if value is None:
            raise QueueStoreCorruptError(f"run number {run} is missing; run check() on {self.store.path!r}")
        return RunRow.unpack(run, value)

    def save_run(self, run: RunRow) -> None:
        self.txn.put(keys.run(run.id), run.pack())

    # messages

    def load(self, key: int | None, queue: int | None = None) -> MessageRow | None:
        """A message, if there is one with this key (in this queue)."""
        value = None if key is None else self.txn.get(keys.message(key))
        if key is None or value is None:
            return None
        row = MessageRow.unpack(key, value)
        if queue is not None and row.queue != queue:
            return None
        row.before = row.state
        row.indexed = row.index_entries()
        return row

    def insert(
        self, row: MessageRow, content: bytes, *, run_id: str | None = None, ended_elsewhere: bool = False
    ) -> None:
        if not self.txn.put(keys.message(row.key), row.pack(), overwrite=False):
            raise IdTaken(f"message id {self.store.ids.id_of(row.key)} is in use")
        self.txn.put(keys.content(row.key), content)
        for key, value in row.index_entries().items():
            self.txn.put(key, value)
        queue = self.queue(row.queue)
        queue.counts[row.state] += 1
        queue.due_by(row.due_at)
        if self._journal.enabled:
            self.journal("enqueued", row, error=self._options(row, run_id), content=content)
        if ended_elsewhere:  # nothing happens to it here, but the journal has to know how it is
            self.journal(ENDINGS[row.state], row, error=row.last_error if row.state == DEAD else None)
        elif row.state == EXPIRED:
            self.note("expired", row)

    def _options(self, row: MessageRow, run_id: str | None) -> str | None:
        options = rules.kept_options(
            priority=row.priority,
            dedupe_key=row.dedupe_key,
            ordering_key=row.ordering_key,
            run_id=run_id,
            headers=None,
            delay=row.available_at - self.now,
            ttl=None if row.expires_at is None else row.expires_at - self.now,
        )
        return to_json(options)

    def restore(self, row: MessageRow, past: StoredMessage) -> None:
        """Give a new message the attempts it had elsewhere."""
        row.attempts, row.forgiven = past.attempts, past.forgiven
        row.last_error, row.failed_at = to_json(past.last_error), past.failed_at
        for attempt in rules.attempts_of(past.history):
            row.history += 1
            self._write_attempt(row, attempt)

    def save(self, row: MessageRow) -> None:
        """Write a changed message, its place in the indexes and its queue's counts."""
        put = self.txn.put
        entries = row.index_entries()
        if entries != row.indexed:
            for key in row.indexed.keys() - entries.keys():
                self.txn.delete(key)
            for key, value in entries.items():
                if row.indexed.get(key) != value:
                    put(key, value)
            row.indexed = entries
        put(keys.message(row.key), row.pack())
        queue = self.queue(row.queue)
        queue.counts[row.before] -= 1
        queue.counts[row.state] += 1
        queue.due_by(row.due_at)
        row.before = row.state

    def remove(self, row: MessageRow, why: str = "acked") -> None:
        """Delete a message with its content, history and index entries."""
        if why == "acked":
            self.journal(why, row)
        else:
            self.note(why, row)
        delete = self.txn.delete
        delete(keys.message(row.key))
        delete(keys.content(row.key))
        for key in row.indexed:
            delete(key)
        if row.history:
            for key in list(keys.walk_keys(self.txn, keys.attempts(row.key))):
                delete(key)
        self.queue(row.queue).counts[row.before] -= 1

    def move(self, row: MessageRow, state: int, *, available_at: float, error: str | None = None) -> None:
        """Put a message into another state that is not inflight, dropping its lease."""
        before, row.state = row.state, state
        row.available_at = available_at
        row.due_at = rules.due_at(STATES[state], available_at=available_at, expires_at=row.expires_at)
        row.ended_at = self.now if state >= DEAD else None
        row.leased_at = row.leased_by = None
        if state >= DEAD > before and row.said != ENDINGS[state]:
            self.note(ENDINGS[state], row, error=error)
        row.most = -1
        if error is not None:
            row.last_error, row.failed_at = error, self.now
        self.save(row)

    def remember(
        self,
        row: MessageRow,
        event: str,
        *,
        leased_at: float | None = None,
        leased_by: str | None = None,
        error: str | None = None,
    ) -> None:
        """Add to a message's history, forgetting what is older than the last attempts. The caller saves the row."""
        row.said = event
        self.note(event, row, error=error)
        row.history += 1
        described = None if error is None else json.loads(error)
        self._write_attempt(row, rules.Attempt(row.attempts, event, self.now, leased_at, leased_by, described))
        if row.history > HISTORY_LIMIT:
            self.txn.delete(keys.attempt(row.key, row.history - HISTORY_LIMIT))

    def _write_attempt(self, row: MessageRow, attempt: rules.Attempt) -> None:
        self.txn.put(keys.attempt(row.key, row.history), json.dumps(attempt, separators=(",", ":")).encode())

    # ordering keys and dependencies

    def free_key(self, queue: int, ordering_key: str) -> None:
        """The head of an ordering key left: the next message of the key takes its place."""
        while True:
            found = next(keys.walk_keys(self.txn, keys.blocked_behind(queue, ordering_key)), None)
            row = None if found is None else self.load(keys.last_number(found))
            if row is None:
                return
            assert row.state == BLOCKED
            landed = rules.landing(now=self.now, available_at=row.available_at, expires_at=row.expires_at)
            if CODE[landed] == EXPIRED:
                self.remember(row, "expired")
            self.move(row, CODE[landed], available_at=row.available_at)
            if row.state != EXPIRED:
                return

    def key_busy(self, queue: int, ordering_key: str | None) -> bool:
        """Whether a message of the key is ready, delayed or inflight."""
        return ordering_key is not None and self.txn.get(keys.head(queue, ordering_key)) is not None

    def forget_upstreams(self, dependent: int) -> None:
        for key in list(keys.walk_keys(self.txn, keys.upstreams(dependent))):
            upstream = int.from_bytes(key[-8:], "big")
            self.txn.delete(key)
            self.txn.delete(keys.dependent(upstream, dependent))
