"""The producer's side: put, put_many and publishing to subscribers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from localqueue.message import QueueMessage, T
from localqueue.queue.core import QueueCore
from localqueue.queue.drafts import has_no_options, one_key_each
from localqueue.queue.payloads import plain_batch, plain_message
from localqueue.queue.users_transaction import joining_store
from localqueue.stores.port import NewMessage

if TYPE_CHECKING:
    import sqlite3


class Producer(QueueCore[T]):
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
        desk = self.desk
        plain = has_no_options(timeout, delay, priority, ttl, headers, ordering_key, run_id, after)
        if plain and desk.is_plain and dedupe_key is None and connection is None:
            payloads = desk.payloads
            put_one = desk.store.put_one if desk.emitter.hooks is None else desk.put_one
            message_id, at = put_one(self.name, payloads.encode(item), payloads.codec_name)
            message = plain_message(message_id, self.name, at, item)
            if not desk.is_quiet:
                desk.announce(message, "stored")
            return message
        drafts = desk.drafts(
            (item,),
            (dedupe_key,),
            timeout=timeout,
            delay=delay,
            priority=priority,
            ttl=ttl,
            headers=headers,
            ordering_key=ordering_key,
            run_id=run_id,
            after=after,
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
        desk = self.desk
        plain = has_no_options(timeout, delay, priority, ttl, headers, ordering_key, run_id, after)
        if plain and desk.is_plain and desk.is_quiet and dedupe_keys is None and connection is None:
            encode = desk.payloads.encode
            payloads = [encode(value) for value in values]
            put_batch = desk.store.put_batch if desk.emitter.hooks is None else desk.put_batch
            ids, at = put_batch(self.name, payloads, desk.payloads.codec_name)
            return plain_batch(ids, self.name, at, values)
        desk.admission.check_fits(len(values))
        drafts = desk.drafts(
            values,
            keys,
            timeout=timeout,
            delay=delay,
            priority=priority,
            ttl=ttl,
            headers=headers,
            ordering_key=ordering_key,
            run_id=run_id,
            after=after,
        )
        return self._put(drafts, values, block, timeout, connection)

    def _put(
        self,
        drafts: Sequence[NewMessage],
        items: Sequence[T],
        block: bool,
        timeout: float | None,
        connection: sqlite3.Connection | None,
    ) -> Sequence[QueueMessage[T]]:
        desk = self.desk
        if connection is not None:
            joining = joining_store(desk.configuration, desk.store, timeout)
            desk.admission.throttle(block=False, timeout=None)
            admitted = desk.enqueue(drafts, commit=partial(joining.commit_within, connection))
            return desk.all_stored(admitted, items)[:: admitted.copies]
        desk.admission.throttle(block, timeout)
        return desk.announce_all(desk.enqueue(drafts, block=block, timeout=timeout), items)
