"""Looking at a queue and steering it: counts, dead letters, runs, subscriptions, pause."""

from __future__ import annotations

import time
from typing import Any

from localqueue.events.journal import JournalEvent
from localqueue.jobs import cancellation
from localqueue.message import QueueMessage, QueueStats, RunStats, T
from localqueue.policies import subscriber_queue_name
from localqueue.queue.core import QueueCore
from localqueue.queue.drafts import check_delay, check_key, check_limit, check_seconds, check_timeout, id_of
from localqueue.queue.setup import check_name
from localqueue.stores.port import DEAD, EXPIRED, STATES, Changes


class Operator(QueueCore[T]):
    def inspect(self, message_id: str) -> QueueMessage[T] | None:
        """Read one message without leasing it."""
        stored = self._seen.get(self.name, message_id)
        return None if stored is None else self.desk.payloads.show(stored)

    def messages(
        self, *, state: str | None = None, after: str | None = None, limit: int | None = None
    ) -> list[QueueMessage[T]]:
        """Messages by id, all or those of one state; `after` continues behind that message."""
        if state is not None and state not in STATES:
            raise ValueError(f"state must be one of {', '.join(STATES)}, not {state!r}")
        limit = check_limit(limit)
        return [
            self.desk.payloads.show(stored)
            for stored in self._seen.scan(self.name, state=state, after=after, limit=limit)
        ]

    def qsize(self) -> int:
        """Count of messages that could be leased now."""
        return self._seen.qsize(self.name)

    def empty(self) -> bool:
        """Whether no message could be leased now."""
        return self.qsize() == 0

    def full(self) -> bool:
        """Whether a `put` would find no capacity now."""
        policy = self.desk.configuration.backpressure
        return policy.maxsize > 0 and policy.is_full(qsize=self._seen.load(self.name))

    def stats(self) -> QueueStats:
        """Counts, ages and workers, without changing anything."""
        return self._seen.stats(self.name)

    def dead_letters(self, *, limit: int | None = None) -> list[QueueMessage[T]]:
        """Dead letters in the order they died."""
        return self.messages(state=DEAD, limit=limit)

    def events(self, after: int = 0, limit: int | None = None) -> list[JournalEvent]:
        """What the store's journal says about this queue, behind the entry `after`; see `store.enable_journal()`."""
        return self._seen.events(after, check_limit(limit), self.name)

    def requeue_dead(self, message: QueueMessage[Any] | str, *, delay: float = 0.0) -> bool:
        """Return a dead (or expired, or cancelled) message to delivery with a fresh attempt budget."""
        check_delay(delay)
        message_id = id_of(message)
        return self.desk.emitter.observed(lambda: self.store.requeue(self.name, [message_id], delay=delay)) == 1

    def requeue_all_dead(self, *, delay: float = 0.0) -> int:
        """Return every dead letter to delivery, except those whose dedupe key a live message holds."""
        check_delay(delay)
        return self.desk.emitter.observed(lambda: self.store.requeue(self.name, delay=delay))

    def prune_dead_letters(self, *, older_than: float) -> int:
        """Remove dead letters that died at least `older_than` seconds ago."""
        _check_age(older_than)
        return self.desk.emitter.observed(lambda: self.store.prune(self.name, state=DEAD, older_than=older_than))

    def count_dead_letters_older_than(self, *, older_than: float) -> int:
        """How many dead letters `prune_dead_letters` would remove."""
        return self._seen.prune(self.name, state=DEAD, older_than=_check_age(older_than), dry_run=True)

    def prune_expired(self, *, older_than: float) -> int:
        """Remove messages whose time to live ended at least `older_than` seconds ago."""
        _check_age(older_than)
        return self.desk.emitter.observed(lambda: self.store.prune(self.name, state=EXPIRED, older_than=older_than))

    def purge(self) -> int:
        """Remove every message of the queue; how many there were."""
        removed = self.desk.emitter.observed(lambda: self.store.purge(self.name))
        self.desk.unfinished.clear()
        return removed

    def pause(self, *, worker: str | None = None) -> None:
        """Stop handing out messages, in every process; leased ones can still be settled.

        With `worker` only to those who lease under that name.
        """
        self.store.pause(self.name, worker=_check_worker(worker))

    def resume(self, *, worker: str | None = None) -> None:
        """Hand out messages again. A queue and its workers are paused and resumed each for itself."""
        self.store.resume(self.name, worker=_check_worker(worker))

    def is_paused(self, *, worker: str | None = None) -> bool:
        return self._seen.paused(self.name, worker=_check_worker(worker))

    def record_worker_heartbeat(self, worker_id: str) -> None:
        """Note that a worker is alive, for `stats().last_seen_by_worker_id`."""
        check_key("worker_id", worker_id)
        self.store.heartbeat(self.name, worker_id)

    # runs: messages that share a run_id, in any queue of the store

    def run(self, run_id: str) -> RunStats | None:
        """Counts of a run, or None when no message was ever put into it."""
        check_key("run_id", run_id)
        return self._seen.run(run_id)

    def run_messages(
        self, run_id: str, *, after: str | None = None, limit: int | None = None
    ) -> list[QueueMessage[Any]]:
        """The messages of a run that are still stored, by id."""
        check_key("run_id", run_id)
        found = self._seen.run_messages(run_id, after=after, limit=check_limit(limit))
        return [self.desk.payloads.show(stored) for stored in found]

    def cancel_run(self, run_id: str) -> int:
        """Cancel every live message of a run; leases of inflight ones are lost. The run takes no more messages."""
        check_key("run_id", run_id)
        count = self.desk.emitter.observed(lambda: self.store.cancel_run(run_id))
        if count:
            self.store.commit(Changes(records=(cancellation.told(None),)))
        return count

    def wait_run(self, run_id: str, timeout: float | None = None) -> RunStats | None:
        """Wait until nothing of the run can move by itself; the counts then, or at the timeout."""
        check_key("run_id", run_id)
        check_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.store.listen_run(run_id) as waiter:
            while True:
                stats = self.store.run(run_id)
                remaining = None if deadline is None else deadline - time.monotonic()
                if (stats is not None and not stats.active) or (remaining is not None and remaining <= 0):
                    return stats
                waiter.wait(remaining)

    def waits_for(self, message: QueueMessage[Any] | str) -> list[str]:
        """Ids of the messages a waiting message still comes after."""
        return self._seen.upstream(self.name, id_of(message))

    # publish/subscribe

    def subscribe(self, subscriber: str) -> bool:
        """Add a subscriber; it receives what is published from now on. False when it was one already."""
        self._require_stored_subscriptions()
        check_name(subscriber_queue_name(self.name, subscriber))
        return self.store.subscribe(self.name, subscriber)

    def unsubscribe(self, subscriber: str) -> bool:
        """Remove a subscriber. Its queue keeps the copies it has."""
        self._require_stored_subscriptions()
        return self.store.unsubscribe(self.name, subscriber)

    def subscribers(self) -> tuple[str, ...]:
        """Who receives a copy of a message published now."""
        return self.desk.admission.subscribers()[0]

    def subscriber_queue_name(self, subscriber: str) -> str:
        """The name of the queue that holds a subscriber's copies."""
        known = self.subscribers()
        if not known:
            raise ValueError("queue does not have configured subscribers")
        if subscriber not in known:
            raise ValueError(f"unknown subscriber {subscriber!r}")
        return subscriber_queue_name(self.name, subscriber)

    def _require_stored_subscriptions(self) -> None:
        if not getattr(self.desk.configuration.subscription_policy, "dynamic", False):
            raise ValueError(
                f"the subscribers of queue {self.name!r} are fixed; use subscription_policy=StoredSubscriptions() "
                "to change them while it runs"
            )


def _check_age(older_than: float) -> float:
    if check_seconds("older_than", older_than) < 0:
        raise ValueError(f"older_than cannot be negative, this one is {older_than!r}")
    return older_than


def _check_worker(worker: str | None) -> str | None:
    if worker is not None:
        check_key("worker", worker)
    return worker
