"""The hot paths: put, claim, ack, and a worker's step of many acks and the next claim.

Each is one statement, and so one round trip and one commit. Where one of them finds that there is more to do (a timer
has passed, an ack sets something free) it changes nothing, and the call takes the long way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from localqueue.errors import IdTaken, QueueStoreUnavailableError
from localqueue.stores.observing import _Watched
from localqueue.stores.port import (
    STATES,
    Changes,
    Committed,
    Enqueued,
    LeaseRequest,
    NewMessage,
    Payload,
    Settle,
    StoredMessage,
)
from localqueue.stores.postgres import driver
from localqueue.stores.postgres import lease as leasing
from localqueue.stores.postgres.changes import apply, is_put, queues_of
from localqueue.stores.postgres.enqueue import landing, own_key, plain_values
from localqueue.stores.postgres.quick import (
    FALSE,
    TRUE,
    Quick,
    as_float8,
    float8,
    float8_or_none,
    int2,
    int4,
    int4_or_none,
    int8,
)
from localqueue.stores.postgres.reads import ReadsQueues
from localqueue.stores.postgres.rows import claimed_message, raw_or_none, raw_payload
from localqueue.stores.postgres.step import is_step, step_values
from localqueue.stores.postgres.tokens import queue_token
from localqueue.stores.postgres.tx import said
from localqueue.stores.wake import Wake

_NOTHING_OF_A_LEDGER = (None, None, None)


class HotPaths(ReadsQueues):
    channel: str
    _wake: Wake
    _watched: _Watched
    _write: Callable[..., Any]
    _queue_id: Callable[[str], int]

    def _prepare_hot_paths(self, *, pooled: bool) -> None:
        self._put_one = Quick("put_one", self.sql.PUT_ONE, pooled=pooled)
        self._put_more = Quick("put_with_options", self.sql.PUT_WITH_OPTIONS, pooled=pooled)
        self._ack_one = Quick("ack_one", self.sql.ACK_ONE, pooled=pooled)
        self._claim = None if pooled else Quick("claim_plain", self.sql.CLAIM_PLAIN, pooled=False)
        self._is_due = Quick("is_due", self.sql.IS_DUE, pooled=pooled)
        self._take_step = Quick("step", self.sql.STEP, pooled=pooled)
        self._said = self.channel.encode()

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        row = self.queue_ids.get(queue) or self._queue_id(queue)
        data, is_text = raw_payload(payload)
        mark = queue_token(queue)
        while True:
            key = self.ids.reserve()
            values = (
                float8_or_none(self._given_now()), int8(key), int4(row), data, TRUE if is_text else FALSE,
                raw_or_none(codec), self._said, mark.encode(),
            )  # fmt: skip
            try:
                result = self._on_a_link(lambda link: self._put_one.run(link, values))  # noqa: B023
                break
            except self._driver_error as error:
                if not _is_taken(error):  # another process minted the same key
                    raise driver.translate(error, self._url) from error
        self._wake.touched((mark,))
        return self.ids.id_of(key), as_float8(result.get_value(0, 0))[0]

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        key = self.ids.key_of(message_id)
        row = self.queue_ids.get(queue) or self._find_queue(queue)
        if key is None or row is None:
            return False
        now = self._given_now()
        values = int8(key), int4(row), int4(token), None if now is None else str(now).encode()
        try:
            acked = self._ack_hot(values)
        except QueueStoreUnavailableError:
            # It may have been done or not. If it was not, it is now; of a message that is gone nobody can say who
            # acked it, so that stays an error.
            acked = self._ack_hot(values)
            if not acked and self.get(queue, message_id) is None:
                raise
        if acked:
            self._wake.touched((queue_token(queue),))
            return True
        settle = Settle(queue, message_id, "ack", token)
        done: Committed = self._write(lambda tx: apply(tx, Changes(settle=(settle,), strict=False)), [queue])
        return done.settled[0]

    def _ack_hot(self, values: Sequence[bytes | None]) -> bool:
        try:
            return bool(self._on_a_link(lambda link: self._ack_one.run(link, values)).command_tuples)
        except self._driver_error as error:
            raise driver.translate(error, self._url) from error

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        queue = self.queue_ids.get(request.queue) or self._find_queue(request.queue)
        if queue is None:
            return []
        rows = self._claim_some(queue, request)
        if rows is None:
            while True:
                messages: list[StoredMessage] | None = self._write(
                    lambda tx: leasing.lease(tx, request), [request.queue]
                )
                if messages is not None:
                    return messages
        if rows:
            self._wake.touched((queue_token(request.queue),))
        return [claimed_message(self.ids, request, row) for row in rows]

    def _claim_some(self, queue: int, request: LeaseRequest) -> list[tuple[Any, ...]] | None:
        """The rows of what was claimed; None when there is more to do first."""
        try:
            if self._claim is not None and leasing.is_plain(request):
                return self._claim_plain(self._claim, queue, request)
            values = leasing.claim_values(self, queue, request, now=self._given_now(), consume=request.consume)
            rows: list[tuple[Any, ...]] = self._statement(self.sql.CLAIM, values).fetchall()
        except self._driver_error as error:
            if leasing.more_to_do(error):
                return None
            raise driver.translate(error, self._url) from error
        return None if rows and rows[0][0] is None else rows

    def _claim_plain(self, claim: Quick, queue: int, request: LeaseRequest) -> list[tuple[Any, ...]] | None:
        now = self._given_now()
        values = (
            float8_or_none(now), int4(queue), int4(request.limit), float8(request.timeout),
            raw_or_none(request.leased_by), int4_or_none(request.max_attempts), self._said,
            queue_token(request.queue).encode(),
        )  # fmt: skip
        rows = self._on_a_link(lambda link: claim.rows(link, values))
        if len(rows) > 1:
            rows.sort(key=_place_in_line)
        elif not rows:
            asked = values[0], values[1], values[4]
            due = self._on_a_link(lambda link: self._is_due.run(link, asked), again=True)
            return None if due.get_value(0, 0) == TRUE else []
        return [(*row[:18], *_NOTHING_OF_A_LEDGER) for row in rows]

    def commit(self, changes: Changes) -> Committed:
        if is_step(changes):
            done = self._step(changes)
            if done is not None:
                return done
        elif self._watched.seen is None and is_put(changes):
            return self._put(changes)
        committed: Committed = self._write(lambda tx: apply(tx, changes), queues_of(changes))
        return committed

    def _put(self, changes: Changes) -> Committed:
        messages = changes.enqueue
        if len(messages) == 1:
            return self._put_with_options(messages[0])
        tokens = {queue_token(message.queue) for message in messages}
        queue_ids = {name: self._queue_id(name) for name in {message.queue for message in messages}}
        values = plain_values(self.ids, queue_ids, messages)
        at = self._insert(self.sql.PUT_PLAIN, (self._given_now(), *values, self.channel, said(tokens)))
        self._wake.touched(tokens)
        return Committed(enqueued=[Enqueued("stored", STATES[landing(message)], at) for message in messages])

    def _put_with_options(self, message: NewMessage) -> Committed:
        mark = queue_token(message.queue)
        payload, is_text = raw_payload(message.payload)
        state = landing(message)
        values = (
            float8_or_none(self._given_now()), int8(own_key(self.ids, message.id)),
            int4(self.queue_ids.get(message.queue) or self._queue_id(message.queue)), int2(state),
            int8(message.priority), float8(message.delay), payload, TRUE if is_text else FALSE,
            raw_or_none(message.codec), raw_or_none(message.headers), float8_or_none(message.ttl), self._said,
            mark.encode(),
        )  # fmt: skip
        try:
            result = self._on_a_link(lambda link: self._put_more.run(link, values))
        except self._driver_error as error:
            if _is_taken(error):
                raise IdTaken(f"message id {message.id} is in use") from error
            raise driver.translate(error, self._url) from error
        self._wake.touched((mark,))
        return Committed(enqueued=[Enqueued("stored", STATES[state], as_float8(result.get_value(0, 0))[0])])

    def _insert(self, statement: str, values: Sequence[Any]) -> float:
        """Run a statement that inserts messages; the time at which it did."""
        try:
            return float(self._statement(statement, values).fetchone()[0])
        except self._driver_error as error:
            if _is_taken(error):
                raise IdTaken("a message id of this commit is in use") from error
            raise driver.translate(error, self._url) from error

    def _step(self, changes: Changes) -> Committed | None:
        """A worker's step in one statement; None when there is more to it."""
        values = step_values(self, changes)
        if values is None:
            return None
        try:
            rows = self._on_a_link(lambda link: self._take_step.rows(link, values))
        except self._driver_error as error:
            if leasing.more_to_do(error):
                return None
            raise driver.translate(error, self._url) from error
        if rows and rows[0][0] is None:
            return None
        request = changes.lease
        leased = [] if request is None else [claimed_message(self.ids, request, row) for row in rows]
        if leased or changes.settle:
            name = changes.settle[0].queue if request is None else request.queue
            self._wake.touched((queue_token(name),))
        return Committed(settled=[True] * len(changes.settle), leased=leased)


def _place_in_line(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return -row[5], row[8], row[0]


def _is_taken(error: BaseException) -> bool:
    return driver.constraint_of(error) == "lq_messages_pkey"
