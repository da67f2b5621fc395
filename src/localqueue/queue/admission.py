"""New messages on their way into the store: copies for subscribers, room in the queue, waiting for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from localqueue._named_tuple import NamedTuple
from localqueue.errors import IdTaken, QueueFull, SubscriptionsChanged
from localqueue.policies import Configuration, Throttling, subscriber_queue_name
from localqueue.queue.tenancy import Tenancy
from localqueue.stores.port import Changes, Committed, Enqueued, Limit, NewMessage, RecordWrite, Waiter

_LOOK_FOR_LEAVERS = 0.25


class Admitted(NamedTuple):
    """What was stored of some drafts: `copies` of each, side by side, where the queue publishes to subscribers."""

    drafts: Sequence[NewMessage]
    enqueued: Sequence[Enqueued]
    copies: int = 1


class Admission:
    """Stores the drafts of one queue, within its limit."""

    def __init__(self, configuration: Configuration, limit: Limit | None, tenancy: Tenancy) -> None:
        self._configuration = configuration
        self._limit = limit
        self._tenancy = tenancy
        #: Whether a put may have to wait, for room or because it is slowed.
        self.may_wait = limit is not None or configuration.backpressure.overflow == "throttle"

    def check_fits(self, count: int) -> None:
        """Refuse a batch for which there will never be room."""
        limit, name = self._limit, self._configuration.name
        if count > 1 and limit is not None and limit.overflow == "reject" and count > limit.maxsize:
            raise ValueError(
                f"a batch of {count} can never fit queue {name!r}, which admits {limit.maxsize} ready messages; put "
                "smaller batches"
            )

    def throttle(self, block: bool, timeout: float | None) -> None:
        """Rest as long as a throttling policy asks for."""
        pause = self.pause(block, timeout)
        if pause > 0:
            threading.Event().wait(pause)

    def pause(self, block: bool, timeout: float | None) -> float:
        """For how long a throttling policy has this put rest; one that does not wait that long is told `QueueFull`."""
        policy = self._configuration.backpressure
        if not isinstance(policy, Throttling):
            return 0.0
        pause = policy.delay_for(qsize=max(map(self._tenancy.store.load, self._targets()), default=0))
        if pause > 0 and (not block or (timeout is not None and timeout < pause)):
            raise QueueFull(self._configuration.name, policy.maxsize)
        return pause

    def admit(
        self,
        drafts: Sequence[NewMessage],
        records: Sequence[RecordWrite],
        commit: Callable[[Changes], Committed],
        *,
        block: bool,
        timeout: float | None,
    ) -> Admitted:
        """Commit the drafts, waiting for capacity where that is wanted, and `records` with them."""
        store = self._tenancy.store
        deadline = None if timeout is None else time.monotonic() + timeout
        changes = self._changes(drafts, records)
        while True:
            try:
                committed = commit(changes)
            except (IdTaken, SubscriptionsChanged):
                changes = self._changes(drafts, records)
                ids = store.mint(len(changes.enqueue))
                changes.enqueue = [draft._replace(id=fresh) for fresh, draft in zip(ids, changes.enqueue, strict=True)]
            except QueueFull:
                if not block or self.rejects:
                    raise
                remaining = None if deadline is None else deadline - time.monotonic()
                if remaining is not None and remaining <= 0:
                    raise
                with self.listen(len(drafts)) as waiter:
                    waiter.wait(self.longest_rest(remaining))
                if changes.topics:
                    changes = self._changes(drafts, records)
            else:
                return Admitted(changes.enqueue, committed.enqueued, len(changes.enqueue) // max(len(drafts), 1))

    @property
    def rejects(self) -> bool:
        """Whether a full queue refuses at once, also those who would wait."""
        return self._configuration.backpressure.overflow == "reject"

    def listen(self, count: int) -> Waiter:
        """Wakes when there may be room for `count` messages."""
        room = 0 if self._limit is None else self._limit.maxsize - count + 1
        return self._tenancy.store.listen_capacity(dict.fromkeys(self._targets(), room))

    def longest_rest(self, timeout: float | None) -> float | None:
        """How long to wait for room at most before the subscribers are looked at again: who is in the way may leave."""
        if not getattr(self._configuration.subscription_policy, "dynamic", False):
            return timeout
        return _LOOK_FOR_LEAVERS if timeout is None else min(timeout, _LOOK_FOR_LEAVERS)

    def _changes(self, drafts: Sequence[NewMessage], records: Sequence[RecordWrite]) -> Changes:
        """The drafts under the queue's limit; a queue that publishes makes a copy for each subscriber."""
        name, limit = self._configuration.name, self._limit
        if not drafts:
            return Changes(records=records)
        if not self._configuration.routing_policy.fanout:
            return Changes(enqueue=drafts, records=records, limits={} if limit is None else {name: limit})
        subscribers, version = self.subscribers()
        if not subscribers:
            raise ValueError("publish-subscribe routing requires configured subscribers")
        names = [subscriber_queue_name(name, subscriber) for subscriber in subscribers]
        ids = iter(self._tenancy.store.mint(len(drafts) * len(names)))
        return Changes(
            enqueue=[
                draft._replace(
                    id=next(ids),
                    queue=copy,
                    dedupe_key=None if draft.dedupe_key is None else f"{draft.dedupe_key}:{subscriber}",
                )
                for draft in drafts
                for subscriber, copy in zip(subscribers, names, strict=True)
            ],
            records=records,
            limits={} if limit is None else dict.fromkeys(names, limit),
            topics={} if version is None else {name: version},
        )

    def _targets(self) -> list[str]:
        """The queues that get a copy."""
        name = self._configuration.name
        if not self._configuration.routing_policy.fanout:
            return [name]
        return [subscriber_queue_name(name, subscriber) for subscriber in self.subscribers()[0]]

    def subscribers(self) -> tuple[tuple[str, ...], int | None]:
        """Who gets a copy, and the version of the stored subscriptions if there are any."""
        policy = self._configuration.subscription_policy
        if not getattr(policy, "dynamic", False):
            return tuple(policy.subscribers), None
        version, stored = self._tenancy.store.subscriptions(self._configuration.name)
        return tuple(dict.fromkeys((*policy.subscribers, *stored))), version
