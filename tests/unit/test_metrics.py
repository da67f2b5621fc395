"""Metrics arrive in real registries of Prometheus and OpenTelemetry."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
from queue import Full
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest

from localqueue import CallbackNotification, MemoryQueueStore, PersistentQueue, Worker
from localqueue.contracts import FakeClock
from localqueue.events import Event
from localqueue.metrics import OpenTelemetryMetrics, PrometheusMetrics
from localqueue.metrics.conventions import server_of
from localqueue.metrics.measures import durations


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Any:
    with MemoryQueueStore(clock=clock) as opened:
        yield opened


def work(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    """One message acked 2 s after its put and 1.5 s after its lease, one dead letter, one ready for 4 s."""
    queue.put("good")
    clock.advance(0.5)
    message = queue.get_message()
    clock.advance(1.5)
    queue.ack(message)
    queue.put("bad")
    queue.dead_letter(queue.get_message())
    queue.put("left")
    clock.advance(4)


def scrape(registry: CollectorRegistry) -> dict[str, float]:
    lines = generate_latest(registry).decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def test_prometheus_has_counters_gauges_and_histograms(store: Any, clock: FakeClock) -> None:
    registry = CollectorRegistry()
    queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, hooks=PrometheusMetrics(registry))
    work(queue, clock)
    seen = scrape(registry)
    assert seen['localqueue_events_total{queue="jobs",type="enqueued"}'] == 3
    assert seen['localqueue_events_total{queue="jobs",type="acked"}'] == 1
    assert seen['localqueue_events_total{queue="jobs",type="dead_lettered"}'] == 1
    assert seen['localqueue_messages{queue="jobs",state="ready"}'] == 1
    assert seen['localqueue_messages{queue="jobs",state="dead"}'] == 1
    assert seen['localqueue_messages{queue="jobs",state="inflight"}'] == 0
    assert seen['localqueue_oldest_ready_age_seconds{queue="jobs"}'] == 4
    assert seen['localqueue_put_to_lease_seconds_count{queue="jobs"}'] == 2
    assert seen['localqueue_put_to_lease_seconds_sum{queue="jobs"}'] == 0.5
    assert seen['localqueue_lease_to_settle_seconds_sum{queue="jobs"}'] == 1.5
    assert seen['localqueue_lease_to_settle_seconds_count{queue="jobs"}'] == 2
    assert seen['localqueue_put_to_ack_seconds_sum{queue="jobs"}'] == 2.0
    assert seen['localqueue_put_to_ack_seconds_bucket{le="1.0",queue="jobs"}'] == 0


def test_prometheus_counts_notifications_and_their_failures(store: Any) -> None:
    def fail(message: object) -> None:
        raise OSError

    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry, namespace="app")
    good: PersistentQueue[int] = PersistentQueue("good", store=store, hooks=metrics, notification_policy=_to(print))
    bad: PersistentQueue[int] = PersistentQueue("bad", store=store, hooks=metrics, notification_policy=_to(fail))
    good.put(1)
    with pytest.raises(OSError):
        bad.put(1)
    seen = scrape(registry)
    assert seen['app_events_total{queue="good",type="notified"}'] == 1
    assert seen['app_events_total{queue="bad",type="notification_failed"}'] == 1


def _to(listener: Any) -> CallbackNotification:
    return CallbackNotification(listener)


def test_a_queue_that_is_removed_or_closed_or_forgotten_leaves_the_gauges(store: Any, clock: FakeClock) -> None:
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    removed: PersistentQueue[int] = PersistentQueue("removed", store=store, hooks=metrics)
    closed: PersistentQueue[int] = PersistentQueue("closed", store=MemoryQueueStore(), hooks=metrics)
    kept: PersistentQueue[int] = PersistentQueue("kept", store=store, hooks=metrics)
    PersistentQueue("forgotten", store=store, hooks=metrics).put(1)
    gc.collect()
    removed.remove_hook(metrics)
    closed.store.close()
    kept.put(1)
    removed.put(1)
    gauges = {name for name in scrape(registry) if name.startswith("localqueue_messages")}
    assert {name.split('"')[1] for name in gauges} == {"kept"}


def test_counts_that_can_not_be_read_are_logged_and_the_scrape_goes_on(
    store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        name = "broken"

        def stats(self) -> None:
            raise OSError("disk gone")

    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    broken = Broken()
    metrics.attach(broken)
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, hooks=metrics)
    queue.put(1)
    with caplog.at_level(logging.ERROR, "localqueue.metrics"):
        assert scrape(registry)['localqueue_messages{queue="jobs",state="ready"}'] == 1
    assert "disk gone" in caplog.text


def test_opentelemetry_has_counters_gauges_and_histograms(store: Any, clock: FakeClock) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    try:
        queue: PersistentQueue[str] = PersistentQueue("jobs", store=store)
        queue.add_hook(OpenTelemetryMetrics(provider.get_meter("test")))
        work(queue, clock)
        points = _points(reader)
    finally:
        provider.shutdown()
    assert points["localqueue.events", "enqueued"].value == 3
    assert points["localqueue.events", "dead_lettered"].value == 1
    assert points["localqueue.messages", "ready"].value == 1
    assert points["localqueue.messages", "dead"].value == 1
    assert points["localqueue.oldest_ready_age", None].value == 4
    assert (points["localqueue.put_to_lease", None].count, points["localqueue.put_to_lease", None].sum) == (2, 0.5)
    assert points["localqueue.lease_to_settle", None].sum == 1.5
    assert points["localqueue.put_to_ack", None].sum == 2.0
    assert points["localqueue.put_to_ack", None].explicit_bounds[0] == 0.0005


def _points(reader: InMemoryMetricReader) -> dict[tuple[str, Any], Any]:
    data = reader.get_metrics_data()
    assert data is not None
    return {
        (metric.name, dict(point.attributes or {}).get("type") or dict(point.attributes or {}).get("state")): point
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


def test_opentelemetry_measures_operations_by_the_messaging_conventions(store: Any) -> None:
    def fail(value: str) -> None:
        if value == "bad":
            raise OSError(value)

    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    try:
        queue: PersistentQueue[str] = PersistentQueue(
            "jobs", store=store, maxsize=4, hooks=OpenTelemetryMetrics(meter_provider=provider)
        )
        plain: PersistentQueue[str] = PersistentQueue("plain", store=store, hooks=queue.hooks)
        queue.put("good")
        queue.put_many(["good", "bad"])
        with pytest.raises(Full):
            queue.put_many(["no", "room"], block=False)
        plain.put("one")
        plain.put_many(["two", "three"])
        Worker(queue, fail, max_tries=1).run_until_empty()
        data = reader.get_metrics_data()
    finally:
        provider.shutdown()
    assert data is not None
    found = {
        (metric.name, point.attributes["messaging.destination.name"], *_what(point.attributes)): point
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        if metric.name.startswith("messaging.")
        for point in metric.data.data_points
    }
    sent, consumed = "messaging.client.sent.messages", "messaging.client.consumed.messages"
    client, process = "messaging.client.operation.duration", "messaging.process.duration"
    assert found[sent, "jobs", "send", None].value == 3
    assert found[sent, "jobs", "send", "localqueue.errors.QueueFull"].value == 2
    assert found[sent, "plain", "send", None].value == 3
    assert found[consumed, "jobs", "receive", None].value == 3
    assert found[client, "jobs", "send", None].count == found[client, "plain", "send", None].count == 2
    assert found[client, "jobs", "receive", None].count == 3
    assert (found[client, "jobs", "ack", None].count, found[client, "jobs", "dead-letter", None].count) == (2, 1)
    assert (found[process, "jobs", "process", None].count, found[process, "jobs", "process", "OSError"].count) == (2, 1)
    assert found[process, "jobs", "process", None].explicit_bounds[:2] == (0.005, 0.01)
    assert {point.attributes["messaging.system"] for point in found.values()} == {"localqueue"}
    assert found[client, "jobs", "ack", None].attributes["messaging.operation.type"] == "settle"


def _what(attributes: Any) -> tuple[str, str | None]:
    return attributes["messaging.operation.name"], attributes.get("error.type")


def test_metrics_alone_add_no_headers(store: Any) -> None:
    queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, hooks=OpenTelemetryMetrics())
    assert queue.put("work").headers == {}


def test_a_meter_and_a_provider_at_once_are_refused() -> None:
    provider = MeterProvider(shutdown_on_exit=False)
    with pytest.raises(ValueError, match="either meter= or meter_provider="):
        OpenTelemetryMetrics(provider.get_meter("test"), meter_provider=provider)


@pytest.mark.parametrize(
    ("url", "address", "port"),
    [
        ("postgresql://worker:***@db.example.com:6432/jobs", "db.example.com", 6432),
        ("postgresql://db.example.com/jobs", "db.example.com", 5432),
        ("redis://[::1]:6380/0", "::1", 6380),
        ("redis://[::1]/0", "::1", 6379),
        ("mongodb://a.example.com:27018,b.example.com/jobs?replicaSet=r", "a.example.com", 27018),
        ("mongodb+srv://cluster.example.com/jobs", "cluster.example.com", None),
    ],
)
def test_a_store_on_a_server_is_named_by_host_and_port(url: str, address: str, port: int | None) -> None:
    expected = {"server.address": address} | ({} if port is None else {"server.port": port})
    assert server_of(url) == expected


@pytest.mark.parametrize("url", ["sqlite:////var/lib/jobs.db", "lmdb:///jobs", "memory://", "host=db password=***"])
def test_a_store_without_an_address_of_a_server_names_none(url: str) -> None:
    assert server_of(url) == {}


def test_a_clock_that_jumps_back_makes_no_negative_duration() -> None:
    event = Event(type="acked", queue="jobs", at=5.0, data={"created_at": 9.0, "leased_at": 8.0})
    assert [one.seconds for one in durations(event)] == [0.0, 0.0]
    assert list(durations(Event(type="leased", queue="jobs", at=5.0, attempt=2, data={"created_at": 1.0}))) == []


@pytest.mark.parametrize(
    ("module", "home", "name", "extra"),
    [
        ("prometheus_client", "metrics", "PrometheusMetrics", "prometheus"),
        ("opentelemetry", "metrics", "OpenTelemetryMetrics", "opentelemetry"),
        ("opentelemetry", "tracing", "OpenTelemetryTracing", "opentelemetry"),
        ("opentelemetry", "tracing", "instrument", "opentelemetry"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(module: str, home: str, name: str, extra: str) -> None:
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        f"from localqueue.{home} import {name}\n"
        f"try: {name}()\n"
        "except RuntimeError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert f"localqueue[{extra}]" in run.stdout
