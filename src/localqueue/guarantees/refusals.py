"""The combinations that are refused, and why.

Construction-time rows are checked in this order. The message of a put-time row is that of
the ValueError.
"""

from __future__ import annotations

from collections.abc import Callable

from localqueue.errors import IncompatiblePolicies
from localqueue.guarantees.row import Guarantee, RefusedAt, Rule
from localqueue.policies.configuration import Configuration

_DROPPING = ("drop-newest", "drop-oldest")


def _refused(
    id: str,
    combination: str,
    *,
    because: str,
    instead: str = "",
    when: Callable[[Configuration], bool],
    at: RefusedAt = "construction",
    proof: tuple[str, ...] = (),
) -> Rule:
    return Rule(
        guarantee=Guarantee(
            id=id,
            combination=combination,
            level="refused",
            reason=because,
            way_out=instead,
            refused_at=at,
            proof=proof,
        ),
        applies=when,
    )


REFUSALS: tuple[Rule, ...] = (
    _refused(
        "push-needs-a-wake-or-a-handler",
        "Push consumption without dispatch and without notification",
        because="push consumption requires a dispatch_policy or a notification_policy, "
        "or nothing would ever start the work",
        instead="pass CallbackDispatcher(...), InProcessNotification() or PullConsumption()",
        when=lambda c: (
            c.consumption_policy.pattern == "push"
            and not c.dispatch_policy.dispatches
            and not c.notification_policy.notifies
        ),
        proof=("tests/unit/test_guarantees.py::test_push_needs_a_wake_or_a_handler",),
    ),
    _refused(
        "publish-needs-subscribers",
        "Publish/subscribe routing without subscriptions",
        because="publish-subscribe routing requires configured subscribers, or every message would go nowhere",
        instead="pass subscription_policy=StaticFanoutSubscriptions((...,)) or StoredSubscriptions()",
        when=lambda c: c.routing_policy.fanout and not c.subscription_policy.subscriptions,
        proof=("tests/unit/test_guarantees.py::test_publishing_needs_subscribers",),
    ),
    _refused(
        "subscribers-need-publish",
        "Subscriptions without publish/subscribe routing",
        because="subscribers would receive nothing with point-to-point routing",
        instead="pass routing_policy=PublishSubscribeRouting(), or no subscription_policy",
        when=lambda c: c.subscription_policy.subscriptions and not c.routing_policy.fanout,
        proof=("tests/unit/test_guarantees.py::test_subscribers_need_publish_subscribe_routing",),
    ),
    _refused(
        "dispatcher-on-a-topic",
        "Publish/subscribe routing with ThreadedDispatcher or WorkerPoolDispatcher",
        because="a publish-subscribe queue stores nothing itself, so its dispatcher would find nothing to lease",
        instead="give a dispatcher to the queue of each subscriber: PersistentQueue(topic.subscriber_queue_name(...), "
        "store=topic.store, dispatch_policy=...)",
        when=lambda c: c.routing_policy.fanout and c.dispatcher_leases,
        proof=("tests/unit/test_queue_dispatch.py::test_a_topic_takes_no_dispatcher_that_leases",),
    ),
    _refused(
        "overflow-into-itself",
        "An overflow queue that is the queue itself",
        because="a full queue can not take its own overflow",
        instead="give OverflowToQueue the name of another queue",
        when=lambda c: c.overflow_queue is not None and c.overflow_queue == c.name,
        proof=("tests/unit/test_guarantees.py::test_a_queue_can_not_overflow_into_itself",),
    ),
    _refused(
        "overflow-mixes-subscribers",
        "An overflow queue on a publish/subscribe queue",
        because="copies of all subscribers would end up in one queue, with nothing that says whose they were",
        instead="pass BoundedBackpressure or RejectingBackpressure, or give each subscriber's queue its own overflow",
        when=lambda c: c.overflow_queue is not None and c.routing_policy.fanout,
        proof=("tests/unit/test_guarantees.py::test_an_overflow_queue_would_mix_subscribers",),
    ),
    _refused(
        "overflow-splits-a-key",
        "Per-key order with an overflow queue",
        because="messages of one ordering_key would be split over two queues and lose their order",
        instead="pass BoundedBackpressure or RejectingBackpressure, or another ordering_policy",
        when=lambda c: c.orders_by_key and c.overflow_queue is not None,
        proof=("tests/unit/test_guarantees.py::test_an_overflow_queue_would_split_a_key",),
    ),
    _refused(
        "at-most-once-has-one-attempt",
        "At-most-once delivery with max_attempts",
        because="at-most-once delivery never redelivers, so max_attempts could not be reached",
        instead="leave max_attempts out, or choose AtLeastOnceDelivery()",
        when=lambda c: c.delivery_policy.ack_timing == "before-delivery" and c.max_attempts is not None,
        proof=("tests/unit/test_guarantees.py::test_at_most_once_takes_no_max_attempts",),
    ),
    _refused(
        "max-attempts-need-dead-letters",
        "max_attempts without dead letters",
        because="a message that used up max_attempts would have nowhere to go",
        instead="pass dead_letter_policy=DeadLetterQueue(), or leave max_attempts out",
        when=lambda c: c.max_attempts is not None and not c.dead_letter_policy.dead_letters,
        proof=("tests/unit/test_guarantees.py::test_max_attempts_need_dead_letters",),
    ),
    _refused(
        "effectively-once-needs-dedupe",
        "Effectively-once delivery without deduplication",
        because="effectively-once delivery requires a dedupe_key on every put, and the "
        "deduplication_policy accepts none",
        instead="pass deduplication_policy=DedupeKeySupport()",
        when=lambda c: c.requires_dedupe_key and not c.deduplication_policy.accepts_dedupe_key,
        proof=("tests/unit/test_guarantees.py::test_effectively_once_needs_dedupe_keys",),
    ),
    _refused(
        "effectively-once-drops-nothing",
        "Effectively-once delivery with a dropping backpressure",
        because="effectively-once delivery promises that the work is done, and the backpressure would drop it",
        instead="pass BoundedBackpressure, RejectingBackpressure, Throttling or OverflowToQueue",
        when=lambda c: c.requires_dedupe_key and c.backpressure.overflow in _DROPPING,
        proof=("tests/unit/test_guarantees.py::test_effectively_once_refuses_to_drop",),
    ),
    _refused(
        "priority-needs-priority-ordering",
        "`put(priority=n)` with n > 0 and an ordering other than PriorityOrdering",
        because="priority requires PriorityOrdering",
        when=lambda c: not c.ordering_policy.priority_before_sequence,
        at="put",
        proof=("tests/unit/test_queue_ordering.py::test_priority_needs_its_ordering_policy",),
    ),
    _refused(
        "ordering-key-needs-per-key-ordering",
        "`put(ordering_key=...)` with an ordering other than PerKeyFifoOrdering",
        because="ordering_key requires PerKeyFifoOrdering",
        instead="pass ordering_policy=PerKeyFifoOrdering()",
        when=lambda c: not c.orders_by_key,
        at="put",
        proof=("tests/unit/test_guarantees.py::test_a_put_time_row_says_what_put_says",),
    ),
    _refused(
        "dedupe-key-needs-support",
        "`put(dedupe_key=...)` with NoDeduplication",
        because="dedupe_key is not supported by the active deduplication_policy",
        when=lambda c: not c.deduplication_policy.accepts_dedupe_key,
        at="put",
        proof=("tests/unit/test_queue_dedupe.py::test_a_queue_without_deduplication_takes_no_key",),
    ),
    _refused(
        "effectively-once-needs-a-key",
        "`put()` without `dedupe_key` and effectively-once delivery",
        because="dedupe_key is required by the active delivery_policy",
        when=lambda c: c.requires_dedupe_key,
        at="put",
        proof=("tests/unit/test_queue_producer.py::test_effectively_once_delivery_requires_a_key_on_every_put",),
    ),
)

_AT_CONSTRUCTION = tuple(row for row in REFUSALS if row.guarantee.refused_at == "construction")


def check(configuration: Configuration) -> None:
    """Raise IncompatiblePolicies for the first rule that refuses this configuration."""
    for row in _AT_CONSTRUCTION:
        if row.applies(configuration):
            raise IncompatiblePolicies(row.guarantee.message)
