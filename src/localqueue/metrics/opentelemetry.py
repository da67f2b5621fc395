"""Metrics for OpenTelemetry, through `opentelemetry-api`: where they go is up to the SDK of the program."""

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
    WatchedQueues,
    by_state,
    durations,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation


class OpenTelemetryMetrics:
    """A hook that counts events and times them, and lets the counts of its queues be observed.

    The counter `localqueue.events` by queue and type; the observable gauges `localqueue.messages` by queue and state
    and `localqueue.oldest_ready_age` by queue; and the histograms `localqueue.put_to_lease`,
    `localqueue.lease_to_settle` and `localqueue.put_to_ack` in seconds, by queue. Without `meter` it is that of the
    global provider. One object serves many queues; needs the extra `localqueue[opentelemetry]`.
    """

    def __init__(self, meter: Meter | None = None) -> None:
        api = _api()
        meter = api.get_meter("localqueue") if meter is None else meter
        self._observation = api.Observation
        self._queues = WatchedQueues()
        self._events = meter.create_counter("localqueue.events", "{event}", DESCRIPTIONS["events"])
        self._seconds = {
            name: meter.create_histogram(
                f"localqueue.{name}", "s", DESCRIPTIONS[name], explicit_bucket_boundaries_advisory=BUCKETS
            )
            for name in (PUT_TO_LEASE, LEASE_TO_SETTLE, PUT_TO_ACK)
        }
        meter.create_observable_gauge(
            "localqueue.messages", [self._count], unit="{message}", description=DESCRIPTIONS["messages"]
        )
        meter.create_observable_gauge(
            "localqueue.oldest_ready_age", [self._age], unit="s", description=DESCRIPTIONS["oldest_ready_age"]
        )

    def attach(self, queue: Any) -> None:
        """Observe the counts of a queue from now on; `queue.add_hook(metrics)` calls this."""
        self._queues.add(queue)

    def detach(self, queue: Any) -> None:
        self._queues.remove(queue)

    def __call__(self, event: Event) -> None:
        self._events.add(1, {"queue": event.queue, "type": event.type})
        for name, seconds in durations(event):
            self._seconds[name].record(seconds, {"queue": event.queue})

    def _count(self, options: CallbackOptions) -> Iterable[Observation]:
        return [
            self._observation(count, {"queue": queue, "state": state})
            for queue, stats in self._queues.stats().items()
            for state, count in by_state(stats).items()
        ]

    def _age(self, options: CallbackOptions) -> Iterable[Observation]:
        return [
            self._observation(stats.oldest_ready_age_seconds or 0.0, {"queue": queue})
            for queue, stats in self._queues.stats().items()
        ]


def _api() -> Any:
    try:
        from opentelemetry import metrics
    except ImportError as error:
        raise RuntimeError(
            "OpenTelemetry metrics require the optional dependency; "
            'install with `pip install "localqueue[opentelemetry]"`'
        ) from error
    return metrics
