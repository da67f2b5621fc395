"""Metrics for OpenTelemetry, through `opentelemetry-api`: where they go is up to the SDK of the program."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from localqueue._version import __version__
from localqueue.events.event import Event
from localqueue.metrics.conventions import (
    CONSUMED_MESSAGES,
    DURATION_BUCKETS,
    ERROR_TYPE,
    LEASE_LOST,
    OPERATION_DURATION,
    OPERATION_TYPE,
    PROCESS_DURATION,
    SENT_MESSAGES,
    attributes_of,
    error_type,
)
from localqueue.metrics.fork import flush_in_children, flush_provider
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
from localqueue.queue.operation import Operation

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation


class OpenTelemetryMetrics:
    """A hook that counts events and times them, and lets the counts of its queues be observed.

    The counter `localqueue.events` by queue and type; the observable gauges `localqueue.messages` by queue and state
    and `localqueue.oldest_ready_age` by queue; and the histograms `localqueue.put_to_lease`,
    `localqueue.lease_to_settle` and `localqueue.put_to_ack` in seconds, by queue. By the messaging conventions of
    OpenTelemetry also the histograms `messaging.client.operation.duration` and `messaging.process.duration` and the
    counters `messaging.client.sent.messages` and `messaging.client.consumed.messages`. Of consumers and bridges that it
    is told to `watch` the observable counters `localqueue.consumer` by queue and `localqueue.bridge` by bridge, each by
    what was counted, and the observable gauge `localqueue.consumer_degraded`. Without `meter` it is that of
    `meter_provider`, or of the global provider. One object serves many queues; needs the extra
    `localqueue[opentelemetry]`.
    """

    def __init__(self, meter: Meter | None = None, *, meter_provider: MeterProvider | None = None) -> None:
        if meter is not None and meter_provider is not None:
            raise ValueError("pass either meter= or meter_provider=, not both")
        self._api = api = _api()
        self._provider = meter_provider
        self._is_global = meter is None and meter_provider is None
        meter = api.get_meter("localqueue", __version__, meter_provider) if meter is None else meter
        self._observation = api.Observation
        self._queues = WatchedQueues()
        self._events = meter.create_counter("localqueue.events", "{event}", DESCRIPTIONS["events"])
        self._seconds = {
            name: meter.create_histogram(
                f"localqueue.{name}", "s", DESCRIPTIONS[name], explicit_bucket_boundaries_advisory=BUCKETS
            )
            for name in (PUT_TO_LEASE, LEASE_TO_SETTLE, PUT_TO_ACK)
        }
        self._operations, self._processes = (
            meter.create_histogram(name, "s", text, explicit_bucket_boundaries_advisory=DURATION_BUCKETS)
            for name, text in (
                (OPERATION_DURATION, "Seconds that a put, a lease or a settle took"),
                (PROCESS_DURATION, "Seconds that a handler took"),
            )
        )
        self._sent = meter.create_counter(SENT_MESSAGES, "{message}", "Messages that were put, or should have been")
        self._consumed = meter.create_counter(CONSUMED_MESSAGES, "{message}", "Messages that were leased")
        meter.create_observable_gauge(
            "localqueue.messages", [self._count], unit="{message}", description=DESCRIPTIONS["messages"]
        )
        meter.create_observable_gauge(
            "localqueue.oldest_ready_age", [self._age], unit="s", description=DESCRIPTIONS["oldest_ready_age"]
        )
        self._flows = WatchedFlows()
        for kind in ("consumer", "bridge"):
            meter.create_observable_counter(f"localqueue.{kind}", [self._flown(kind)], description=DESCRIPTIONS[kind])
        meter.create_observable_gauge(
            "localqueue.consumer_degraded", [self._degraded], description=DESCRIPTIONS["consumer_degraded"]
        )
        flush_in_children(self)

    def watch(self, flow: Any) -> None:
        """Observe the counters of a `HybridConsumer` or a `Bridge` from now on."""
        self._flows.add(flow)

    def attach(self, queue: Any) -> None:
        """Observe the counts of a queue from now on; `queue.add_hook(metrics)` calls this."""
        self._queues.add(queue)

    def detach(self, queue: Any) -> None:
        self._queues.remove(queue)

    def flush(self) -> None:
        """Have the provider export what was measured, where it is known and can be asked to."""
        flush_provider(self._api.get_meter_provider() if self._is_global else self._provider)

    def __call__(self, event: Event) -> None:
        self._events.add(1, {"queue": event.queue, "type": event.type})
        for name, seconds in durations(event):
            self._seconds[name].record(seconds, {"queue": event.queue})

    @contextmanager
    def around(self, operation: Operation) -> Iterator[None]:
        """Time an operation, and count its messages; a look that finds nothing is not measured."""
        began = time.perf_counter()
        failure: str | None = None
        try:
            yield
        except BaseException as error:
            failure = error_type(error)
            raise
        finally:
            if operation.kind != "create" and (operation.messages or failure is not None):
                self._measure(operation, time.perf_counter() - began, LEASE_LOST if operation.lost else failure)

    def _measure(self, operation: Operation, seconds: float, failure: str | None) -> None:
        whole = attributes_of(operation) | ({} if failure is None else {ERROR_TYPE: failure})
        attributes = {name: value for name, value in whole.items() if name != OPERATION_TYPE}
        if operation.kind == "process":
            self._processes.record(seconds, attributes)
            return
        self._operations.record(seconds, whole)
        if operation.kind == "send":
            self._sent.add(len(operation.messages), attributes)
        elif operation.kind == "receive" and operation.messages:
            self._consumed.add(len(operation.messages), attributes)

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

    def _flown(self, kind: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        label = "queue" if kind == "consumer" else kind
        return lambda options: [
            self._observation(count, {label: flow.name, "what": what})
            for flow in self._flows.read()
            if flow.kind == kind
            for what, count in flow.counts.items()
        ]

    def _degraded(self, options: CallbackOptions) -> Iterable[Observation]:
        flows = [flow for flow in self._flows.read() if flow.kind == "consumer"]
        return [self._observation(int(flow.degraded), {"queue": flow.name}) for flow in flows]


def _api() -> Any:
    try:
        from opentelemetry import metrics
    except ImportError as error:
        raise RuntimeError(
            "OpenTelemetry metrics require the optional dependency; "
            'install with `pip install "localqueue[opentelemetry]"`'
        ) from error
    return metrics
