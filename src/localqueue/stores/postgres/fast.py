"""The fast paths: put, claim, ack, and a worker's step of many acks and the next claim.

Each is one statement, and so one round trip and one commit, and goes in steps. Where one of them finds that there is
more to do (a timer has passed, an ack sets something free) it changes nothing, and the call takes the long way, see
`writer.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from localqueue.errors import IdTaken, QueueStoreUnavailableError
from localqueue.ids import IdRange
from localqueue.stores import refusals, rules
from localqueue.stores.clock import ServerClock
from localqueue.stores.engine.commit import put_pages
from localqueue.stores.engine.leases import lease
from localqueue.stores.engine.row import CODE, READY
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import (
    STATES,
    Changes,
    Committed,
    Enqueued,
    Lease,
    LeaseRequest,
    Limit,
    NewMessage,
    Page,
    Payload,
    Put,
    RecordWrite,
    Settle,
    StoredMessage,
)
from localqueue.stores.postgres import errors
from localqueue.stores.postgres.inserts import COPY_FROM
from localqueue.stores.postgres.libpq import (
    FALSE,
    TRUE,
    Quick,
    array,
    as_float8,
    asking,
    float8,
    float8_or_none,
    int2,
    int4,
    int4_or_none,
    int8,
)
from localqueue.stores.postgres.notify import queue_token, record_tokens, said
from localqueue.stores.postgres.reads import claimed_message, raw, raw_or_none, raw_payload, raw_payloads
from localqueue.stores.postgres.rows import claim_values, rows_of
from localqueue.stores.postgres.writer import Writer
from localqueue.stores.steps import Steps

_NOTHING_OF_A_LEDGER = (None, None, None)
_NO_CLAIM = LeaseRequest("", 0)


class _NotPlain(Exception):
    """There is something to decide about the messages of a page."""


def is_put(changes: Changes) -> bool:
    """Whether there is nothing but messages that can be inserted as they are."""
    return (
        bool(changes.enqueue)
        and not (changes.settle or changes.records or changes.edges or changes.limits or changes.topics)
        and changes.lease is None
        and all(map(_is_plain, changes.enqueue))
    )


def _is_plain(message: NewMessage) -> bool:
    """Whether there is nothing to look up for it."""
    return (
        message.dedupe_key is None
        and message.ordering_key is None
        and message.run_id is None
        and message.past is None
        and not message.after
    )


def landing(message: NewMessage) -> int:
    """Where a plain message lands, whatever the time is."""
    return CODE[rules.landing(now=0.0, available_at=message.delay, expires_at=message.ttl)]


def is_step(changes: Changes) -> bool:
    """Acks of leases of one queue, records and a claim from the same queue, or some of these."""
    if changes.enqueue or changes.edges or changes.topics or not (changes.settle or changes.lease):
        return False
    queue = changes.settle[0].queue if changes.settle else None
    request = changes.lease
    return all(one.action == "ack" and one.token is not None and one.queue == queue for one in changes.settle) and (
        request is None or queue is None or request.queue == queue
    )


#: The types of the columns of `put_plain.sql`, from the second parameter on.
_PLAIN = ("int8", "int4", "int2", "int8", "float8", "bytea", "bool", "text", "bytea", "float8")


class FastPaths(Writer):
    _server_clock: ServerClock

    def _prepare_fast_paths(self, *, pooled: bool) -> None:
        self._put_one = Quick("put_one", self.sql.PUT_ONE, pooled=pooled)
        self._put_more = Quick("put_with_options", self.sql.PUT_WITH_OPTIONS, pooled=pooled)
        self._put_some = Quick("put_plain", self.sql.PUT_PLAIN, pooled=pooled)
        self._renew = Quick("renew", self.sql.RENEW_LEASES, pooled=pooled)
        self._ack_one = Quick("ack_one", self.sql.ACK_ONE, pooled=pooled)
        self._claim = None if pooled else Quick("claim_plain", self.sql.CLAIM_PLAIN, pooled=False)
        self._is_due = Quick("is_due", self.sql.IS_DUE, pooled=pooled)
        self._take_step = Quick("step", self.sql.STEP, pooled=pooled)
        self._tell_step = Quick("step_told", self.sql.STEP_TOLD, pooled=pooled)
        self._said, self._said_of_records = self.channel.encode(), self.record_channel.encode()

    # put

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        return self._run(self.putting_one(queue, payload, codec))

    def putting_one(self, queue: str, payload: Payload, codec: str | None) -> Steps[tuple[str, float]]:
        if self.read_only:
            self._require_writable()
        row = self.queue_ids.get(queue) or (yield lambda: self._queue_id(queue))
        data, is_text = raw_payload(payload)
        mark = queue_token(queue)
        while True:
            key = self.ids.reserve() if self._server_clock.is_known() else (yield self.ids.reserve)
            values = (
                float8_or_none(self._given_now()), int8(key), int4(row), data, TRUE if is_text else FALSE,
                raw_or_none(codec), self._said, mark.encode(),
            )  # fmt: skip
            try:
                result = yield asking(self._put_one, values)
                break
            except IdTaken:  # another process minted the same key
                continue
        self._wake.touched((mark,))
        return self.ids.id_of(key), as_float8(result.get_value(0, 0))[0]

    def _put_with_options(self, key: int, state: int, message: NewMessage) -> float:
        """Put a plain message; the time at which it was."""
        queue, mark = message.queue, queue_token(message.queue)
        data, is_text = raw_payload(message.payload)
        values = (
            float8_or_none(self._given_now()), int8(key), int4(self.queue_ids.get(queue) or self._queue_id(queue)),
            int2(state), int8(message.priority), float8(message.delay), data, TRUE if is_text else FALSE,
            raw_or_none(message.codec), raw_or_none(message.headers), float8_or_none(message.ttl), self._said,
            mark.encode(),
        )  # fmt: skip
        result = self._ask(asking(self._put_more, values))
        self._wake.touched((mark,))
        return float(as_float8(result.get_value(0, 0))[0])

    def _putting_rows(self, queues: set[str], *columns: Sequence[Any]) -> Steps[float]:
        """Put some plain messages, given by the columns of `put_plain.sql`; the time at which they were."""
        tokens = set(map(queue_token, queues))
        values = (
            float8_or_none(self._given_now()), *map(array, _PLAIN, columns), self._said, said(tokens).encode(),
        )  # fmt: skip
        result = yield asking(self._put_some, values)
        self._wake.touched(tokens)
        return float(as_float8(result.get_value(0, 0))[0])

    def putting_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None
    ) -> Steps[tuple[Sequence[str], float]]:
        row = self.queue_ids.get(queue)
        if row is None or self.read_only or len(payloads) >= COPY_FROM or not self._server_clock.is_known():
            ids, at = yield lambda: self.put_batch(queue, payloads, codec)
            return ids, at
        first = self.ids.reserve(len(payloads))
        keys = range(first, first + len(payloads))
        try:
            at = yield from self._putting_batch(queue, row, keys, payloads, codec)
        except IdTaken:
            ids, at = yield lambda: self.put_batch(queue, payloads, codec)
            return ids, at
        return IdRange(self.ids, keys), at

    def _putting_batch(
        self, queue: str, row: int, keys: range, payloads: Sequence[Payload], codec: str | None
    ) -> Steps[float]:
        count, nothing = len(keys), [None] * len(keys)
        return self._putting_rows(
            {queue}, keys, [row] * count, [READY] * count, [0] * count, [0.0] * count, *raw_payloads(payloads),
            [codec] * count, nothing, nothing,
        )  # fmt: skip

    def _put_batch(
        self,
        queue: str,
        keys: range,
        payloads: Sequence[Payload],
        codec: str | None,
        records: Sequence[RecordWrite],
    ) -> tuple[range, float]:
        row, count = self._queue_id(queue), len(keys)
        if count < COPY_FROM and not records:
            return keys, self._run(self._putting_batch(queue, row, keys, payloads, codec))
        bodies, are_text = raw_payloads(payloads)

        def work(unit: Unit) -> float:
            rows = rows_of(unit)
            rows.named.add(queue_token(queue))
            unit.write_records(records)
            if keys:
                same = {"queue": row, "state": READY, "created_at": unit.now, "available_at": unit.now, "codec": codec}
                columns = {name: [value] * count for name, value in same.items()}
                rows.copy(columns | {"key": keys, "payload": bodies, "is_text": are_text})
            return unit.now

        return keys, self._write(work)

    def _put_pages(
        self,
        pages: Iterable[Page],
        records: Sequence[RecordWrite],
        limits: Mapping[str, Limit],
        topics: Mapping[str, int],
        receipt: tuple[str, str] | None,
    ) -> Put:
        """Nothing is decided about the queues of plain pages, so nobody waits for them. What locks the others need is
        known when they are read: the transaction begins anew with those that somebody has."""

        def plain(unit: Unit, page: Page) -> None:
            if not page.is_plain:
                raise _NotPlain

        def keyed(unit: Unit, page: Page) -> None:
            rows_of(unit).lock_for(page, limits)

        if not limits and not topics:
            try:
                return self._write(lambda unit: put_pages(unit, pages, records, {}, {}, receipt, plain), locked=False)
            except _NotPlain:
                pass
        return self._write(lambda unit: put_pages(unit, pages, records, limits, topics, receipt, keyed))

    def _put(self, messages: Sequence[NewMessage]) -> Committed:
        keys = [key for key in self.ids.keys_of([one.id for one in messages]) if key is not None]
        if len(keys) < len(messages):
            raise refusals.not_minted(next(one.id for one in messages if self.ids.key_of(one.id) is None))
        states = list(map(landing, messages))
        if len(messages) == 1:
            at = self._put_with_options(keys[0], states[0], messages[0])
        else:
            _, names, payloads, codecs, delays, priorities, _, _, lives, headers, *_ = zip(*messages, strict=True)
            queues = {name: self._queue_id(name) for name in set(names)}
            at = self._run(self._putting_rows(
                set(names), keys, [queues[name] for name in names], states, priorities, delays,
                *raw_payloads(payloads), codecs, list(map(raw_or_none, headers)), lives,
            ))  # fmt: skip
        return Committed(enqueued=[Enqueued("stored", STATES[state], at) for state in states])

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        return self._run(self.acking_one(queue, message_id, token))

    def acking_one(self, queue: str, message_id: str, token: int) -> Steps[bool]:
        if self.read_only:
            self._require_writable()
        key = self.ids.key_of(message_id)
        row = self.queue_ids.get(queue) or (yield lambda: self._find_queue(queue))
        if key is None or row is None:
            return False
        now = self._given_now()
        ack = asking(self._ack_one, (int8(key), int4(row), int4(token), None if now is None else str(now).encode()))
        try:
            acked = bool((yield ack).command_tuples)
        except QueueStoreUnavailableError:
            # It may have been done or not. If it was not, it is now; of a message that is gone nobody can say who
            # acked it, so that stays an error.
            acked = bool((yield ack).command_tuples)
            if not acked and (yield lambda: self.get(queue, message_id)) is None:
                raise
        if acked:
            self._wake.touched((queue_token(queue),))
            return True
        return bool((yield lambda: self._settle_one(Settle(queue, message_id, "ack", token))))

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        return self._run(self.leasing(request))

    def leasing(self, request: LeaseRequest) -> Steps[list[StoredMessage]]:
        if self.read_only:
            self._require_writable()
        began = time.monotonic()
        queue = self.queue_ids.get(request.queue) or (yield lambda: self._find_queue(request.queue))
        if queue is None:
            return []
        if self._claim is not None and _is_simple(request):
            rows = yield from self._claiming(self._claim, queue, request)
        else:
            rows = yield lambda: self._claim_any(queue, request)
        messages: list[StoredMessage]
        if rows is None:
            messages = yield lambda: self._lease_in_transaction(request)
        else:
            messages = [claimed_message(self.ids, request, row) for row in rows]
            if rows:
                self._wake.touched((queue_token(request.queue),))
        if not self._is_whole(messages, request, began):
            messages = yield lambda: self._whole(messages, request, began)
        return messages

    def _lease_in_transaction(self, request: LeaseRequest) -> list[StoredMessage]:
        while True:
            messages = self._write(lambda unit: lease(unit, request), [request.queue])
            if messages is not None:
                return messages

    def _claim_any(self, queue: int, request: LeaseRequest) -> list[tuple[Any, ...]] | None:
        """The rows of what was claimed; None when there is more to do first."""
        values = claim_values(self, queue, request, alone=True, now=self._given_now(), consume=request.consume)
        rows: list[tuple[Any, ...]] = self._do(self.sql.CLAIM, values).fetchall()
        return None if rows and rows[0][0] is None else rows

    def _claiming(self, claim: Quick, queue: int, request: LeaseRequest) -> Steps[list[tuple[Any, ...]] | None]:
        """The same for a request of a lease and nothing else."""
        values = (
            float8_or_none(self._given_now()), int4(queue), int4(request.limit), float8(request.timeout),
            raw_or_none(request.leased_by), int4_or_none(request.max_attempts), self._said,
            queue_token(request.queue).encode(),
        )  # fmt: skip
        rows = yield asking(claim, values, rows=True)
        if len(rows) > 1:
            rows.sort(key=_place_in_line)
        elif not rows:
            due = yield asking(self._is_due, (values[0], values[1], values[4]), again=True)
            return None if due.get_value(0, 0) == TRUE else []
        return [(*row[:18], *_NOTHING_OF_A_LEDGER) for row in rows]

    def renew(self, leases: Sequence[Lease], *, timeout: float) -> list[float | None]:
        return self._run(self.renewing(leases, timeout))

    def renewing(self, leases: Sequence[Lease], timeout: float) -> Steps[list[float | None]]:
        self._require_writable()
        self._pool.require_open()
        names = {one.queue for one in leases}
        if not names <= self.queue_ids.keys():
            yield lambda: [self._find_queue(name) for name in names]
        queues = {name: row for name in names if (row := self.queue_ids.get(name)) is not None}
        keys = [self.ids.key_of(one.id) if one.queue in queues else None for one in leases]
        held = sorted(
            (key, queues[one.queue], one.token) for key, one in zip(keys, leases, strict=True) if key is not None
        )
        if not held:
            return [None] * len(leases)
        columns = map(array, ("int8", "int4", "int4"), map(list, zip(*held, strict=True)))
        values = (float8_or_none(self._given_now()), float8(timeout), *columns)
        found = yield asking(self._renew, values, again=True, rows=True)
        self._wake.touched(map(queue_token, queues))
        renewed = {(key, attempts): until for key, attempts, until in found}
        return [renewed.get((key, one.token)) for key, one in zip(keys, leases, strict=True)]

    # commit

    def committing(self, changes: Changes) -> Steps[Committed]:
        committed: Committed | None = None
        if self.read_only or changes.lease is not None or not is_step(changes):
            committed = yield lambda: self.commit(changes)
        else:
            committed = yield from self._stepping(changes)
            if committed is None:
                committed = yield lambda: self._apply(changes)
        assert committed is not None
        return committed

    def commit(self, changes: Changes) -> Committed:
        if self.read_only:
            self._require_writable()
        if changes.lease is None:
            return self._commit(changes)
        began = time.monotonic()
        committed = self._commit(changes)
        committed.leased = self._whole(committed.leased, changes.lease, began)
        return committed

    def _commit(self, changes: Changes) -> Committed:
        if is_step(changes):
            done = self._run(self._stepping(changes))
            if done is not None:
                return done
        elif is_put(changes) and (self._watched.seen is None or not any(map(_is_born_expired, changes.enqueue))):
            if len(changes.enqueue) < COPY_FROM:
                return self._put(changes.enqueue)
            return self._apply(changes, locked=False)
        return self._apply(changes)

    def _stepping(self, changes: Changes) -> Steps[Committed | None]:
        """A worker's step in one statement; None when there is more to it."""
        if changes.records and not self._server_clock.is_known():
            yield self._server_clock.ns
        versions = [0 if one.value is None else self.ids.reserve() for one in changes.records]
        values = self._step_values(changes, versions)
        if values is None:
            return None
        told = record_tokens(changes.records)
        try:
            if told:
                told_to = self._said_of_records, said(told).encode()
                rows = yield asking(self._tell_step, (*values, *told_to), rows=True)
            else:
                rows = yield asking(self._take_step, values, rows=True)
        except errors.MoreToDo:
            return None
        if rows and rows[0][0] is None:
            return None
        request = changes.lease
        leased = [] if request is None else [claimed_message(self.ids, request, row) for row in rows]
        if leased or changes.settle:
            name = changes.settle[0].queue if request is None else request.queue
            self._wake.touched((queue_token(name),))
            self._record_wake.touched(told)
        return Committed(settled=[True] * len(changes.settle), leased=leased, versions=versions)

    def _step_values(self, changes: Changes, versions: Sequence[int]) -> tuple[bytes | None, ...] | None:
        """The parameters of `lq_step`; None when a message or a queue is unknown, which the long way tells apart."""
        request = changes.lease or _NO_CLAIM
        name = changes.settle[0].queue if changes.settle else request.queue
        queue = self.queue_ids.get(name)
        if queue is None:
            return None
        key_of = self.ids.key_of
        acks = sorted([(key_of(one.id) or 0, one.token or 0) for one in changes.settle])
        records = changes.records
        return (
            array("int8", [key for key, _ in acks]),
            array("int4", [token for _, token in acks]),
            array("bytea", [raw(one.kind) for one in records]),
            array("bytea", [raw(one.key) for one in records]),
            array("bytea", [one.value for one in records]),
            array("int8", versions),
            array("int8", [one.expect for one in records]),
            float8_or_none(self._given_now()),
            int4(queue),
            int4(request.limit),
            float8(request.timeout),
            raw_or_none(request.leased_by),
            int4_or_none(request.max_attempts),
            TRUE if request.consume else FALSE,
            TRUE if request.counted else FALSE,
            int4(self.namespace_id),
            raw_or_none(request.ledger),
            raw(name) if request.ledger is not None else b"",
            self._said,
            queue_token(name).encode(),
        )


def _is_simple(request: LeaseRequest) -> bool:
    """Whether there is nothing to do but to lease."""
    return not request.consume and request.ledger is None and (request.leased_by is None or not request.counted)


def _is_born_expired(message: NewMessage) -> bool:
    """Whether there is something to tell of a plain message beside that it was put."""
    return message.ttl is not None and message.ttl <= 0


def _place_in_line(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return -row[5], row[8], row[0]
