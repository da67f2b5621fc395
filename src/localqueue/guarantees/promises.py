"""What the accepted combinations promise, and what they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from localqueue.guarantees.rule import Guarantee, Level, Rule
from localqueue.policies.configuration import Configuration

_WAITING = ("block", "reject")


def _promised(
    id: str,
    combination: str,
    level: Level,
    reason: str,
    *,
    when: Callable[[Configuration], bool],
    proof: tuple[str, ...] = (),
) -> Rule:
    return Rule(
        guarantee=Guarantee(id=id, combination=combination, level=level, reason=reason, proof=proof),
        applies=when,
    )


def _delivery(configuration: Configuration, field: str) -> Any:
    return getattr(configuration.delivery_policy, field, None)


def _is_effectively_once(configuration: Configuration) -> bool:
    return configuration.delivery_policy.guarantee == "effectively-once"


def _has_unattached_commit(configuration: Configuration) -> bool:
    commit = _delivery(configuration, "commit_policy")
    if commit is None or not commit.coordinates_effects:
        return False
    stores = [
        getattr(commit, name)
        for name in ("outbox_store", "prepare_store", "commit_store", "saga_store")
        if hasattr(commit, name)
    ]
    return not any(store is not None for store in stores)


PROMISES: tuple[Rule, ...] = (
    _promised(
        "at-least-once",
        "At-least-once delivery",
        "at-least-once",
        "A stored message is leased again until it is acknowledged, dead-lettered or expires. A "
        "handler that outlives its lease may run beside its successor; only the current lease "
        "can settle the message.",
        when=lambda c: c.delivery_policy.guarantee == "at-least-once",
    ),
    _promised(
        "at-most-once",
        "At-most-once delivery",
        "at-most-once",
        "The message is removed before it is handed out. A consumer that dies loses it, and "
        "`ack`, `release` and `dead_letter` return False.",
        when=lambda c: c.delivery_policy.guarantee == "at-most-once",
    ),
    _promised(
        "effectively-once",
        "Effectively-once delivery with an idempotency store",
        "effectively-once",
        "Workers skip a `dedupe_key` that already succeeded. A crash between an outside effect "
        "and the commit repeats the effect.",
        when=lambda c: _is_effectively_once(c) and _delivery(c, "idempotency_store") is not None,
    ),
    _promised(
        "effectively-once-without-a-ledger",
        "Effectively-once delivery without an idempotency store",
        "at-least-once",
        "The key is required and duplicates of a stored message are merged, but nothing remembers what succeeded.",
        when=lambda c: _is_effectively_once(c) and _delivery(c, "idempotency_store") is None,
    ),
    _promised(
        "commit-without-a-store",
        "Outbox, two-phase or saga commit without a store attached",
        "descriptive",
        "The policy names the coordination; no envelope is written.",
        when=_has_unattached_commit,
        proof=("tests/unit/test_guarantees.py::test_a_commit_policy_without_its_store_only_names",),
    ),
    _promised(
        "exactly-once-effects",
        "Exactly-once effects in other systems",
        "out-of-scope",
        "A queue can not undo an email. Make the effect idempotent, or use an outbox and let its reader be idempotent.",
        when=_is_effectively_once,
    ),
    _promised(
        "point-to-point",
        "Point-to-point routing",
        "local",
        "Consumers of all processes on one store compete; a message has one lease at a time.",
        when=lambda c: not c.routing_policy.fanout,
    ),
    _promised(
        "publish-subscribe",
        "Publish/subscribe routing with subscribers",
        "at-least-once",
        "Every subscriber gets its own copy, or none does. Copies are leased, retried and "
        "dead-lettered on their own. Who subscribes later does not see earlier messages.",
        when=lambda c: c.routing_policy.fanout and c.subscription_policy.subscriptions,
    ),
    _promised(
        "push",
        "Push consumption with dispatch or notification",
        "local",
        "A put calls handlers or wakes consumers after the message is stored. Whatever is missed "
        "stays in the store for the next lease.",
        when=lambda c: (
            c.consumption_policy.pattern == "push" and (c.dispatch_policy.dispatches or c.notification_policy.notifies)
        ),
        proof=("tests/unit/test_guarantees.py::test_push_with_a_wake_or_a_handler_is_accepted",),
    ),
    _promised(
        "dispatch-with-pull",
        "Dispatch with pull consumption",
        "local",
        "Handlers are called in this process after the message is stored, and the message still "
        "waits for a consumer: both see it.",
        when=lambda c: c.dispatch_policy.dispatches and c.consumption_policy.pattern == "pull",
        proof=("tests/unit/test_guarantees.py::test_dispatch_beside_pull_is_accepted_as_local",),
    ),
    _promised(
        "notification",
        "Any notification",
        "best-effort",
        "A wake-up is a hint: it may be lost or doubled, which costs latency and no message. A "
        "failing one raises from `put` and rolls nothing back.",
        when=lambda c: c.notification_policy.notifies,
    ),
    _promised(
        "fifo-ready",
        "FifoReadyOrdering",
        "local",
        "Messages are leased in the order they became ready. Consumers that run side by side may "
        "finish in another order, and a redelivered message goes behind.",
        when=lambda c: c.ordering_policy.guarantee == "fifo-ready",
    ),
    _promised(
        "priority",
        "PriorityOrdering",
        "local",
        "The highest priority that is ready is leased first. A steady flow of high priorities keeps low ones waiting.",
        when=lambda c: c.ordering_policy.priority_before_sequence,
    ),
    _promised(
        "fifo-per-key",
        "PerKeyFifoOrdering",
        "local",
        "One message of a key is out at a time, in put order. A retry holds up its own key; a "
        "dead letter lets the next one through.",
        when=lambda c: c.orders_by_key,
    ),
    _promised(
        "fifo-per-key-at-most-once",
        "PerKeyFifoOrdering with at-most-once delivery",
        "best-effort",
        "Messages of a key are handed out in order, but the next one does not wait for the handler of the one before.",
        when=lambda c: c.orders_by_key and c.delivery_policy.guarantee == "at-most-once",
    ),
    _promised(
        "fifo-per-key-dropping",
        "PerKeyFifoOrdering with DropNewest or DropOldest",
        "best-effort",
        "A dropped message leaves a gap in its key; those that remain keep their order.",
        when=lambda c: c.orders_by_key and c.backpressure.overflow.startswith("drop-"),
    ),
    _promised(
        "best-effort-ordering",
        "BestEffortOrdering",
        "best-effort",
        "No order is promised.",
        when=lambda c: c.ordering_policy.guarantee == "best-effort",
    ),
    _promised(
        "bounded",
        "A limit that blocks or rejects",
        "local",
        "The limit is checked in the transaction that inserts, so it is exact across processes. "
        "It counts ready messages.",
        when=lambda c: c.backpressure.maxsize > 0 and c.backpressure.overflow in _WAITING,
    ),
    _promised(
        "dropping",
        "DropNewest or DropOldest",
        "best-effort",
        "A full queue loses the message being put, or the oldest ready one. The delivery "
        "guarantee speaks about the messages that were kept.",
        when=lambda c: c.backpressure.overflow.startswith("drop-"),
    ),
    _promised(
        "throttling",
        "Throttling",
        "best-effort",
        "Producers are slowed, nothing is refused or lost, and the queue may grow past the limit.",
        when=lambda c: c.backpressure.overflow == "throttle",
    ),
    _promised(
        "overflow-queue",
        "OverflowToQueue",
        "at-least-once",
        "What does not fit is stored in the other queue of the same store, for a consumer of that queue. A dedupe key "
        "that is live in either queue stops a second put.",
        when=lambda c: c.backpressure.overflow == "overflow-queue",
    ),
    _promised(
        "remote-placement",
        "RemoteQueuePlacement",
        "descriptive",
        "Names a network boundary. Reaching one takes a store that does.",
        when=lambda c: c.locality_policy.crosses_network_boundary,
        proof=("tests/unit/test_guarantees.py::test_remote_placement_only_names_the_boundary",),
    ),
    _promised(
        "distributed-coordination",
        "Replication, consensus or failover between stores",
        "out-of-scope",
        "A queue is as available as the one store it lives in.",
        when=lambda c: c.locality_policy.crosses_network_boundary,
    ),
    _promised(
        "overridden-descriptions",
        "A policy whose descriptive fields were overridden",
        "descriptive",
        "The fields are printed and compared with `semantics`; the store behaves the same.",
        when=lambda c: not c.lease_policy.uses_leases or not c.acknowledgement_policy.acknowledgements,
        proof=("tests/unit/test_guarantees.py::test_overridden_descriptions_are_only_descriptive",),
    ),
    _promised(
        "codec",
        "JsonCodec, MsgpackCodec or BytesCodec",
        "local",
        "A value comes back equal and of the same shape, or `put` raises `PayloadError`.",
        when=lambda c: c.codec.name in ("json", "msgpack", "bytes"),
        proof=(
            "tests/unit/test_codecs.py::test_json_returns_what_it_was_given",
            "tests/unit/test_codecs.py::test_json_refuses_what_would_come_back_changed",
            "tests/unit/test_codecs.py::test_msgpack_returns_what_it_was_given",
            "tests/unit/test_codecs.py::test_bytes_are_stored_as_they_are",
        ),
    ),
    _promised(
        "pickle",
        "PickleCodec with payloads from an untrusted writer",
        "out-of-scope",
        "Unpickling runs the writer's code.",
        when=lambda c: c.codec.name == "pickle",
        proof=("tests/unit/test_codecs.py::test_pickle_demands_that_writers_are_trusted",),
    ),
)
