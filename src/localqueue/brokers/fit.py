"""Which policies a queue on a broker can have: its capabilities choose them, and refuse others with the way out."""

from __future__ import annotations

from typing import Any

from localqueue.brokers.capabilities import BrokerCapabilities
from localqueue.errors import UnsupportedByBroker
from localqueue.policies import (
    NO_DEDUPLICATION,
    BestEffortOrdering,
    Configuration,
    FixedLeaseTimeout,
    RemoteQueuePlacement,
)

_IN_A_STORE = "keep the queue in a store, and bridge it to the broker"
_DEFAULT_LEASE = FixedLeaseTimeout()


def defaults(can: BrokerCapabilities) -> dict[str, Any]:
    """The policies of a queue that names none, where those of a store would promise too much."""
    chosen: dict[str, Any] = {"locality_policy": RemoteQueuePlacement()}
    if not can.dedupe:
        chosen["deduplication_policy"] = NO_DEDUPLICATION
    if can.order != "queue":
        chosen["ordering_policy"] = BestEffortOrdering()
    return chosen


def check(can: BrokerCapabilities, configuration: Configuration, keep_results: float | None) -> None:
    """Raise `UnsupportedByBroker` for the first thing that the broker can not do."""
    ordering = configuration.ordering_policy
    refused: tuple[tuple[bool, str, str], ...] = (
        (
            not configuration.locality_policy.crosses_network_boundary,
            f"locality_policy={type(configuration.locality_policy).__name__}",
            "its messages are behind a network; leave it out, or pass RemoteQueuePlacement()",
        ),
        (
            configuration.requires_dedupe_key,
            "effectively-once delivery",
            f"it can not keep a ledger in the step that acks; {_IN_A_STORE}",
        ),
        (
            configuration.deduplication_policy.accepts_dedupe_key and not can.dedupe,
            "dedupe keys",
            "it drops no duplicates; leave deduplication_policy= out, or pass NoDeduplication()",
        ),
        (
            ordering.priority_before_sequence and not can.priorities,
            "priorities",
            "pass another ordering_policy=, or use a broker that has them (amqp://...?queue_type=classic)",
        ),
        (
            configuration.orders_by_key,
            "PerKeyFifoOrdering",
            "no broker holds a message back until the one before it is settled; pass BestEffortOrdering(), or "
            f"{_IN_A_STORE}",
        ),
        (
            ordering.guarantee == "fifo-ready" and can.order != "queue",
            "FifoReadyOrdering",
            "its queues have no single order; leave ordering_policy= out, or pass BestEffortOrdering()",
        ),
        (
            configuration.routing_policy.fanout,
            "publish/subscribe routing",
            f"a copy for each subscriber takes one commit; {_IN_A_STORE}",
        ),
        (
            configuration.backpressure.maxsize > 0,
            f"maxsize={configuration.backpressure.maxsize}",
            f"its room is its own setting, which no put is checked by; {_IN_A_STORE}",
        ),
        (
            configuration.lease_policy != _DEFAULT_LEASE and can.lease == "connection",
            "a lease timeout",
            "a delivery is held as long as the connection lasts; leave lease_timeout= and lease_policy= out",
        ),
        (
            configuration.max_attempts is not None and not can.counts_deliveries,
            f"max_attempts={configuration.max_attempts}",
            "it does not count deliveries; leave it out and give the worker max_tries=",
        ),
        (
            keep_results is not None,
            "keep_results",
            "it has nowhere to keep what became of a message; leave it out, or have the handler store its result",
        ),
    )
    for applies, what, way_out in refused:
        if applies:
            raise UnsupportedByBroker(f"queue {configuration.name!r} on {can.name} can not have {what}: {way_out}")
