"""Handing outcomes to the store and taking the next messages from it, in one commit where that can be."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from localqueue.errors import (
    IdTaken,
    LeaseLost,
    QueueError,
    QueueStoreClosedError,
    QueueStoreCorruptError,
    QueueStoreError,
    QueueStoreVersionError,
    RecordConflict,
)
from localqueue.events.event import RETRIED
from localqueue.message import QueueMessage
from localqueue.queue.desk import limits_of
from localqueue.stores.port import Changes, Committed, Enqueued, LeaseRequest, Settle, StoredMessage
from localqueue.workers.delivery import Delivery
from localqueue.workers.job import FollowUp, leased_at
from localqueue.workers.outcome import Outcome, Steps

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

log = logging.getLogger("localqueue.workers")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_LAST_TRIES = 5.0  # seconds that a worker which stops gives a store that does not answer


class Exchange:
    """One per worker, shared by its threads. `settled` is told of every message that left the worker's hands.

    A store that fails is asked again, with growing pauses, until it answers or `stopping` is set: outcomes are kept
    meanwhile, and a lease that ran out in the meantime turns its outcome into `lost`. Without `stopping` its failure
    is the caller's.
    """

    def __init__(
        self,
        queue: PersistentQueue[Any],
        delivery: Delivery,
        request: LeaseRequest,
        *,
        settled: Callable[[Outcome], None],
        run_steps: Callable[[Steps], Any],
        stopping: threading.Event | None,
    ) -> None:
        self.queue = queue
        self._desk = queue.desk
        self.request = request
        self._delivery = delivery
        self._ledger = delivery.ledger if request.ledger is not None else None
        self._settled = settled
        self._run_steps = run_steps
        self._stopping = stopping

    @classmethod
    def for_one_message(
        cls,
        queue: PersistentQueue[Any],
        delivery: Delivery,
        *,
        settled: Callable[[Outcome], None],
        run_steps: Callable[[Steps], Any],
    ) -> Self:
        """For a caller who handles the store's failures himself."""
        return cls(queue, delivery, LeaseRequest(queue.name), settled=settled, run_steps=run_steps, stopping=None)

    def swap(self, outcomes: Sequence[Outcome], limit: int) -> list[QueueMessage[Any]]:
        """Commit outcomes and lease up to `limit` messages."""
        request = self.request if limit == self.request.limit else self.request._replace(limit=limit)
        pause = _FIRST_PAUSE
        left = list(outcomes)
        while True:
            try:
                return self._swap(left, request)
            except (QueueStoreClosedError, QueueStoreCorruptError, QueueStoreVersionError):
                raise
            except QueueStoreError as error:
                if self._stopping is None:
                    raise
                log.warning("queue %r: the store does not answer, trying again: %s", self.queue.name, error)
            if self._stopping.wait(pause):
                return self._last_try(left)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def settle(self, outcomes: Sequence[Outcome]) -> None:
        """Commit outcomes and lease nothing."""
        if outcomes:
            self.swap(outcomes, 0)

    def _last_try(self, outcomes: list[Outcome]) -> list[QueueMessage[Any]]:
        deadline = time.monotonic() + _LAST_TRIES
        while outcomes:
            try:
                self._swap(outcomes, self.request._replace(limit=0))
            except QueueStoreError as error:
                if time.monotonic() > deadline:
                    log.error("queue %r: %d messages were not settled: %s", self.queue.name, len(outcomes), error)
                    break
                time.sleep(_FIRST_PAUSE)
        return []

    def _swap(self, outcomes: list[Outcome], request: LeaseRequest) -> list[QueueMessage[Any]]:
        """Takes what it has committed out of `outcomes`."""
        lease = request if request.limit else None
        plain = all(one.is_plain for one in outcomes)
        try:
            if all(one.settle is None and one.is_plain for one in outcomes):
                committed = Committed(settled=[], leased=self._desk.claim(request) if lease else [])
            else:
                committed = self._commit(outcomes, lease, strict=not plain)
        except QueueStoreError:
            raise
        except QueueError:
            if plain:
                raise
            while outcomes:
                self._commit_alone(outcomes[0])
                del outcomes[0]
            return self._swap([], request)
        self._finish(outcomes, committed)
        outcomes.clear()
        leased = committed.leased
        while leased and not (messages := self._messages(leased)):
            leased = self._desk.claim(request)  # nothing but unreadable payloads, which are dead letters now
        return messages if leased else []

    def _commit(self, outcomes: Sequence[Outcome], lease: LeaseRequest | None, *, strict: bool) -> Committed:
        changes = Changes(
            settle=[one.settle for one in outcomes if one.settle is not None],
            records=[record for one in outcomes for record in one.records],
            lease=lease,
            strict=strict,
        )
        follow_ups = [follow_up for one in outcomes for follow_up in one.follow_ups]
        if follow_ups:
            changes.enqueue = [follow_up.draft for follow_up in follow_ups]
            changes.limits = limits_of(follow_up.queue.desk for follow_up in follow_ups)
        for more in (one.more() for one in outcomes if one.more is not None):
            changes.enqueue = [*changes.enqueue, *more.enqueue]
            changes.edges = [*changes.edges, *more.edges]
            changes.settle = [*changes.settle, *more.settle]
            changes.records = [*changes.records, *more.records]
            changes.keep_ids |= more.keep_ids
        return self._desk.commit(changes, [one.message for one in outcomes], [f.queue.desk for f in follow_ups])

    def _commit_alone(self, one: Outcome) -> None:
        """Commit an outcome that may be refused: what that means is decided here, and the outcome turns into it."""
        if one.settle is None and one.is_plain:
            return self._finish([one], Committed())
        try:
            self._finish([one], self._commit([one], None, strict=not one.is_plain))
            return
        except QueueStoreError:
            raise
        except IdTaken:
            one.follow_ups = self._renamed(one.follow_ups)
            return self._commit_alone(one)
        except LeaseLost:
            instead = Outcome(one.message, "lost", None, error=one.error)
        except RecordConflict as conflict:  # somebody else wrote about this message: look at it afresh
            if one.more is not None and one.state != "released":
                return self._commit_alone(one)  # what it adds is decided at each try
            # One that was only put aside has not failed: it is decided about anew.
            aside = one.state == "released" and one.error is None
            settle = Settle(self.queue.name, one.message.id, "release", one.message.attempts, forgive=aside)
            instead = Outcome(one.message, "released", settle, error=one.error or (None if aside else conflict))
        except QueueError as error:  # a follow-up found its queue full, its run cancelled, ...
            instead = self._delivery.failure(one.message, error, leased_at(one.message))
        rejected = one.rejected
        one.become(instead)
        if rejected is not None:
            self._run_after(rejected)
        self._commit_alone(one)

    def _renamed(self, follow_ups: Sequence[FollowUp]) -> list[FollowUp]:
        """The same messages under new ids; those that come after each other still do."""
        ids = [follow_up.draft.id for follow_up in follow_ups]
        names = dict(zip(ids, self.queue.store.mint(len(ids)), strict=True))
        drafts = [
            follow_up.draft._replace(
                id=names[follow_up.draft.id], after=tuple(names.get(one, one) for one in follow_up.draft.after)
            )
            for follow_up in follow_ups
        ]
        return [follow_up._replace(draft=draft) for follow_up, draft in zip(follow_ups, drafts, strict=True)]

    def _finish(self, outcomes: Sequence[Outcome], committed: Committed) -> None:
        done, stored = iter(committed.settled), iter(committed.enqueued)
        for one in outcomes:
            if one.settle is not None and not next(done):
                one.state = "lost"
            for follow_up in one.follow_ups:
                self._announce(follow_up, next(stored))
            if one.state == "released" and not one.final and one.settle is not None:
                self.queue.emit(RETRIED, one.message, error=one.error, delay=one.settle.delay)
            if one.wakes and one.state != "lost":
                self._wake(one.wakes)
            self._settled(one)
            if one.committed is not None:
                self._run_after(one.committed)

    def _run_after(self, steps: Callable[[], Steps]) -> None:
        """Run what follows a commit, or its refusal. That is a fact, so a failure here must not touch it any more."""
        try:
            self._run_steps(steps())
        except Exception:
            log.exception("queue %r: what follows a commit failed; recovery goes on with it", self.queue.name)

    def _wake(self, queues: Sequence[str]) -> None:
        try:
            self._desk.wake(queues)
        except Exception:
            log.exception("messages of %s are ready, and their workers could not be told", ", ".join(queues))

    def _announce(self, follow_up: FollowUp, enqueued: Enqueued) -> None:
        queue, draft, item = follow_up
        message = queue.desk.stored(draft, enqueued, item)
        try:
            queue.desk.announce(message, enqueued.outcome)
        except Exception:
            log.exception("message %s was stored but could not be announced", message.id)

    def _messages(self, stored: Sequence[StoredMessage]) -> list[QueueMessage[Any]]:
        if self._ledger is not None:
            for one in stored:
                self._ledger.foresee(one)
        return [message for one in stored if (message := self._desk.unpack(one)) is not None]
