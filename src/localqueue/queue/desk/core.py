"""What arrivals and departures share: the parts of a desk, and the commit that tells its hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from localqueue.events.event import ACKED
from localqueue.events.hooks import Hook
from localqueue.jobs.retention import Retention
from localqueue.message import QueueMessage
from localqueue.policies import Configuration
from localqueue.queue.admission import Admission
from localqueue.queue.emitter import Emitter
from localqueue.queue.endings import Endings
from localqueue.queue.payloads import Payloads
from localqueue.queue.setup import limit_of
from localqueue.queue.tenancy import Tenancy
from localqueue.queue.unfinished import Unfinished
from localqueue.stores.port import Changes, Committed, LeaseRequest, QueueStore

if TYPE_CHECKING:
    from localqueue.queue.operation import Kind, Operation

NOBODY: AbstractContextManager[None] = nullcontext()
_NO_OTHERS: Mapping[str, Emitter] = {}


class DeskCore:
    """The parts of a desk, each for one concern.

    `limit` is the queue's capacity as a condition of a commit, `request` what one claim asks for by default. A queue
    that `consumes` is one where a claim removes its messages, so that nothing is left to settle.
    """

    def __init__(self, configuration: Configuration, tenancy: Tenancy, keep_results: float | None = None) -> None:
        self.name = configuration.name
        self.configuration = configuration
        self.tenancy = tenancy
        self.limit = limit_of(configuration.backpressure)
        self.emitter = Emitter(self.name, tenancy)
        self.payloads = Payloads(self.name, configuration.codec)
        self.endings = Endings(self.name, self.payloads, keep_results, tenancy)
        self.retention = Retention(lambda: tenancy.store)
        self.admission = Admission(configuration, self.limit, tenancy)
        self.unfinished = Unfinished()
        self.is_quiet = not (
            configuration.notification_policy.notifies_on_put or configuration.dispatch_policy.dispatches_on_put
        )
        self._has_plain_policies = (
            self.limit is None
            and configuration.backpressure.overflow != "throttle"
            and not configuration.routing_policy.fanout
            and not configuration.requires_dedupe_key
        )
        self.is_plain = self._has_plain_policies
        self.consumes = configuration.delivery_policy.ack_timing == "before-delivery"
        self.lease_seconds = float(getattr(configuration.lease_policy, "timeout", 30.0))
        self.request = LeaseRequest(self.name, 1, self.lease_seconds, None, configuration.max_attempts, self.consumes)

    def add_hook(self, hook: Hook) -> None:
        self.emitter.add_hook(hook)
        self.is_plain = self._has_plain_policies and not self.emitter.adds_headers

    def remove_hook(self, hook: Hook) -> None:
        self.emitter.remove_hook(hook)
        self.is_plain = self._has_plain_policies and not self.emitter.adds_headers

    @property
    def store(self) -> QueueStore:
        store = self.tenancy.current
        return self.tenancy.open() if store is None else store

    def check_shares_store(self, other: DeskCore, way_out: str = "pass both the same store=") -> None:
        """Refuse another queue that can not change in one commit with this one."""
        if other.store is not self.store:
            raise ValueError(
                f"queues {self.name!r} and {other.name!r} do not share a store object, so they can not change "
                f"together; {way_out}"
            )

    def commit(
        self,
        changes: Changes,
        messages: Sequence[QueueMessage[Any] | str] = (),
        others: Sequence[DeskCore] = (),
    ) -> Committed:
        """Commit, and tell the hooks everything that came of it.

        `messages` are those that are settled, for what is known about them. `others` hear what concerns their queue.
        """
        committed = self._commit_watched(changes, messages, others)
        if changes.records:
            self.retention.note(changes.records)
        return committed

    def _commit_watched(
        self, changes: Changes, messages: Sequence[QueueMessage[Any] | str], others: Sequence[DeskCore]
    ) -> Committed:
        ours = self.emitter
        if ours.hooks is None and not others:
            return self.store.commit(changes)
        emitters = {one.name: one.emitter for one in others}
        if ours.hooks is None and all(one.hooks is None for one in emitters.values()):
            return self.store.commit(changes)
        if not (ours.probes or any(one.probes for one in emitters.values())):
            return self._commit_told(changes, messages, emitters)
        from localqueue.queue.operation import CommitOperations, Watch

        operations = CommitOperations(changes, messages, self.store.url)
        pairs = ((probe, one) for one in operations for probe in emitters.get(one.queue, ours).probes)
        with Watch(operations, pairs):
            committed = self._commit_told(changes, messages, emitters)
            operations.note(committed)
        return committed

    def _commit_told(
        self,
        changes: Changes,
        messages: Sequence[QueueMessage[Any] | str] = (),
        emitters: Mapping[str, Emitter] = _NO_OTHERS,
    ) -> Committed:
        ours = self.emitter
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

    def _watching(
        self, kind: Kind, messages: Sequence[Any] = (), **details: Any
    ) -> AbstractContextManager[Operation | None]:
        """What is about to be done, for those who stand around it. Mostly that is nobody, and then it is None."""
        probes = self.emitter.probes
        if not probes:
            return NOBODY
        from localqueue.queue.operation import Operation, Watch

        operation = Operation(kind, self.name, self.store.url, messages, **details)
        return Watch(operation, [(probe, operation) for probe in probes])
