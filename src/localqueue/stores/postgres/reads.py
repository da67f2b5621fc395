"""Reads: none of them changes anything. And between rows and the port's messages.

Users' text is stored as the bytes of its UTF-8, see the schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from localqueue.ids import Mint
from localqueue.message import QueueStats, RunStats
from localqueue.stores import rules
from localqueue.stores.engine.row import CODE, DEAD, from_json
from localqueue.stores.port import (
    INFLIGHT,
    STATES,
    CheckReport,
    LeaseRequest,
    Payload,
    Record,
    StoredMessage,
    Subscriptions,
)
from localqueue.stores.postgres.connection import Calls
from localqueue.stores.stats import Held, KnownWorker, queue_stats

_PAGES_OF_A_PART = 100  # by which the ends of a range are found
_SAMPLE_OF_A_PART = 2000  # messages, some dozens to a page: with fewer on those pages, all of the queue are looked at
_ALL = 2**62  # more messages than there are
Execute = Callable[..., Any]


def raw(text: str) -> bytes:
    """Text as it is stored; text that is no Unicode is a `ValueError`."""
    return text.encode()


def raw_or_none(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def text_or_none(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def raw_payloads(payloads: Sequence[Payload]) -> tuple[list[bytes], list[bool]]:
    """Many of them, in two lists: tuples would be as many objects for the garbage collector to look at."""
    are_text = [isinstance(payload, str) for payload in payloads]
    return [one.encode() if isinstance(one, str) else bytes(one) for one in payloads], are_text


def raw_payload(payload: Payload) -> tuple[bytes, bool]:
    """A payload and whether it was text."""
    return (payload.encode(), True) if isinstance(payload, str) else (bytes(payload), False)


def finished_attempts(history: str | None) -> list[rules.Attempt]:
    """The entries that `lq_history` lists."""
    if history is None:
        return []
    return [
        rules.Attempt(
            attempt, event, at, leased_at, None if by is None else bytes.fromhex(by).decode(), from_json(error)
        )
        for attempt, event, at, leased_at, by, error in json.loads(history)
    ]


def stored_message(ids: Mint, row: tuple[Any, ...]) -> StoredMessage:
    """A message from a row of `full_row.sql`."""
    (key, queue, state, payload, is_text, codec, priority, attempts, created_at, available_at, until, by, last_error,
     failed_at, dedupe_key, ordering_key, expires_at, run, headers, waiting_on, since, forgiven,
     history) = row[:23]  # fmt: skip
    leased_by = text_or_none(by)
    return StoredMessage(
        id=ids.id_of(key),
        queue=queue.decode(),
        state=STATES[state],
        payload=payload.decode() if is_text else payload,
        codec=codec,
        priority=priority,
        attempts=attempts,
        created_at=created_at,
        available_at=available_at,
        leased_until=until,
        leased_by=leased_by,
        last_error=from_json(last_error),
        failed_at=failed_at,
        dedupe_key=text_or_none(dedupe_key),
        ordering_key=text_or_none(ordering_key),
        expires_at=expires_at,
        run_id=text_or_none(run),
        headers=text_or_none(headers),
        waiting_on=waiting_on,
        history=rules.history(finished_attempts(history), attempts=attempts, leased_at=since, leased_by=leased_by),
        forgiven=forgiven,
    )


def claimed_message(ids: Mint, request: LeaseRequest, row: tuple[Any, ...]) -> StoredMessage:
    """A message that was just leased, from a row of `lq_claim`."""
    (key, now, payload, is_text, codec, priority, attempts, created_at, available_at, headers, dedupe_key, ordering_key,
     expires_at, run, last_error, failed_at, forgiven, history, record, version, updated_at) = row  # fmt: skip
    by = request.leased_by
    if history is None:
        leased: dict[str, Any] = {"type": "leased", "at": now, "attempt": attempts}
        if by is not None:
            leased["leased_by"] = by
        events: tuple[dict[str, Any], ...] = (leased,)
    else:
        events = rules.history(finished_attempts(history), attempts=attempts, leased_at=now, leased_by=by)
    found = None
    if record is not None and request.ledger is not None:
        found = Record(request.ledger, f"{request.queue}:{dedupe_key.decode()}", record, version, updated_at)
    return StoredMessage(
        ids.id_of(key), request.queue, INFLIGHT, payload.decode() if is_text else payload, codec, priority, attempts,
        created_at, available_at, now + request.timeout, by, from_json(last_error), failed_at,
        text_or_none(dedupe_key), text_or_none(ordering_key), expires_at, text_or_none(run), text_or_none(headers),
        0, events, forgiven, found,
    )  # fmt: skip


def record_of(row: tuple[Any, ...]) -> Record:
    kind, key, value, version, updated_at = row
    return Record(kind.decode(), key.decode(), value, version, updated_at)


class Reads(Calls):
    """The reads of the port. A queue that nobody has used yet is simply empty."""

    ids: Mint
    namespace_id: int
    queue_names: dict[int, str]

    def _look_up_queue(self, name: str) -> int | None:
        row = self._one(self.sql.FIND_QUEUE, (self.namespace_id, raw(name)))
        return None if row is None else int(row[0])

    def get(self, queue: str, message_id: str) -> StoredMessage | None:
        row, key = self._find_queue(queue), self.ids.key_of(message_id)
        if row is None or key is None:
            return None
        found = self._one(f"{self.sql.FULL_ROW} WHERE m.key = $1 AND m.queue = $2", (key, row))
        return None if found is None else stored_message(self.ids, found)

    def qsize(self, queue: str) -> int:
        row = self._find_queue(queue)
        return 0 if row is None else self._load(row, blocked=False)[0]

    def load(self, queue: str) -> int:
        row = self._find_queue(queue)
        return 0 if row is None else self._load(row)[0]

    def _load(self, queue: int, *, blocked: bool = True, up_to: int | None = None) -> tuple[int, float | None]:
        """How many messages are ready or blocked. With `up_to` no more are counted, and when the next expires."""
        limited = up_to is not None
        found = self._one(self.sql.LOAD, (queue, self._given_now(), blocked, up_to if limited else _ALL, limited))
        assert found is not None
        return found[0], found[1]

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
        of_queue = self.sql.here("SELECT paused_at, dropped FROM localqueue.lq_queues WHERE id = $1")
        paused_at, dropped = execute(of_queue, (queue,)).fetchone()
        first = execute(self.sql.OLDEST, (queue, 1)).fetchone()
        workers = execute(self.sql.WORKERS, (queue,)).fetchall()
        return queue_stats(
            counts,
            now=now,
            available=(first and first[1], *execute(self.sql.FIRST_DUE, (queue, now)).fetchone()),
            held=[Held(text_or_none(by), *rest) for by, *rest in execute(self.sql.INFLIGHT, (queue, now)).fetchall()],
            workers=[KnownWorker(name.decode(), *rest) for name, *rest in workers],
            dropped=dropped,
            paused=paused_at is not None,
        )

    def _prunable(self, queue: int, state: int, until: float) -> int:
        count = "SELECT count(*) FROM localqueue.lq_messages WHERE queue = $1 AND state = $2 AND ended_at <= $3"
        return int(self._all(self.sql.here(count), (queue, state, until))[0][0])

    def _scan(
        self, queue: str, state: str | None, after: str | None, last: int | None, limit: int | None
    ) -> list[StoredMessage]:
        row = self._find_queue(queue)
        if row is None:
            return []
        values: tuple[Any, ...] = (row, None if after is None else self.ids.key_of(after) or 0, limit)
        code = None if state is None else CODE[state]
        if code is None or code < DEAD:
            order, values = self.sql.SCAN, (*values, code, last)
        else:
            order, values = self.sql.SCAN_ENDED, (*values, code)
        return [stored_message(self.ids, found) for found in self._all(f"{self.sql.FULL_ROW} {order}", values)]

    def _splits(self, queue: str, parts: int) -> list[str]:
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
        return [row[0].decode() for row in self._all(self.sql.RUNS, (self.namespace_id, raw(after), limit))]

    def run(self, run_id: str) -> RunStats | None:
        rows = self._all(self.sql.RUN, (self.namespace_id, raw(run_id)))
        if not rows:
            return None
        states = {STATES[state]: count for _, _, state, count in rows if state is not None}
        return RunStats(run_id=run_id, total=rows[0][0], done=rows[0][1], **states)

    def _run_messages(self, run_id: str, after: str | None, limit: int | None) -> list[StoredMessage]:
        values = (self.namespace_id, raw(run_id), (after and self.ids.key_of(after)) or 0, limit)
        found = self._all(f"{self.sql.FULL_ROW} {self.sql.OF_RUN}", values)
        return [stored_message(self.ids, row) for row in found]

    def upstream(self, queue: str, message_id: str) -> list[str]:
        row, key = self._find_queue(queue), self.ids.key_of(message_id)
        if row is None or key is None:
            return []
        return [self.ids.id_of(found[0]) for found in self._all(self.sql.UPSTREAM, (key, row))]

    def record(self, kind: str, key: str) -> Record | None:
        row = self._one(self.sql.RECORD, (self.namespace_id, raw(kind), raw(key)))
        return None if row is None else record_of(row)

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Record]:
        return [
            record_of(row) for row in self._all(self.sql.RECORDS, (self.namespace_id, raw(kind), raw(after), limit))
        ]

    def subscriptions(self, topic: str) -> Subscriptions:
        row = self._find_queue(topic)
        if row is None:
            return Subscriptions(0, ())
        rows = self._all(self.sql.SUBSCRIPTIONS, (row,))
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
        """What must be true of the rows of a namespace, whatever happened to them."""
        found = self._all(self.sql.CHECK, (self.namespace_id,))
        return CheckReport(tuple(f"{problem}: {example}" for problem, example in found))
