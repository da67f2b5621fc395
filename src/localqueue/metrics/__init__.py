"""Metrics of queues through the library you already use: Prometheus or OpenTelemetry.

Both are hooks: `PersistentQueue("jobs", hooks=PrometheusMetrics())`, or `queue.add_hook(metrics)` later.
"""

from localqueue.metrics.opentelemetry import OpenTelemetryMetrics
from localqueue.metrics.prometheus import PrometheusMetrics

__all__ = ["OpenTelemetryMetrics", "PrometheusMetrics"]
