"""The producer's side: put, put_many and publishing to subscribers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from localqueue.errors import IdTaken, QueueFull, SubscriptionsChanged
from localqueue.events.event import DISPATCH_FAILED, DISPATCHED, NOTIFICATION_FAILED, NOTIFIED
from localqueue.message import QueueMessage
from localqueue.policies import Throttling, subscriber_queue_name
from localqueue.queue.batch import StoredBatch
from localqueue.queue.core import QueueCore
from localqueue.queue.drafts import (
    check_put_options,
    check_timeout,
    encode_headers,
    has_no_options,
    one_key_each,
    upstream_ids,
)
from localqueue.queue.joining import joining_store
from localqueue.stores.port import DELAYED, READY, Changes, Committed, Enqueued, NewMessage, Outcome

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")

_LOOK_FOR_LEAVERS = 0.25


class Producing(QueueCore[T]):
    def put(
        self,
        item: T,
        block: bool = True,
        timeout: float | None = None,
        *,
        delay: float = 0.0,
        dedupe_key: str | None = None,
        priority: int = 0,
        ttl: float | None = None,
        headers: Mapping[str, str] | None = None,
        ordering_key: str | None = None,
        run_id: str | None = None,
        after: Iterable[QueueMessage[Any] | str] = (),
        connection: sqlite3.Connection | None = None,
    ) -> QueueMessage[T]:
        """Store an item durably and return its message.

        When this returns, the message survives the death of the process. `delay` holds it back, `ttl` takes it out of
        delivery when it was not consumed in time, `after` makes it wait until those messages are acked. While a live
        message with the same `dedupe_key` exists, that one is returned and nothing is stored. A full queue blocks,
        raises `queue.Full` or loses what its backpressure policy names. On a publish/subscribe queue every subscriber
        gets a copy, in one transaction, and the first one is returned.

        With `connection`, a connection of yours to the file of the queue, the message is put in its transaction: it is
        there once you commit and never was when you roll back. A full queue then raises at once, and no notification
        policy is called.
        """
        plain = has_no_options(timeout, delay, priority, ttl, headers, ordering_key, run_id, after)
        if plain and self._plain and dedupe_key is None and connection is None:
            message_id, at = self.store.put_one(self.name, self._codec.encode(item), self._codec_name)
            if self._hooks is not None:
                self._tell_put(self.name, message_id, "stored", at)
            message: QueueMessage[T] = QueueMessage.of(
                id=message_id,
                value=item,
                queue=self.name,
                created_at=at,
                available_at=at,
                attempt_history=[],
                headers={},
            )
            if not self._quiet:
                self._announce_one(message, "stored")
            return message
        drafts = self._drafts(
            (item,), timeout, delay, (dedupe_key,), priority, ttl, headers, ordering_key, run_id, after
        )
        return self._put(drafts, (item,), block, timeout, connection)[0]

    def put_nowait(self, item: T) -> QueueMessage[T]:
        """Store an item or raise `queue.Full` at once."""
        return self.put(item, block=False)

    def put_many(
        self,
        items: Iterable[T],
        block: bool = True,
        timeout: float | None = None,
        *,
        delay: float = 0.0,
        dedupe_keys: Iterable[str] | None = None,
        priority: int = 0,
        ttl: float | None = None,
        headers: Mapping[str, str] | None = None,
        ordering_key: str | None = None,
        run_id: str | None = None,
        after: Iterable[QueueMessage[Any] | str] = (),
        connection: sqlite3.Connection | None = None,
    ) -> Sequence[QueueMessage[T]]:
        """Store all items in one transaction, in order, or none of them.

        The options apply to each item; `dedupe_keys` has one key for each. With `connection` they are part of your
        transaction, as with `put`.
        """
        values = tuple(items)
        keys = one_key_each(dedupe_keys, len(values))
        if not values:
            return []
        plain = has_no_options(timeout, delay, priority, ttl, headers, ordering_key, run_id, after)
        if plain and self._plain and self._quiet and dedupe_keys is None and connection is None:
            payloads = [self._codec.encode(value) for value in values]
            ids, at = self.store.put_batch(self.name, payloads, self._codec_name)
            if self._hooks is not None:
                for message_id in ids:
                    self._tell_put(self.name, message_id, "stored", at)
            return StoredBatch(self.name, values, ids, at)
        limit = self._limit
        if limit is not None and limit.overflow == "reject" and len(values) > limit.maxsize:
            raise ValueError(
                f"a batch of {len(values)} can never fit queue {self.name!r}, which admits {limit.maxsize} ready "
                "messages; put smaller batches"
            )
        drafts = self._drafts(values, timeout, delay, keys, priority, ttl, headers, ordering_key, run_id, after)
        return self._put(drafts, values, block, timeout, connection)

    def _drafts(
        self,
        items: Sequence[T],
        timeout: float | None,
        delay: float,
        dedupe_keys: Sequence[str | None],
        priority: int,
        ttl: float | None,
        headers: Mapping[str, str] | None,
        ordering_key: str | None,
        run_id: str | None,
        after: Iterable[QueueMessage[Any] | str],
    ) -> list[NewMessage]:
        """Checked, encoded and with new ids."""
        for dedupe_key in dict.fromkeys(dedupe_keys):
            check_put_options(
                self._configuration,
                delay=delay,
                dedupe_key=dedupe_key,
                priority=priority,
                ttl=ttl,
                ordering_key=ordering_key,
                run_id=run_id,
            )
        check_timeout(timeout)
        header_text = None if headers is None else encode_headers(headers)
        upstream = () if after == () else upstream_ids(after)
        encode, codec, name = self._codec.encode, self._codec_name, self.name
        ids = self.store.mint(len(items))
        return [
            NewMessage(
                new_id, name, encode(item), codec, delay, priority, dedupe_key, ordering_key, ttl, header_text, run_id,
                upstream,
            )
            for new_id, item, dedupe_key in zip(ids, items, dedupe_keys, strict=True)
        ]  # fmt: skip

    def _put(
        self,
        drafts: list[NewMessage],
        items: Sequence[T],
        block: bool,
        timeout: float | None,
        connection: sqlite3.Connection | None,
    ) -> list[QueueMessage[T]]:
        commit: Callable[[Changes], Committed] = self._commit
        if connection is not None:
            commit = partial(joining_store(self._configuration, self.store, timeout).commit_within, connection)
            block = False
        self._throttle(block, timeout)
        changes, committed = self._store_drafts(lambda: self._enqueueing(drafts), block, timeout, commit)
        copies = len(changes.enqueue) // len(drafts)
        announce = self._announce if connection is None else self._put_messages
        return announce(changes.enqueue, committed, [item for item in items for _ in range(copies)])[::copies]

    def _targets(self) -> list[str]:
        """The queues that get a copy."""
        if not self._configuration.routing_policy.fanout:
            return [self.name]
        return [subscriber_queue_name(self.name, subscriber) for subscriber in self._current_subscribers()[0]]

    def _store_drafts(
        self,
        make: Callable[[], Changes],
        block: bool,
        timeout: float | None,
        commit: Callable[[Changes], Committed],
    ) -> tuple[Changes, Committed]:
        """Commit new messages, waiting for capacity where that is wanted."""
        store = self.store
        deadline = None if timeout is None else time.monotonic() + timeout
        changes = make()
        while True:
            try:
                return changes, commit(changes)
            except (IdTaken, SubscriptionsChanged):
                changes = make()
                ids = store.mint(len(changes.enqueue))
                changes.enqueue = [draft._replace(id=fresh) for fresh, draft in zip(ids, changes.enqueue, strict=True)]
            except QueueFull:
                if not block or self._configuration.backpressure.overflow == "reject":
                    raise
                remaining = None if deadline is None else deadline - time.monotonic()
                if remaining is not None and remaining <= 0:
                    raise
                self._wait_for_capacity(changes, remaining)
                if changes.topics:
                    changes = make()

    def _wait_for_capacity(self, changes: Changes, timeout: float | None) -> None:
        wanted: dict[str, int] = {}
        for message in changes.enqueue:
            wanted[message.queue] = wanted.get(message.queue, 0) + 1
        room = {name: limit.maxsize - wanted.get(name, 1) + 1 for name, limit in changes.limits.items()}
        if changes.topics:  # the subscriber that is in the way may leave
            timeout = _LOOK_FOR_LEAVERS if timeout is None else min(timeout, _LOOK_FOR_LEAVERS)
        with self.store.listen_capacity(room) as waiter:
            waiter.wait(timeout)

    def _throttle(self, block: bool, timeout: float | None) -> None:
        policy = self._configuration.backpressure
        if isinstance(policy, Throttling):
            pause = policy.delay_for(qsize=max(map(self.store.load, self._targets()), default=0))
            if pause > 0:
                if not block or (timeout is not None and timeout < pause):
                    raise QueueFull(self.name, policy.maxsize)
                threading.Event().wait(pause)

    def _enqueueing(self, drafts: Sequence[NewMessage]) -> Changes:
        """The drafts as changes under the queue's limit; a queue that publishes makes a copy for each subscriber."""
        limit = self._limit
        if not self._configuration.routing_policy.fanout:
            return Changes(enqueue=drafts, limits={} if limit is None else {self.name: limit})
        subscribers, version = self._current_subscribers()
        if not subscribers:
            raise ValueError("publish-subscribe routing requires configured subscribers")
        names = [subscriber_queue_name(self.name, subscriber) for subscriber in subscribers]
        ids = iter(self.store.mint(len(drafts) * len(names)))
        return Changes(
            enqueue=[
                draft._replace(
                    id=next(ids),
                    queue=name,
                    dedupe_key=None if draft.dedupe_key is None else f"{draft.dedupe_key}:{subscriber}",
                )
                for draft in drafts
                for subscriber, name in zip(subscribers, names, strict=True)
            ],
            limits={} if limit is None else dict.fromkeys(names, limit),
            topics={} if version is None else {self.name: version},
        )

    def _current_subscribers(self) -> tuple[tuple[str, ...], int | None]:
        """Who gets a copy, and the version of the stored subscriptions if there are any."""
        policy = self._configuration.subscription_policy
        if not getattr(policy, "dynamic", False):
            return tuple(policy.subscribers), None
        version, stored = self.store.subscriptions(self.name)
        return tuple(dict.fromkeys((*policy.subscribers, *stored))), version

    def _announce(
        self, drafts: Sequence[NewMessage], committed: Committed, items: Sequence[T]
    ) -> list[QueueMessage[T]]:
        """Turn what was stored into messages, then notify, then dispatch. Duplicates are not announced again."""
        messages = self._put_messages(drafts, committed, items)
        if self._quiet:
            return messages
        failures: list[Exception] = []
        for message, enqueued in zip(messages, committed.enqueued, strict=True):
            try:
                self._announce_one(message, enqueued.outcome)
            except Exception as error:
                failures.append(error)
        raise_all(failures)
        return messages

    def _announce_one(self, message: QueueMessage[T], outcome: Outcome) -> None:
        if outcome not in ("stored", "diverted"):
            return
        notification, dispatch = self._configuration.notification_policy, self._configuration.dispatch_policy
        if notification.notifies_on_put:
            self._told(NOTIFIED, NOTIFICATION_FAILED, message, notification.notify)
        if self._configuration.dispatcher_leases:
            dispatch.dispatch(message)  # it tells itself, when a handler has run
        elif dispatch.dispatches_on_put:
            self._told(DISPATCHED, DISPATCH_FAILED, message, dispatch.dispatch)

    def _put_messages(
        self, drafts: Sequence[NewMessage], committed: Committed, items: Sequence[T]
    ) -> list[QueueMessage[T]]:
        return [
            self._put_message(draft, enqueued, item)
            for draft, enqueued, item in zip(drafts, committed.enqueued, items, strict=True)
        ]

    def _put_message(self, draft: NewMessage, enqueued: Enqueued, item: T) -> QueueMessage[T]:
        outcome, state, at, existing = enqueued
        if existing is not None:
            return self._seen(existing)
        queue = draft.queue
        if outcome == "diverted" and self._limit is not None and self._limit.overflow_queue is not None:
            queue = self._limit.overflow_queue
        return QueueMessage.of(
            id=draft.id,
            value=item,
            queue=queue,
            state=READY if state == DELAYED else state,
            created_at=at,
            available_at=at + draft.delay,
            attempt_history=[],
            dedupe_key=draft.dedupe_key,
            priority=draft.priority,
            headers={} if draft.headers is None else json.loads(draft.headers),
            ordering_key=draft.ordering_key,
            expires_at=None if draft.ttl is None else at + draft.ttl,
            run_id=draft.run_id,
        )


def raise_all(failures: list[Exception]) -> None:
    """Raise what went wrong after the messages were stored; they stay stored."""
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup("several messages were stored but could not be announced", failures)
