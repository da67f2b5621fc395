"""Spans name the server of a store, and the context of a message comes back from every store."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from localqueue import PersistentQueue, Worker
from localqueue.stores import open_store
from localqueue.tracing import OpenTelemetryTracing
from tests.servers import Server

pytestmark = pytest.mark.server


@pytest.mark.parametrize("fixture", ["postgres", "redis_server", "mongodb"])
def test_spans_of_a_store_on_a_server_name_its_host_and_port(fixture: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(fixture)
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with open_store(server.url, namespace="tracing") as store:
        queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, hooks=OpenTelemetryTracing(provider))
        queue.put("work")
        Worker(queue, str).run_until_empty()
    provider.shutdown()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    sent = spans["send jobs"].get_span_context()
    assert set(spans) == {"send jobs", "receive jobs", "process jobs", "ack jobs"}
    for span in spans.values():
        said = span.attributes or {}
        assert said["server.port"] == server.port
        assert said["server.address"] in server.url
    assert [link.context.span_id for link in spans["process jobs"].links] == [sent.span_id]
