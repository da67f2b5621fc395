"""One commit at work: the rows it knows, what it has made of them, and what is still to be written.

A row is loaded once; what the unit knows of it is what it has made of it. Who holds a dedupe key or an ordering key is
looked up once for all keys of a batch and kept in step from then on, so that a batch is decided in memory and written
in one go. Only a search that memory can not answer (timers, the oldest message, the load of a queue) is preceded by a
`flush`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from localqueue.stores import refusals, rules
from localqueue.stores.engine.port import Insert, Key, Note, Rows, Run, Wanted, Writes
from localqueue.stores.engine.room import Room
from localqueue.stores.engine.row import BLOCKED, CODE, DEAD, ENDINGS, EXPIRED, INFLIGHT, Row, from_json
from localqueue.stores.port import NewMessage, RecordWrite, Transition
from localqueue.stores.wake import RecordName, told_records

_AS_IT_IS: Any = object()


class Unit:
    def __init__(self, rows: Rows, now: float, *, observed: bool = False) -> None:
        self.rows = rows
        self.now = now
        self.observed = observed
        self.writes = Writes()
        self.changed_queues: set[int] = set()
        self.changed_runs: set[Any] = set()
        self.changed_records: set[RecordName] = set()  # those that somebody is to be told of
        self.noting = observed or rows.journalled
        self._transitions: list[Transition] = []
        self._known: dict[int, Row | None] = {}
        self.holders: dict[Key, Row | None] = {}
        self._given_up: set[Key] = set()  # dedupe keys that are free as soon as this is written
        self.heads: dict[Key, Row | None] = {}
        self._behind: dict[Key, Row | None] = {}  # the first blocked one that the store has
        self._blocked: dict[Key, dict[int, Row]] = {}  # those that became blocked here
        self._edges: dict[int, list[int]] = {}  # dependents by upstream, as the store has them
        self._new_edges: dict[int, list[int]] = {}
        self._runs: dict[str, Run] = {}
        self.room = Room(self)
        self.newest = 0  # the greatest key of the messages that are blocked behind the heads that were fetched
        self.settled: set[int] = set()  # queues none of whose timers has passed any more

    # loading

    def fetch(self, wanted: Wanted) -> None:
        """Have these rows at hand."""
        wanted.keys = {key for key in wanted.keys if key not in self._known}
        wanted.holders = {key for key in wanted.holders if key not in self.holders}
        wanted.heads = {key for key in wanted.heads if key not in self.heads}
        if not wanted:
            return
        found = self.rows.fetch(wanted)
        self.newest = max(self.newest, found.newest)
        self._known.update(dict.fromkeys(wanted.keys))
        self.holders.update(dict.fromkeys(wanted.holders))
        self.heads.update(dict.fromkeys(wanted.heads))
        self._behind.update(dict.fromkeys(wanted.behind))
        for row in found.rows:
            known = self._known.get(row.key) or row
            if wanted.behind:
                self._line_up(row, known, wanted.behind)
            if known is not row or row.key in wanted.keys or row.key not in self._known:  # else it was deleted here
                self._known[row.key] = known
                self._place(known)
        for row in found.seen:
            if row.key not in self._known:
                self._place(row)
        self._edges.update({key: [] for key in wanted.dependents})
        for upstream, dependent in found.edges:
            self._edges[upstream].append(dependent)

    def _place(self, row: Row) -> None:
        """Note which keys a row holds."""
        if row.state < DEAD:
            if row.dedupe_key is not None:
                self.holders[row.queue, row.dedupe_key] = row
            if row.ordering_key is not None and row.state <= INFLIGHT:
                self.heads[row.queue, row.ordering_key] = row

    def _line_up(self, row: Row, known: Row, behind: dict[Key, int]) -> None:
        """Note the first of those that the store has behind a key, whatever has become of it here."""
        if row.ordering_key is None:
            return
        key = (row.queue, row.ordering_key)
        if row.key > behind.get(key, row.key) and (row.state if known is row else BLOCKED) == BLOCKED:
            first = self._behind.get(key)
            if first is None or row.key < first.key:
                self._behind[key] = known

    def row(self, key: int | None) -> Row | None:
        """A message, if it is there."""
        if key is None:
            return None
        if key not in self._known:
            self.fetch(Wanted(keys={key}))
        return self._known[key]

    def adopt(self, rows: Iterable[Row]) -> list[Row]:
        """Rows that a search of the store found, as this unit knows them."""
        adopted = []
        for row in rows:
            known = self._known.setdefault(row.key, row)
            if known is not None:
                self._place(known)
                adopted.append(known)
        return adopted

    def forget(self, keys: Iterable[int]) -> None:
        """Rows that a claim has changed are to be loaded again."""
        for key in keys:
            self._known.pop(key, None)

    def look_behind(self, heads: Iterable[Row], upstreams: Iterable[int] = ()) -> None:
        """Have at hand what comes free when these leave: the next of their keys, and those that wait for them."""
        keys = ((row.queue, row.ordering_key) for row in heads if row.ordering_key is not None)
        self.fetch(
            Wanted(
                behind={key: 0 for key in keys if key not in self._behind},
                dependents={key for key in upstreams if key not in self._edges},
            )
        )

    def dependents(self, upstream: int) -> set[int]:
        """The messages that wait for this one."""
        if upstream not in self._edges:
            self.fetch(Wanted(dependents={upstream}))
        return {*self._edges[upstream], *self._new_edges.get(upstream, ())}

    def add_edge(self, upstream: Row, dependent: int) -> None:
        """Have a message wait for another one."""
        upstream.dependents += 1
        self.mark(upstream)
        self.writes.edges.append((upstream.key, dependent))
        self._new_edges.setdefault(upstream.key, []).append(dependent)
        self.touch(upstream)  # a claim may have passed it by while it was locked

    @property
    def remembered_from(self) -> int:
        """The first key that a message which is gone is remembered by."""
        return self.rows.ids.key_at(self.now - rules.REMEMBERED)

    def remember_removed(self, key: int, why: str) -> None:
        """Have nothing come after a message that went without being acked. For each, some that were remembered long
        enough are forgotten."""
        self.writes.removed[key] = why
        self.writes.remembered_from = self.remembered_from

    def was_removed(self, key: int) -> bool:
        """Whether a message that is not there went without being acked."""
        return key in self.writes.removed or bool(self.rows.removed([key]))

    def flush(self) -> None:
        """Write what was decided so far, so that a search finds it."""
        writes = self.writes
        if not writes.any():
            return
        self.writes = Writes()
        self._given_up.clear()
        for note in writes.notes:
            self._tell(note)
        self.rows.write(writes, self.now)
        for row, _ in writes.inserts:
            row.new = False
        for row in writes.updates.values():
            row.before = None

    def turn_page(self) -> None:
        """Write what was decided so far, and forget the rows: the store has them as they are now."""
        self.flush()
        for known in (self._known, self.holders, self.heads, self._behind, self._blocked, self._edges, self._new_edges):
            known.clear()

    # who holds what

    def holder(self, queue: int, dedupe_key: str) -> Row | None:
        """The live message with this dedupe key."""
        key = (queue, dedupe_key)
        if key not in self.holders:
            self.fetch(Wanted(holders={key}))
        row = self.holders[key]
        return row if row is not None and row.state < DEAD and self._known.get(row.key, row) is row else None

    def head(self, queue: int, ordering_key: str) -> Row | None:
        """The message of the key that is ready, delayed or inflight."""
        key = (queue, ordering_key)
        if key not in self.heads:
            self.fetch(Wanted(heads={key}))
        row = self.heads[key]
        return row if row is not None and row.state <= INFLIGHT and self._known.get(row.key, row) is row else None

    def run(self, name: str, *, even_cancelled: bool = False) -> Run:
        """A run that still takes messages, made on first use."""
        run = self._runs.get(name)
        if run is None:
            self.enter_runs([name])
            run = self._runs[name]
        if run.cancelled and not even_cancelled:
            raise refusals.run_cancelled(name)
        return run

    def enter_runs(self, names: Iterable[str]) -> None:
        missing = [name for name in dict.fromkeys(names) if name not in self._runs]
        if missing:
            self._runs.update(self.rows.runs(missing))

    # changing

    def touch(self, row: Row) -> None:
        """Somebody may wait for what happens to this message."""
        self.changed_queues.add(row.queue)
        if row.run is not None:
            self.changed_runs.add(row.run)

    def mark(self, row: Row) -> None:
        """Have a row written again whose state stays."""
        if not row.new:
            if row.before is None:
                row.before = row.snapshot()
            self.writes.updates[row.key] = row

    def _change(self, row: Row) -> None:
        """Before the state of a row changes. A message that is not written yet is written first, as it was put."""
        if row.new:
            self.flush()
        self.mark(row)
        self.room.forget(row.queue)

    def insert(self, row: Row, message: NewMessage) -> None:
        self._take_dedupe_key(row)
        row.new = True
        self._known[row.key] = row
        self.writes.inserts.append(Insert(row, message))
        if self.noting:
            self.writes.notes.append(Note("enqueued", row, row.attempts, told=False, message=message))
        if row.ordering_key is not None:
            self._enter_key(row)
        self.room.count(row, 1)
        self.touch(row)

    def _take_dedupe_key(self, row: Row) -> None:
        """A live message holds its dedupe key. One that gave it up in this unit must be written before."""
        if row.dedupe_key is not None and row.state < DEAD:
            key = (row.queue, row.dedupe_key)
            if key in self._given_up:
                self.flush()
            self.holders[key] = row

    def _enter_key(self, row: Row) -> None:
        assert row.ordering_key is not None
        key = (row.queue, row.ordering_key)
        if row.state <= INFLIGHT:
            self.heads[key] = row
        elif row.state == BLOCKED:
            self._blocked.setdefault(key, {})[row.key] = row

    def move(
        self,
        row: Row,
        state: int,
        *,
        available_at: float | None = None,
        expires_at: float | None = _AS_IT_IS,
        error: str | None = None,
    ) -> None:
        """Put a message into another state than inflight, ending its lease. The times default to those it has."""
        self._change(row)
        before, held = row.state, row.holds_key
        row.state = state
        row.leased_until = row.leased_at = row.leased_by = row.most = row.position = None
        row.ended_at = self.now if state >= DEAD else None
        if available_at is not None:
            row.available_at = available_at
        if expires_at is not _AS_IT_IS:
            row.expires_at = expires_at
        if error is not None:
            row.last_error, row.failed_at = error, self.now
        if state >= DEAD > before and row.told != ENDINGS[state]:
            self.note(ENDINGS[state], row, error=error)
        if row.dedupe_key is not None:
            if state >= DEAD > before:
                self._given_up.add((row.queue, row.dedupe_key))
            elif state < DEAD <= before:
                self._take_dedupe_key(row)
        self.touch(row)
        if row.ordering_key is not None:
            self._enter_key(row)
            if state >= DEAD and held:
                self.free_key(row.queue, row.ordering_key)

    def delete(self, row: Row, why: str = "acked") -> None:
        """Remove a message with all that belongs to it, but not the messages that wait for it."""
        if row.new:
            self.flush()
        held = row.holds_key
        self.note(why, row, told=why != "acked", lease=True)
        if row.before is None:
            row.before = row.snapshot()
        self.writes.updates.pop(row.key, None)
        self.writes.deletes[row.key] = row
        if why != "acked":
            self.remember_removed(row.key, why)
        if row.waiting_on:
            self.writes.forgotten.append(row.key)
        self._known[row.key] = None
        if row.dedupe_key is not None:
            self._given_up.add((row.queue, row.dedupe_key))
        self.room.count(row, -1)
        self.touch(row)
        if held and row.ordering_key is not None:
            self.free_key(row.queue, row.ordering_key)

    def land(self, row: Row, available_at: float, expires_at: float | None, waiting_on: int = 0) -> None:
        """Return a message to delivery: ready, or whatever stands in its way."""
        busy = row.ordering_key is not None and not row.holds_key and self.head(row.queue, row.ordering_key) is not None
        landed = rules.landing(
            now=self.now, available_at=available_at, expires_at=expires_at, waiting_on=waiting_on, key_busy=busy
        )
        self.move(row, CODE[landed], available_at=available_at, expires_at=expires_at)

    def free_key(self, queue: int, ordering_key: str) -> None:
        """The head of an ordering key left: the next message of the key takes its place."""
        while (row := self._next_of_key((queue, ordering_key))) is not None:
            landed = CODE[rules.landing(now=self.now, available_at=row.available_at, expires_at=row.expires_at)]
            if landed == EXPIRED:
                self.remember(row, "expired")
            self.move(row, landed)
            if landed != EXPIRED:
                return

    def _next_of_key(self, key: Key) -> Row | None:
        """The first blocked message of an ordering key, among those that the store has and those of this unit."""
        if key not in self._behind:
            self.fetch(Wanted(behind={key: 0}))
        first = self._behind[key]
        while first is not None and (first.state != BLOCKED or self._known.get(first.key) is not first):
            self.fetch(Wanted(behind={key: first.key}))
            first = self._behind[key]
        ours = [row for row in self._blocked.get(key, {}).values() if self._is_blocked(row)]
        return min([*ours, *([] if first is None else [first])], key=lambda row: row.key, default=None)

    def _is_blocked(self, row: Row) -> bool:
        return row.state == BLOCKED and self._known.get(row.key) is row

    # records

    def write_records(self, writes: Sequence[RecordWrite]) -> list[int]:
        """Set or delete records; their new versions, 0 of one that is gone."""
        if not writes:
            return []
        self.changed_records |= told_records(writes)
        return self.rows.write_records(writes, self.now)

    # what happened

    def note_arrival(self, row: Row, *, ended_elsewhere: bool) -> None:
        """Note that a message came with no life left, or (which nobody needs to be told) as it was elsewhere."""
        error = row.last_error if ended_elsewhere and row.state == DEAD else None
        self.note(ENDINGS[row.state], row, error=error, told=not ended_elsewhere)

    def note(self, event: str, row: Row, *, error: str | None = None, told: bool = True, lease: bool = False) -> None:
        """Note a change for the journal, and for the caller if it will not find it in the result of its call."""
        if self.noting:
            by, at = (row.leased_by, row.leased_at) if lease else (None, None)
            self.writes.notes.append(Note(event, row, row.attempts, by, at, error, told))

    def remember(self, row: Row, event: str, error: str | None = None) -> None:
        """Add to a message's history; what is older than the last attempts is forgotten."""
        if row.new:
            self.flush()
        self.note(event, row, error=error, lease=True)
        self.mark(row)
        row.told = event
        row.history += 1
        attempt = rules.Attempt(row.attempts, event, self.now, row.leased_at, row.leased_by, from_json(error))
        self.writes.attempts.append((row, row.history, attempt))

    def _tell(self, note: Note) -> None:
        if self.observed and note.told:
            self._transitions.append(
                Transition(
                    note.type, self.rows.queue_name(note.row.queue), self.rows.ids.id_of(note.row.key), self.now,
                    note.attempt, note.leased_by, note.leased_at, from_json(note.error),
                )
            )  # fmt: skip

    def finish(self) -> list[Transition]:
        """Write the rest; what the caller is to be told."""
        self.flush()
        return self._transitions
