"""Spans of what queues and handlers do, by the messaging conventions of OpenTelemetry.

`instrument()` traces and measures every queue of the process; `PersistentQueue("jobs", hooks=OpenTelemetryTracing())`
traces one.
"""

from localqueue.tracing.instrument import instrument, uninstrument
from localqueue.tracing.opentelemetry import OpenTelemetryTracing

__all__ = ["OpenTelemetryTracing", "instrument", "uninstrument"]
