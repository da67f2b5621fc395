"""Spans arrive in a real SDK as OpenTelemetry's messaging conventions want them, linked from producer to consumer."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from localqueue import (
    AsyncQueue,
    AsyncWorker,
    MemoryQueueStore,
    PersistentQueue,
    QueueMessage,
    Tasks,
    Worker,
    current_job,
    persistent_async_worker,
    persistent_worker,
)
from localqueue.dispatch import ThreadedDispatcher
from localqueue.policies import PublishSubscribeRouting, StaticFanoutSubscriptions
from localqueue.tracing import OpenTelemetryTracing, instrument, uninstrument
from localqueue.tracing.processed import Processed


class Spans:
    """A provider whose spans stay in memory, and what they are to each other."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def names(self) -> list[str]:
        return [span.name for span in self.all()]

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    yield made
    made.provider.shutdown()


@pytest.fixture
def store() -> Iterator[Any]:
    with MemoryQueueStore() as opened:
        yield opened


@pytest.fixture
def queue(store: Any, spans: Spans) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store, hooks=OpenTelemetryTracing(spans.provider))


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def id_of(span: ReadableSpan) -> int:
    return span.get_span_context().span_id


def trace_of(span: ReadableSpan) -> int:
    return span.get_span_context().trace_id


def carried(message: Any) -> int:
    """The span that a message's headers name."""
    return int(message.headers["traceparent"].split("-")[2], 16)


# sending


def test_a_put_is_a_producer_span_whose_context_the_message_carries(queue: PersistentQueue[Any], spans: Spans) -> None:
    message = queue.put("work")
    span = spans.one("send jobs")
    assert span.kind is SpanKind.PRODUCER
    assert attributes(span) == {
        "messaging.system": "localqueue",
        "messaging.destination.name": "jobs",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.message.id": message.id,
    }
    assert carried(message) == carried(queue.inspect(message.id)) == id_of(span)
    assert span.instrumentation_scope is not None and span.instrumentation_scope.name == "localqueue"


def test_a_put_is_a_child_of_the_span_it_happens_in(queue: PersistentQueue[Any], spans: Spans) -> None:
    with spans.tracer.start_as_current_span("request") as request:
        queue.put("work")
    sent = spans.one("send jobs")
    assert sent.parent is not None and sent.parent.span_id == request.get_span_context().span_id


def test_headers_of_the_producer_are_kept(queue: PersistentQueue[Any], spans: Spans) -> None:
    message = queue.put("work", headers={"tenant": "a"})
    assert message.headers == {"tenant": "a", "traceparent": message.headers["traceparent"]}


def test_a_creation_context_of_the_producers_own_is_not_touched_but_linked(
    queue: PersistentQueue[Any], spans: Spans
) -> None:
    own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    message = queue.put("work", headers={"traceparent": own})
    sent = spans.one("send jobs")
    assert message.headers == {"traceparent": own}
    assert sent.kind is SpanKind.CLIENT
    assert linked(sent) == [0xB7AD6B7169203331]


def test_each_message_of_a_batch_has_a_create_span_that_the_send_links_to(
    queue: PersistentQueue[Any], spans: Spans
) -> None:
    messages = queue.put_many(["a", "b", "c"])
    created, sent = spans.named("create jobs"), spans.one("send jobs")
    assert [span.kind for span in created] == [SpanKind.PRODUCER] * 3
    assert [id_of(span) for span in created] == linked(sent) == [carried(one) for one in messages]
    assert [attributes(span)["messaging.message.id"] for span in created] == [one.id for one in messages]
    assert sent.kind is SpanKind.CLIENT
    assert attributes(sent)["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in attributes(sent)


def test_without_create_spans_a_batch_carries_the_context_of_its_send(store: Any, spans: Spans) -> None:
    tracing = OpenTelemetryTracing(spans.provider, create_spans=False)
    queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, hooks=tracing)
    messages = queue.put_many(["a", "b"])
    sent = spans.one("send jobs")
    assert spans.names() == ["send jobs"]
    assert sent.kind is SpanKind.PRODUCER
    assert {carried(one) for one in messages} == {id_of(sent)}


def test_a_transaction_creates_where_it_puts_and_sends_and_settles_where_it_commits(
    queue: PersistentQueue[Any], store: Any, spans: Spans
) -> None:
    other: PersistentQueue[Any] = PersistentQueue("other", store=store, hooks=queue.hooks)
    queue.put("first")
    message = queue.get_message()
    with spans.tracer.start_as_current_span("work") as work, queue.transaction() as transaction:
        transaction.ack(message)
        pending = transaction.put("next", to=other)
    created, sent, acked = spans.one("create other"), spans.one("send other"), spans.one("ack jobs")
    assert carried(pending.message) == id_of(created)
    assert linked(sent) == [id_of(created)]
    assert attributes(sent)["messaging.message.id"] == pending.id
    assert linked(acked) == [id_of(spans.one("send jobs"))]
    assert {trace_of(one) for one in (created, sent, acked)} == {work.get_span_context().trace_id}


def test_a_transaction_that_is_not_committed_sends_nothing(queue: PersistentQueue[Any], spans: Spans) -> None:
    with pytest.raises(LookupError), queue.transaction() as transaction:
        transaction.put("never")
        raise LookupError
    assert spans.names() == ["create jobs"]


def test_a_put_that_fails_is_an_error(store: Any, spans: Spans) -> None:
    full: PersistentQueue[int] = PersistentQueue(
        "jobs", store=store, maxsize=1, hooks=OpenTelemetryTracing(spans.provider)
    )
    full.put(1)
    with pytest.raises(Exception, match="full"):
        full.put(2, block=False)
    failed = spans.named("send jobs")[1]
    assert failed.status.status_code is StatusCode.ERROR
    assert attributes(failed)["error.type"] == "localqueue.errors.QueueFull"


def test_every_subscriber_gets_the_context_of_what_was_published(store: Any, spans: Spans) -> None:
    topic: PersistentQueue[str] = PersistentQueue(
        "news",
        store=store,
        routing_policy=PublishSubscribeRouting(),
        subscription_policy=StaticFanoutSubscriptions(("a", "b")),
        hooks=OpenTelemetryTracing(spans.provider),
    )
    topic.put("hello")
    sent = spans.one("send news")
    for subscriber in ("a", "b"):
        assert carried(topic.subscriber_queue(subscriber).get_message()) == id_of(sent)


# receiving and settling


def test_a_lease_and_a_settle_are_client_spans_that_link_to_the_producer(
    queue: PersistentQueue[Any], spans: Spans
) -> None:
    queue.put("work")
    message = queue.get_message(leased_by="worker-1")
    queue.ack(message)
    sent, received, acked = spans.all()
    assert (received.name, acked.name) == ("receive jobs", "ack jobs")
    for span, kind, name in ((received, "receive", "receive"), (acked, "settle", "ack")):
        assert span.kind is SpanKind.CLIENT
        assert linked(span) == [id_of(sent)]
        assert attributes(span) == {
            "messaging.system": "localqueue",
            "messaging.destination.name": "jobs",
            "messaging.operation.name": name,
            "messaging.operation.type": kind,
            "messaging.message.id": message.id,
            "messaging.client.id": "worker-1",
            "messaging.localqueue.message.delivery_attempt": 1,
        }


def test_a_batch_is_received_and_settled_with_its_count(queue: PersistentQueue[Any], spans: Spans) -> None:
    queue.put_many(range(3))
    queue.ack_many(queue.get_messages(5))
    received, acked = spans.one("receive jobs"), spans.one("ack jobs")
    assert attributes(received)["messaging.batch.message_count"] == 3
    assert attributes(acked)["messaging.batch.message_count"] == 3
    assert linked(received) == linked(acked) == [id_of(one) for one in spans.named("create jobs")]


@pytest.mark.parametrize("action", ["release", "dead_letter", "cancel"])
def test_a_settle_is_named_after_what_it_does(queue: PersistentQueue[Any], spans: Spans, action: str) -> None:
    queue.put("work")
    getattr(queue, action)(queue.get_message())
    span = spans.all()[-1]
    assert span.name == f"{action.replace('_', '-')} jobs"
    assert attributes(span)["messaging.operation.type"] == "settle"


def test_a_look_that_finds_nothing_makes_no_span(queue: PersistentQueue[Any], spans: Spans) -> None:
    with pytest.raises(Exception):  # noqa: B017
        queue.get_nowait()
    assert spans.all() == []


@pytest.mark.parametrize("keep_results", [None, 60.0])
@pytest.mark.parametrize("way", ["ack", "release"])
def test_a_settle_whose_lease_was_lost_is_an_error(
    store: Any, spans: Spans, way: str, keep_results: float | None
) -> None:
    tracing = OpenTelemetryTracing(spans.provider)
    queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, hooks=tracing, keep_results=keep_results)
    queue.put("work")
    message = queue.get_message()
    queue.ack(message.id)
    assert getattr(queue, way)(message) is False
    span = spans.all()[-1]
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error.type"] == "localqueue.errors.LeaseLost"


def test_a_store_that_is_closed_is_an_error_of_the_span(queue: PersistentQueue[Any], spans: Spans) -> None:
    queue.store.close()
    with pytest.raises(Exception, match="closed"):
        queue.get_message(block=False)
    assert attributes(spans.one("receive jobs"))["error.type"] == "localqueue.errors.QueueStoreClosedError"


# processing


def test_a_handler_runs_in_a_consumer_span_that_links_to_the_producer(
    queue: PersistentQueue[Any], spans: Spans
) -> None:
    def handle(value: str) -> None:
        with spans.tracer.start_as_current_span("inside"):
            pass

    with spans.tracer.start_as_current_span("request"):
        message = queue.put("work")
    Worker(queue, handle, worker_id="w").run_until_empty()
    sent, process, inside = spans.one("send jobs"), spans.one("process jobs"), spans.one("inside")
    assert process.kind is SpanKind.CONSUMER
    assert process.parent is None and trace_of(process) != trace_of(sent)
    assert linked(process) == [id_of(sent)]
    assert inside.parent is not None and inside.parent.span_id == id_of(process)
    assert process.status.status_code is StatusCode.UNSET
    assert attributes(process) == {
        "messaging.system": "localqueue",
        "messaging.destination.name": "jobs",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": message.id,
        "messaging.client.id": "w",
        "messaging.localqueue.message.delivery_attempt": 1,
    }
    assert {span.name for span in spans.all()} >= {"receive jobs", "ack jobs"}


def test_the_settle_after_a_handler_is_a_child_of_its_span(queue: PersistentQueue[Any], spans: Spans) -> None:
    def handle(value: str) -> None:
        if value == "bad":
            raise OSError

    queue.put("good")
    queue.put("bad")
    Worker(queue, handle, max_tries=1).run_until_empty()
    for process, settle in zip(
        spans.named("process jobs"), (spans.one("ack jobs"), spans.one("dead-letter jobs")), strict=True
    ):
        assert settle.parent is not None and settle.parent.span_id == id_of(process)


def test_a_settle_of_several_messages_is_a_child_of_none(queue: PersistentQueue[Any], spans: Spans) -> None:
    queue.put_many(range(3))
    Worker(queue, str, prefetch=3).run_until_empty()
    settled = spans.one("ack jobs")
    assert settled.parent is None
    assert attributes(settled)["messaging.batch.message_count"] == 3


def test_a_decorated_handler_has_one_span_for_all_its_tries(queue: PersistentQueue[Any], spans: Spans) -> None:
    tries = iter([OSError(), None])

    @persistent_worker(queue, max_tries=2, wait=0)
    def handle(value: str) -> None:
        error = next(tries)
        if error is not None:
            raise error

    queue.put("work")
    with spans.tracer.start_as_current_span("request"):
        handle()
    process, request = spans.one("process jobs"), spans.one("request")
    assert process.status.status_code is StatusCode.UNSET
    assert process.parent is not None and process.parent.span_id == id_of(request)
    assert trace_of(spans.one("receive jobs")) == trace_of(spans.one("ack jobs")) == trace_of(request)


def test_a_decorated_coroutine_has_its_span(queue: PersistentQueue[Any], spans: Spans) -> None:
    @persistent_async_worker(queue)
    async def handle(value: str) -> None:
        with spans.tracer.start_as_current_span("inside"):
            await asyncio.sleep(0)

    queue.put("work")
    asyncio.run(handle())
    inside = spans.one("inside")
    assert inside.parent is not None and inside.parent.span_id == id_of(spans.one("process jobs"))


def test_spans_of_deliveries_that_are_never_settled_are_forgotten() -> None:
    processed = Processed()
    span = trace.SpanContext(1, 1, is_remote=False)
    for number in range(10_001):
        processed.add(QueueMessage(str(number), None, "jobs", attempts=1), span)
    assert processed.take(QueueMessage("0", None, "jobs", attempts=1)) is None
    assert processed.take(QueueMessage("10000", None, "jobs", attempts=1)) is span


def test_the_producer_can_be_the_parent_of_the_handler(store: Any, spans: Spans) -> None:
    tracing = OpenTelemetryTracing(spans.provider, producer_as_parent=True)
    queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, hooks=tracing)
    queue.put("work")
    Worker(queue, str).run_until_empty()
    sent, process = spans.one("send jobs"), spans.one("process jobs")
    assert process.parent is not None and process.parent.span_id == id_of(sent)
    assert trace_of(process) == trace_of(sent)
    assert linked(process) == [id_of(sent)]


def test_a_message_without_context_is_processed_in_a_trace_of_its_own(store: Any, spans: Spans) -> None:
    PersistentQueue[str]("jobs", store=store).put("untraced")
    tracing = OpenTelemetryTracing(spans.provider, producer_as_parent=True)
    Worker(PersistentQueue("jobs", store=store, hooks=tracing), str).run_until_empty()
    process = spans.one("process jobs")
    assert process.parent is None and not process.links


def test_a_failing_handler_is_an_error_with_its_traceback_and_without_its_variables(
    queue: PersistentQueue[Any], spans: Spans
) -> None:
    def handle(value: str) -> None:
        password = "hunter2" + value
        raise ValueError(f"no printer for {len(password)}")

    queue.put("work")
    Worker(queue, handle, max_tries=1).run_until_empty()
    process = spans.one("process jobs")
    (event,) = process.events
    said = dict(event.attributes or {})
    assert process.status.status_code is StatusCode.ERROR
    assert "no printer for 11" in (process.status.description or "")
    assert attributes(process)["error.type"] == said["exception.type"] == "ValueError"
    assert event.name == "exception" and said["exception.message"] == "no printer for 11"
    assert "in handle" in str(said["exception.stacktrace"])
    assert "hunter2work" not in repr(said)
    assert spans.one("dead-letter jobs").kind is SpanKind.CLIENT


def test_a_huge_error_is_cut(queue: PersistentQueue[Any], spans: Spans) -> None:
    def handle(value: str) -> None:
        raise ValueError("x" * 1_000_000)

    queue.put("work")
    Worker(queue, handle, max_tries=1).run_until_empty()
    (event,) = spans.one("process jobs").events
    assert all(len(str(value)) < 40_000 for value in (event.attributes or {}).values())


@pytest.mark.slow
def test_each_delivery_has_its_span_and_says_which_it_is(queue: PersistentQueue[Any], spans: Spans) -> None:
    tries = iter([ValueError("once"), None])

    def handle(value: str) -> None:
        error = next(tries)
        if error is not None:
            raise error

    queue.put("work")
    Worker(queue, handle, max_tries=3).run_until_empty(wait_for_delayed=True)
    deliveries = spans.named("process jobs")
    attempts = [attributes(one)["messaging.localqueue.message.delivery_attempt"] for one in deliveries]
    assert attempts == [1, 2]
    assert [one.status.status_code for one in deliveries] == [StatusCode.ERROR, StatusCode.UNSET]
    assert linked(deliveries[0]) == linked(deliveries[1])


def test_a_follow_up_is_created_in_the_handlers_span_and_links_on(queue: PersistentQueue[Any], spans: Spans) -> None:
    def handle(value: int) -> None:
        if value < 2:
            current_job().put(value + 1)

    queue.put(1)
    Worker(queue, handle).run_until_empty()
    first, second = spans.named("process jobs")
    created = spans.one("create jobs")
    assert created.parent is not None and created.parent.span_id == id_of(first)
    assert linked(second) == [id_of(created)]
    assert linked(spans.named("send jobs")[1]) == [id_of(created)]


def test_handlers_on_an_event_loop_have_each_their_own_span(queue: PersistentQueue[Any], spans: Spans) -> None:
    async def main() -> None:
        both = asyncio.Barrier(2)

        async def handle(value: str) -> None:
            await both.wait()
            with spans.tracer.start_as_current_span(f"inside {value}"):
                await both.wait()

        await AsyncWorker(queue, handle, concurrency=2).run_until_empty()

    sent = {value: queue.put(value) for value in ("a", "b")}
    asyncio.run(asyncio.wait_for(main(), 30))
    processes = {id_of(span): span for span in spans.named("process jobs")}
    assert len(processes) == 2
    for value, message in sent.items():
        inside = spans.one(f"inside {value}")
        assert inside.parent is not None
        assert linked(processes[inside.parent.span_id]) == [carried(message)]


def test_an_async_queue_puts_and_takes_in_the_trace_of_its_caller(queue: PersistentQueue[Any], spans: Spans) -> None:
    async def main() -> None:
        async with AsyncQueue(queue) as line:
            with spans.tracer.start_as_current_span("request"):
                await line.put("work")
                await line.ack(await line.get_message())

    asyncio.run(asyncio.wait_for(main(), 30))
    request = spans.one("request")
    for name in ("send jobs", "receive jobs", "ack jobs"):
        assert trace_of(spans.one(name)) == trace_of(request)


def test_a_handler_that_is_no_coroutine_has_its_span_in_an_async_worker(
    queue: PersistentQueue[Any], spans: Spans
) -> None:
    def handle(value: str) -> None:
        with spans.tracer.start_as_current_span("inside"):
            pass

    queue.put("work")
    asyncio.run(AsyncWorker(queue, handle).run_until_empty())
    inside = spans.one("inside")
    assert inside.parent is not None and inside.parent.span_id == id_of(spans.one("process jobs"))


def test_a_dispatcher_calls_its_handlers_in_a_consumer_span(store: Any, spans: Spans) -> None:
    handled = threading.Event()
    queue: PersistentQueue[str] = PersistentQueue(
        "jobs",
        store=store,
        dispatch_policy=ThreadedDispatcher([lambda message: handled.set()]),
        hooks=OpenTelemetryTracing(spans.provider),
    )
    queue.put("work")
    assert handled.wait(30)
    queue.close()
    assert linked(spans.one("process jobs")) == [id_of(spans.one("send jobs"))]


def test_baggage_of_the_producer_reaches_the_handler(queue: PersistentQueue[Any]) -> None:
    seen: list[Any] = []
    token = context.attach(baggage.set_baggage("tenant", "acme"))
    try:
        queue.put("work")
    finally:
        context.detach(token)
    Worker(queue, lambda value: seen.append(baggage.get_baggage("tenant"))).run_until_empty()
    assert seen == ["acme"]


def test_a_propagator_of_ones_own_decides_how_the_context_travels(store: Any, spans: Spans) -> None:
    class Own(TextMapPropagator):
        def inject(self, carrier: Any, context: Any = None, setter: Any = None) -> None:
            carrier["x-span"] = str(trace.get_current_span(context).get_span_context().span_id)

        def extract(self, carrier: Any, context: Any = None, getter: Any = None) -> Any:
            found = trace.SpanContext(1, int(carrier["x-span"]), is_remote=True)
            return trace.set_span_in_context(trace.NonRecordingSpan(found), context)

        @property
        def fields(self) -> set[str]:
            return {"x-span"}

    tracing = OpenTelemetryTracing(spans.provider, propagator=Own())
    queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, hooks=tracing)
    message = queue.put("work")
    Worker(queue, str).run_until_empty()
    assert set(message.headers) == {"x-span"}
    assert linked(spans.one("process jobs")) == [id_of(spans.one("send jobs"))]


def test_a_job_is_traced_from_where_it_was_enqueued_under_the_name_of_its_task(store: Any, spans: Spans) -> None:
    tasks = Tasks(store)

    @tasks.task(name="sums.add")
    def add(first: int, second: int) -> int:
        return first + second

    instrument(tracer_provider=spans.provider, metrics=False)
    try:
        with spans.tracer.start_as_current_span("request"):
            job = add.delay(1, 2)
        tasks.worker().run_until_empty()
    finally:
        uninstrument()
    sent, process = spans.one("send default"), spans.one("process default")
    assert job.result(timeout=30) == 3
    assert trace_of(sent) == trace_of(spans.one("request"))
    assert linked(process) == [id_of(sent)]
    assert attributes(process)["messaging.localqueue.task.name"] == "sums.add"


# the whole process


def test_instrument_traces_and_measures_queues_that_exist_and_queues_to_come(store: Any, spans: Spans) -> None:
    reader = InMemoryMetricReader()
    meters = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    before: PersistentQueue[int] = PersistentQueue("before", store=store)
    try:
        instrument(tracer_provider=spans.provider, meter_provider=meters)
        instrument(tracer_provider=spans.provider)  # changes nothing
        after: PersistentQueue[int] = PersistentQueue("after", store=store)
        before.put(1)
        after.put(1)
    finally:
        uninstrument()
    before.put(2)
    PersistentQueue[int]("later", store=store).put(3)
    measured = reader.get_metrics_data()
    meters.shutdown()
    assert spans.names() == ["send before", "send after"]
    assert before.hooks == after.hooks == ()
    assert measured is not None and "messaging.client.sent.messages" in measured.to_json()


def test_a_queue_that_is_forgotten_is_not_kept_for_the_sake_of_instrument(store: Any) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store)
    gone = weakref.ref(queue)
    del queue
    gc.collect()
    assert gone() is None


def test_without_tracing_a_put_has_no_headers(store: Any) -> None:
    assert PersistentQueue[int]("jobs", store=store).put(1).headers == {}


def test_a_hook_that_is_removed_traces_no_more(queue: PersistentQueue[Any], spans: Spans) -> None:
    (tracing,) = queue.hooks
    queue.remove_hook(tracing)
    assert queue.put("work").headers == {}
    assert spans.all() == []


def test_tracing_that_fails_is_logged_and_the_message_is_stored(store: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        adds_headers = True

        def __call__(self, event: object) -> None: ...

        def around(self, operation: object) -> Any:
            raise OSError("collector gone")

    queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, hooks=Broken())
    with caplog.at_level(logging.ERROR, "localqueue.events"):
        queue.put("work")
        Worker(queue, str).run_until_empty()
    assert queue.stats().total == 0
    assert "collector gone" in caplog.text
