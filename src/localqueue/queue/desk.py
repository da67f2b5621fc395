"""The queue's second face: what workers, schedules, dispatchers and transactions ask of a queue.

Applications put and get; those who serve a queue claim messages, commit what became of them, and draft, store and
announce new ones. `queue.desk` offers them these verbs, and nobody outside of this package reaches further into a
queue. The queue's own methods go through the same desk, so that hooks, limits and payloads are looked after in one
place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Unpack

from localqueue.errors import PayloadError
from localqueue.events.event import ACKED, DISPATCH_FAILED, DISPATCHED, NOTIFICATION_FAILED, NOTIFIED
from localqueue.message import QueueMessage
from localqueue.policies import Configuration
from localqueue.queue.admission import Admission, Admitted
from localqueue.queue.batch import StoredBatch
from localqueue.queue.drafts import BatchOptions, check_put_options, check_timeout, encode_headers, id_of, upstream_ids
from localqueue.queue.emitter import Emitter
from localqueue.queue.payloads import Payloads, message_of, new_message
from localqueue.queue.setup import limit_of
from localqueue.queue.tenancy import Tenancy
from localqueue.queue.unfinished import Unfinished
from localqueue.stores.kept_error import describe_error
from localqueue.stores.port import (
    INFLIGHT,
    Action,
    Changes,
    Committed,
    Enqueued,
    LeaseRequest,
    Limit,
    NewMessage,
    Outcome,
    QueueStore,
    RecordWrite,
    Settle,
    StoredMessage,
)


class Desk:
    """Does the work of one queue object at its store. Not for applications: they have the queue itself.

    `limit` is the queue's capacity as a condition of a commit, `request` what one claim asks for by default. A queue
    that `consumes` is one where a claim removes its messages, so that nothing is left to settle.
    """

    def __init__(self, configuration: Configuration, tenancy: Tenancy) -> None:
        self.name = configuration.name
        self.configuration = configuration
        self.tenancy = tenancy
        self.limit = limit_of(configuration.backpressure)
        self.emitter = Emitter(self.name, tenancy)
        self.payloads = Payloads(self.name, configuration.codec)
        self.admission = Admission(configuration, self.limit, tenancy)
        self.unfinished = Unfinished()
        self.is_quiet = not (
            configuration.notification_policy.notifies_on_put or configuration.dispatch_policy.dispatches_on_put
        )
        self.is_plain = (
            self.limit is None
            and configuration.backpressure.overflow != "throttle"
            and not configuration.routing_policy.fanout
            and not configuration.requires_dedupe_key
        )
        self.consumes = configuration.delivery_policy.ack_timing == "before-delivery"
        self.lease_seconds = float(getattr(configuration.lease_policy, "timeout", 30.0))
        self.request = LeaseRequest(self.name, 1, self.lease_seconds, None, configuration.max_attempts, self.consumes)

    @property
    def store(self) -> QueueStore:
        store = self.tenancy.current
        return self.tenancy.open() if store is None else store

    def check_shares_store(self, other: Desk, way_out: str = "pass both the same store=") -> None:
        """Refuse another queue that can not change in one commit with this one."""
        if other.store is not self.store:
            raise ValueError(
                f"queues {self.name!r} and {other.name!r} do not share a store object, so they can not change "
                f"together; {way_out}"
            )

    def check_stores_itself(self) -> None:
        """Refuse to put into a topic: its messages are copies in the queues of its subscribers."""
        if self.configuration.routing_policy.fanout:
            raise ValueError(f"queue {self.name!r} publishes to subscribers; put into their queues with to=")

    # messages that leave the store

    def claim(self, request: LeaseRequest) -> list[StoredMessage]:
        """Lease messages, and tell the hooks."""
        emitter = self.emitter
        if emitter.hooks is None:
            return self.store.lease(request)
        leased = emitter.observed(lambda: self.store.lease(request))
        emitter.tell_leased(leased, request.consume)
        return leased

    def unpack(self, stored: StoredMessage) -> QueueMessage[Any] | None:
        """The leased message, or None when it can not be read: then it has become a dead letter."""
        try:
            return message_of(stored, self.payloads.decode(stored))
        except PayloadError as error:
            self._bury(stored, {"type": "PayloadError", "module": "localqueue", "message": str(error)})
            return None

    def settlement(
        self, message: QueueMessage[Any] | str, action: Action, *, delay: float = 0.0, error: object = None
    ) -> Settle:
        """How a message ends, fenced by its lease; without one (not leased, a bare id) it is an operator's override."""
        message_id, token = fenced(message)
        return Settle(
            self.name, message_id, action, token, delay, describe_error(error), self.configuration.max_attempts
        )

    def commit(
        self,
        changes: Changes,
        messages: Iterable[QueueMessage[Any] | str] = (),
        others: Sequence[Desk] = (),
    ) -> Committed:
        """Commit, and tell the hooks everything that came of it.

        `messages` are those that are settled, for what is known about them. `others` hear what concerns their queue.
        """
        ours = self.emitter
        if ours.hooks is None and not others:
            return self.store.commit(changes)
        emitters = {one.name: one.emitter for one in others}
        if ours.hooks is None and all(one.hooks is None for one in emitters.values()):
            return self.store.commit(changes)
        with self.store.observe() as seen:
            committed = self.store.commit(changes)
        for draft, enqueued in zip(changes.enqueue, committed.enqueued, strict=True):
            queue = draft.queue
            if enqueued.outcome == "diverted":
                queue = changes.limits[queue].overflow_queue or queue
            emitters.get(queue, ours).tell_put(queue, enqueued.id or draft.id, enqueued.outcome, enqueued.at)
        for transition in seen:
            emitters.get(transition.queue, ours).tell(transition)
        known = {one.id: one for one in messages if isinstance(one, QueueMessage)}
        for settle, settled in zip(changes.settle, committed.settled, strict=True):
            if settled and settle.action == "ack":
                emitters.get(settle.queue, ours).emit(ACKED, known.get(settle.id, settle.id))
        ours.tell_leased(committed.leased, changes.lease is not None and changes.lease.consume)
        return committed

    # messages that come in

    def draft(self, item: Any, *, dedupe_key: str | None = None, **options: Unpack[BatchOptions]) -> NewMessage:
        """An item as a message that can be stored: checked, encoded, with a new id."""
        return self.drafts((item,), (dedupe_key,), **options)[0]

    def drafts(
        self,
        items: Sequence[Any],
        dedupe_keys: Sequence[str | None],
        *,
        timeout: float | None = None,
        delay: float = 0.0,
        priority: int = 0,
        ttl: float | None = None,
        headers: Mapping[str, str] | None = None,
        ordering_key: str | None = None,
        run_id: str | None = None,
        after: Iterable[QueueMessage[Any] | str] = (),
    ) -> list[NewMessage]:
        """Several with the same options, and a dedupe key, or None, for each. `timeout` is checked in its turn."""
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
        ids = self.store.mint(len(items))
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
        return self.admission.admit(drafts, records, commit or self.commit, block=block, timeout=timeout)

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
        if outcome not in ("stored", "diverted"):
            return
        notification, dispatch = self.configuration.notification_policy, self.configuration.dispatch_policy
        if notification.notifies_on_put:
            self.emitter.told(NOTIFIED, NOTIFICATION_FAILED, message, notification.notify)
        if self.configuration.dispatcher_leases:
            dispatch.dispatch(message)  # it tells itself, when a handler has run
        elif dispatch.dispatches_on_put:
            self.emitter.told(DISPATCHED, DISPATCH_FAILED, message, dispatch.dispatch)

    def announce_all(self, admitted: Admitted, items: Sequence[Any]) -> Sequence[QueueMessage[Any]]:
        """Announce what became of drafts; the message of each, or its first copy. Failures are raised at the end."""
        messages = self.all_stored(admitted, items)
        if not self.is_quiet:
            failures: list[Exception] = []
            for message, enqueued in zip(messages, admitted.enqueued, strict=True):
                try:
                    self.announce(message, enqueued.outcome)
                except Exception as error:
                    failures.append(error)
            raise_all(failures)
        return messages if admitted.copies == 1 else messages[:: admitted.copies]

    def _bury(self, stored: StoredMessage, problem: dict[str, Any]) -> None:
        """Keep a message that can not be read as a dead letter; one delivered at most once is stored again for that."""
        if not self.consumes:
            settle = Settle(self.name, stored.id, "dead-letter", stored.attempts, error=problem)
            self.commit(Changes(settle=(settle,), strict=False))
            return
        (new_id,) = self.store.mint()
        again = NewMessage(new_id, self.name, stored.payload, stored.codec, headers=stored.headers)
        buried = Settle(self.name, new_id, "dead-letter", error=problem)
        self.commit(Changes(enqueue=(again,), settle=(buried,)))


def fenced(message: QueueMessage[Any] | str) -> tuple[str, int | None]:
    """Id and fencing token. Only a leased message has a token; anything else is an operator's override."""
    if isinstance(message, QueueMessage):
        return message.id, message.attempts if message.state == INFLIGHT else None
    return id_of(message), None


def limits_of(desks: Iterable[Desk]) -> dict[str, Limit]:
    """The capacity of each queue that has one, for a commit that puts into several."""
    return {desk.name: desk.limit for desk in desks if desk.limit is not None}


def raise_all(failures: list[Exception]) -> None:
    """Raise what went wrong after the messages were stored; they stay stored."""
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup("several messages were stored but could not be announced", failures)
