"""Messages that come in: drafted, stored as the queue's policies say, and announced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from localqueue._named_tuple import NamedTuple
from localqueue.events.event import DISPATCH_FAILED, DISPATCHED, NOTIFICATION_FAILED, NOTIFIED
from localqueue.message import QueueMessage
from localqueue.queue.admission import Admitted
from localqueue.queue.batch import StoredBatch
from localqueue.queue.desk.core import NOBODY, DeskCore
from localqueue.queue.drafts import (
    BatchOptions,
    PutOptions,
    check_put_options,
    check_timeout,
    encode_headers,
    upstream_ids,
)
from localqueue.queue.payloads import new_message
from localqueue.stores.port import Changes, Committed, Enqueued, Limit, NewMessage, Outcome, RecordWrite

_NEWS = ("stored", "diverted")


class Ready(NamedTuple):
    """Stands for a message of a queue that has just become ready, as far as a notification is concerned."""

    queue: str
    state: str = "ready"
    created_at: float = 0.0
    available_at: float = 0.0


class Arrivals(DeskCore):
    def check_stores_itself(self) -> None:
        """Refuse to put into a topic: its messages are copies in the queues of its subscribers."""
        if self.configuration.routing_policy.fanout:
            raise ValueError(f"queue {self.name!r} publishes to subscribers; put into their queues with to=")

    def put_one(self, queue: str, payload: str | bytes, codec: str | None) -> tuple[str, float]:
        """`store.put_one` for a queue with hooks: they are told."""
        (message_id,), at = self._put_plain(1, lambda: _as_batch(self.store.put_one(queue, payload, codec)))
        return message_id, at

    def put_batch(self, queue: str, payloads: Sequence[str | bytes], codec: str | None) -> tuple[Sequence[str], float]:
        """`store.put_batch`, likewise."""
        return self._put_plain(len(payloads), lambda: self.store.put_batch(queue, payloads, codec))

    def _put_plain(self, count: int, put: Callable[[], tuple[Sequence[str], float]]) -> tuple[Sequence[str], float]:
        with self._watching("send", ("",) * count) as sending:
            ids, at = put()
            if sending is not None:
                sending.messages = list(ids)
        for message_id in ids:
            self.emitter.tell_put(self.name, message_id, "stored", at)
        return ids, at

    def draft(
        self,
        item: Any,
        *,
        ids: Sequence[str] | None = None,
        dedupe_key: str | None = None,
        **options: Unpack[BatchOptions],
    ) -> NewMessage:
        """An item as a message that can be stored: checked, encoded, with a new id."""
        return self.drafts((item,), (dedupe_key,), ids=ids, **options)[0]

    def compose(self, item: Any, *, ids: Sequence[str] | None = None, **options: Unpack[PutOptions]) -> NewMessage:
        """A draft that is committed later, with other things. It is created here, as far as anybody traces it."""
        draft = self.draft(item, ids=ids, **options)
        with self._watching("create", (draft,), open=True) as creating:
            return draft if creating is None else creating.messages[0]

    def drafts(
        self,
        items: Sequence[Any],
        dedupe_keys: Sequence[str | None],
        *,
        ids: Sequence[str] | None = None,
        timeout: float | None = None,
        delay: float = 0.0,
        priority: int = 0,
        ttl: float | None = None,
        headers: Mapping[str, str] | None = None,
        ordering_key: str | None = None,
        run_id: str | None = None,
        after: Iterable[QueueMessage[Any] | str] = (),
    ) -> list[NewMessage]:
        """Several with the same options, and a dedupe key, or None, for each. `timeout` is checked in its turn.

        They get new ids from the store, which may ask a server for them, unless `ids` are given.
        """
        check_put_options(
            self.configuration,
            dedupe_keys,
            delay=delay,
            priority=priority,
            ttl=ttl,
            ordering_key=ordering_key,
            run_id=run_id,
        )
        check_timeout(timeout)
        header_text = None if headers is None else encode_headers(headers)
        upstream = () if after == () else upstream_ids(after)
        encode, codec, name = self.payloads.encode, self.payloads.codec_name, self.name
        ids = self.store.mint(len(items)) if ids is None else ids
        return [
            NewMessage(
                new_id, name, encode(item), codec, delay, priority, dedupe_key, ordering_key, ttl, header_text, run_id,
                upstream,
            )
            for new_id, item, dedupe_key in zip(ids, items, dedupe_keys, strict=True)
        ]  # fmt: skip

    def enqueue(
        self,
        drafts: Sequence[NewMessage],
        records: Sequence[RecordWrite] = (),
        *,
        block: bool = False,
        timeout: float | None = None,
        commit: Callable[[Changes], Committed] | None = None,
    ) -> Admitted:
        """Store drafts as the queue's policies say (its limit, a copy for each subscriber) and `records` with them.

        With `block`, wait up to `timeout` seconds for room; without, a full queue raises `QueueFull`.
        """
        with self._watching("send", drafts, open=True) if drafts else NOBODY as sending:
            if sending is None:
                return self.admission.admit(drafts, records, commit or self.commit, block=block, timeout=timeout)
            admitted = self.admission.admit(
                sending.messages, records, commit or self._commit_told, block=block, timeout=timeout
            )
            sending.note_stored(admitted.drafts, admitted.enqueued)
        if records:
            self.retention.note(records)
        return admitted

    def stored(self, draft: NewMessage, enqueued: Enqueued, item: Any) -> QueueMessage[Any]:
        """The message that a draft has become; for a duplicate, the one that holds its dedupe key."""
        if enqueued.existing is not None:
            return self.payloads.show(enqueued.existing)
        queue = draft.queue
        if enqueued.outcome == "diverted" and self.limit is not None and self.limit.overflow_queue is not None:
            queue = self.limit.overflow_queue
        return new_message(draft, enqueued, queue, item)

    def all_stored(self, admitted: Admitted, items: Sequence[Any]) -> StoredBatch[Any]:
        """The messages that drafts have become, with the copies of each side by side."""
        drafts, enqueued, copies = admitted
        return StoredBatch(len(drafts), lambda n: self.stored(drafts[n], enqueued[n], items[n // copies]))

    def announce(self, message: QueueMessage[Any], outcome: Outcome) -> None:
        """Notify of a message that was stored, then dispatch it, where the policies do. A duplicate is not news."""
        if outcome not in _NEWS:
            return
        notification = self.configuration.notification_policy
        if notification.notifies_on_put:
            self.emitter.told(NOTIFIED, NOTIFICATION_FAILED, message, notification.notify)
        self._dispatch(message)

    def announce_all(self, admitted: Admitted, items: Sequence[Any]) -> Sequence[QueueMessage[Any]]:
        """Announce what became of drafts; the message of each, or its first copy. Failures are raised at the end.

        A notification that has `notify_many` is told of all of them at once.
        """
        messages = self.all_stored(admitted, items)
        if not self.is_quiet:
            notification, failures = self.configuration.notification_policy, list[Exception]()
            notify_many = getattr(notification, "notify_many", None) if notification.notifies_on_put else None
            pairs = zip(messages, admitted.enqueued, strict=True)
            if notify_many is None:
                announce = [partial(self.announce, message, enqueued.outcome) for message, enqueued in pairs]
            else:
                news = [message for message, enqueued in pairs if enqueued.outcome in _NEWS]
                self._notify_all(news, notify_many)
                announce = [partial(self._dispatch, message) for message in news]
            for tell in announce:
                try:
                    tell()
                except Exception as error:
                    failures.append(error)
            raise_all(failures)
        return messages if admitted.copies == 1 else messages[:: admitted.copies]

    def wake(self, queues: Iterable[str]) -> None:
        """Tell those who wait at these queues that a message is ready, which was not when it was put."""
        notification = self.configuration.notification_policy
        if notification.notifies_on_put:
            for queue in dict.fromkeys(queues):
                notification.notify(Ready(queue))

    def _notify_all(self, messages: Sequence[QueueMessage[Any]], notify_many: Callable[[Any], object]) -> None:
        try:
            notify_many(messages)
        except Exception as error:
            for message in messages:
                self.emitter.emit(NOTIFICATION_FAILED, message, error=error)
            raise
        for message in messages:
            self.emitter.emit(NOTIFIED, message)

    def _dispatch(self, message: QueueMessage[Any]) -> None:
        dispatch = self.configuration.dispatch_policy
        if self.configuration.dispatcher_leases:
            dispatch.dispatch(message)  # it tells itself, when a handler has run
        elif dispatch.dispatches_on_put:
            self.emitter.told(DISPATCHED, DISPATCH_FAILED, message, dispatch.dispatch)


def limits_of(desks: Iterable[Arrivals]) -> dict[str, Limit]:
    """The capacity of each queue that has one, for a commit that puts into several."""
    return {desk.name: desk.limit for desk in desks if desk.limit is not None}


def raise_all(failures: list[Exception]) -> None:
    """Raise what went wrong after the messages were stored; they stay stored."""
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup("several messages were stored but could not be announced", failures)


def _as_batch(stored: tuple[str, float]) -> tuple[Sequence[str], float]:
    return (stored[0],), stored[1]
