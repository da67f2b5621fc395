"""Tracing and measuring every queue of the process, with one call."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from localqueue.metrics.opentelemetry import OpenTelemetryMetrics
from localqueue.queue import everywhere
from localqueue.tracing.opentelemetry import OpenTelemetryTracing

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import TracerProvider

_hooks: list[Any] = []
_changing = threading.Lock()


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    propagator: TextMapPropagator | None = None,
    producer_as_parent: bool = False,
    create_spans: bool = True,
    metrics: bool = True,
) -> None:
    """Trace and measure every queue of this process: those that exist, and those that will be made.

    It adds one `OpenTelemetryTracing` and, unless `metrics` is False, one `OpenTelemetryMetrics` to each as hooks; what
    is not given is that of the global providers. A second call changes nothing before `uninstrument()`.
    """
    with _changing:
        if _hooks:
            return
        tracing = OpenTelemetryTracing(
            tracer_provider,
            propagator=propagator,
            producer_as_parent=producer_as_parent,
            create_spans=create_spans,
        )
        measuring = [OpenTelemetryMetrics(meter_provider=meter_provider)] if metrics else []
        _hooks.extend((tracing, *measuring))
        for hook in _hooks:
            everywhere.add_hook(hook)


def uninstrument() -> None:
    """Take back what `instrument` did; queues that have hooks of their own keep them."""
    with _changing:
        while _hooks:
            everywhere.remove_hook(_hooks.pop())
