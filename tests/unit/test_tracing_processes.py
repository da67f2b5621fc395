"""Spans of worker processes arrive, and link to where other processes put their messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from localqueue import PersistentQueue, SQLiteQueueStore

pytestmark = pytest.mark.multiprocess

WORKER = """
import os, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from localqueue import PersistentQueue, SQLiteQueueStore, Worker
from localqueue.tracing import instrument

folder, processor = sys.argv[1:]

class FileExporter(SpanExporter):
    def export(self, spans):
        with open(f"{folder}/spans", "a") as file:
            for span in spans:
                file.write(f"{os.getpid()} {span.to_json(indent=None)}\\n")
        return SpanExportResult.SUCCESS

provider = TracerProvider()
provider.add_span_processor({"simple": SimpleSpanProcessor, "batch": BatchSpanProcessor}[processor](FileExporter()))
trace.set_tracer_provider(provider)
instrument()

def handle(value):
    with trace.get_tracer("app").start_as_current_span("inside"):
        pass

with SQLiteQueueStore(f"{folder}/queue.db") as store:
    Worker(PersistentQueue("jobs", store=store), handle, executor="processes").run_until_empty()
print(os.getpid())
"""


@pytest.mark.parametrize("processor", ["simple", "batch"])
def test_the_spans_of_a_forked_handler_are_exported_and_link_to_the_producer(tmp_path: Path, processor: str) -> None:
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with SQLiteQueueStore(tmp_path / "queue.db") as store:
        PersistentQueue[str]("jobs", store=store).put("work", headers={"traceparent": traceparent})
    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(tmp_path), processor],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split(" ", 1) for line in (tmp_path / "spans").read_text().splitlines()]
    found = {span["name"]: (pid, span) for pid, span in ((pid, json.loads(text)) for pid, text in lines)}
    pid, process = found["process jobs"]
    assert pid != done.stdout.strip()
    assert process["links"][0]["context"]["span_id"] == "0xb7ad6b7169203331"
    assert found["inside"][1]["parent_id"] == process["context"]["span_id"]
    assert {"receive jobs", "ack jobs"} <= set(found)
