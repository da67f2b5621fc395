"""Metrics for Prometheus, through `prometheus_client`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from localqueue.events.event import Event
from localqueue.metrics.measures import (
    BUCKETS,
    DESCRIPTIONS,
    LEASE_TO_SETTLE,
    PUT_TO_ACK,
    PUT_TO_LEASE,
    WatchedFlows,
    WatchedQueues,
    by_state,
    durations,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric


class PrometheusMetrics:
    """A hook that counts events and times them, and reads the counts of its queues at every scrape.

    With the default `namespace`: `localqueue_events_total` by queue and type; `localqueue_messages` by queue and state;
    `localqueue_oldest_ready_age_seconds` by queue; and the histograms `localqueue_put_to_lease_seconds`,
    `localqueue_lease_to_settle_seconds` and `localqueue_put_to_ack_seconds` by queue. Of consumers and bridges that it
    is told to `watch`: `localqueue_consumer_total` by queue and what was counted, `localqueue_consumer_degraded` by
    queue, and `localqueue_bridge_total` by bridge and what was counted. Without `registry` they go to the default one.
    One object serves many queues; needs the extra `localqueue[prometheus]`.
    """

    def __init__(self, registry: CollectorRegistry | None = None, namespace: str = "localqueue") -> None:
        client = _client()
        where = client.REGISTRY if registry is None else registry
        self._queues = WatchedQueues()
        self._events = client.Counter(
            "events", DESCRIPTIONS["events"], ("queue", "type"), namespace=namespace, registry=where
        )
        self._seconds = {
            name: client.Histogram(
                f"{name}_seconds", DESCRIPTIONS[name], ("queue",), namespace=namespace, buckets=BUCKETS, registry=where
            )
            for name in (PUT_TO_LEASE, LEASE_TO_SETTLE, PUT_TO_ACK)
        }
        self._flows = WatchedFlows()
        where.register(_Gauges(self._queues, self._flows, namespace))

    def attach(self, queue: Any) -> None:
        """Read the counts of a queue from now on; `queue.add_hook(metrics)` calls this."""
        self._queues.add(queue)

    def detach(self, queue: Any) -> None:
        self._queues.remove(queue)

    def watch(self, flow: Any) -> None:
        """Read the counters of a `HybridConsumer` or a `Bridge` from now on."""
        self._flows.add(flow)

    def __call__(self, event: Event) -> None:
        self._events.labels(event.queue, event.type).inc()
        for name, seconds in durations(event):
            self._seconds[name].labels(event.queue).observe(seconds)


class _Gauges:
    """A collector of what can be read at any time."""

    def __init__(self, queues: WatchedQueues, flows: WatchedFlows, namespace: str) -> None:
        self._queues = queues
        self._flows = flows
        self._prefix = f"{namespace}_" if namespace else ""

    def describe(self) -> Iterable[Metric]:
        return self._families()

    def collect(self) -> Iterable[Metric]:
        messages, oldest, consumer, degraded, bridge = families = self._families()
        for queue, stats in self._queues.stats().items():
            for state, count in by_state(stats).items():
                messages.add_metric((queue, state), count)
            oldest.add_metric((queue,), stats.oldest_ready_age_seconds or 0.0)
        for flow in self._flows.read():
            for what, count in flow.counts.items():
                (consumer if flow.kind == "consumer" else bridge).add_metric((flow.name, what), count)
            if flow.kind == "consumer":
                degraded.add_metric((flow.name,), float(flow.degraded))
        return families

    def _families(self) -> tuple[Any, ...]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        return (
            GaugeMetricFamily(f"{self._prefix}messages", DESCRIPTIONS["messages"], labels=("queue", "state")),
            GaugeMetricFamily(
                f"{self._prefix}oldest_ready_age_seconds", DESCRIPTIONS["oldest_ready_age"], labels=("queue",)
            ),
            CounterMetricFamily(f"{self._prefix}consumer", DESCRIPTIONS["consumer"], labels=("queue", "what")),
            GaugeMetricFamily(f"{self._prefix}consumer_degraded", DESCRIPTIONS["consumer_degraded"], labels=("queue",)),
            CounterMetricFamily(f"{self._prefix}bridge", DESCRIPTIONS["bridge"], labels=("bridge", "what")),
        )


def _client() -> Any:
    try:
        import prometheus_client
    except ImportError as error:
        raise RuntimeError(
            'Prometheus metrics require the optional dependency; install with `pip install "localqueue[prometheus]"`'
        ) from error
    return prometheus_client
