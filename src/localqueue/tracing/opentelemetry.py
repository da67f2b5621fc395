"""Spans for OpenTelemetry, through `opentelemetry-api`: where they go is up to the SDK of the program."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from localqueue._version import __version__
from localqueue.events.event import Event
from localqueue.metrics.conventions import (
    BATCH_COUNT,
    CLIENT_ID,
    DELIVERY_ATTEMPT,
    ERROR_TYPE,
    LEASE_LOST,
    MESSAGE_ID,
    SCHEMA,
    TASK_NAME,
    attributes_of,
    error_type,
)
from localqueue.metrics.fork import flush_in_children, flush_provider
from localqueue.queue.operation import Operation, headers_of
from localqueue.stores.kept_error import shown
from localqueue.tracing.error import exception_attributes
from localqueue.tracing.processed import Processed

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Link, Span, SpanContext, TracerProvider


class OpenTelemetryTracing:
    """A hook that makes spans of what its queues do, and has the trace context travel in the headers of messages.

    A put is a PRODUCER span `send <queue>`. In a batch each message has a PRODUCER span `create <queue>` of its own,
    unless `create_spans` is False, and the `send` is a CLIENT span with a link to each; so it is with messages of a
    transaction and of `current_job().put`. A lease that brings messages is a CLIENT span `receive <queue>`, a settle
    one named after what is done (`ack <queue>`, `release <queue>`). A handler runs in a CONSUMER span
    `process <queue>`, the parent of its own spans and of the settle that follows, that links to where its message was
    put; with `producer_as_parent` it is a child of that, in the same trace.

    Without `tracer_provider` and `propagator` they are the global ones. One object serves many queues; needs the extra
    `localqueue[opentelemetry]`.
    """

    adds_headers = True

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        propagator: TextMapPropagator | None = None,
        producer_as_parent: bool = False,
        create_spans: bool = True,
    ) -> None:
        self._api = _api()
        self._provider = tracer_provider
        self._tracer = self._api.get_tracer("localqueue", __version__, tracer_provider, SCHEMA)
        self._given_propagator = propagator
        self._producer_as_parent = producer_as_parent
        self._create_spans = create_spans
        self._processed = Processed()
        self._arounds = {
            "create": self._around_create,
            "send": self._around_send,
            "receive": self._around_client,
            "settle": self._around_client,
            "process": self._around_process,
        }
        flush_in_children(self)

    def __call__(self, event: Event) -> None:
        """Events come after the fact; spans are made around it."""

    def around(self, operation: Operation) -> AbstractContextManager[None]:
        """The spans of an operation, as a context manager in which it happens."""
        return self._arounds[operation.kind](operation)

    def flush(self) -> None:
        """Have the provider export the spans that have ended, where it can be asked to."""
        flush_provider(self._api.get_tracer_provider() if self._provider is None else self._provider)

    @contextmanager
    def _around_create(self, operation: Operation) -> Iterator[None]:
        for number, message in enumerate(operation.messages):
            if not self._creation(message).is_valid:
                self._create(operation, number)
        yield

    @contextmanager
    def _around_send(self, operation: Operation) -> Iterator[None]:
        if operation.open and operation.batch and self._create_spans:
            with self._around_create(operation):
                pass
        creations = [self._creation(message) for message in operation.messages]
        without = [number for number, creation in enumerate(creations) if not creation.is_valid]
        produces = operation.open and bool(without)
        kind = self._api.SpanKind.PRODUCER if produces else self._api.SpanKind.CLIENT
        span = self._start(operation, kind, links=self._links(creations))
        if produces:
            carried = self._carried(span)
            for number in without:
                operation.add_headers(number, carried)
        try:
            with self._api.use_span(span, record_exception=False, set_status_on_exception=False):
                yield
        except BaseException as error:
            self._fail(span, error)
            raise
        finally:
            _describe_messages(span, operation)
            span.end()

    @contextmanager
    def _around_client(self, operation: Operation) -> Iterator[None]:
        """A span that is made when it is known what happened: a look that finds nothing makes none."""
        began = time.time_ns()
        failure: BaseException | None = None
        try:
            yield
        except BaseException as error:
            failure = error
            raise
        finally:
            if operation.messages or failure is not None:
                links = self._links(map(self._creation, operation.messages))
                parent = self._parent_of(operation)
                span = self._start(operation, self._api.SpanKind.CLIENT, links=links, start_time=began, context=parent)
                _describe_messages(span, operation)
                if failure is not None:
                    self._fail(span, failure)
                elif operation.lost:
                    self._lose(span, operation)
                span.end()

    @contextmanager
    def _around_process(self, operation: Operation) -> Iterator[None]:
        api, context = self._api, _context()
        ambient = context.get_current()
        nowhere = api.set_span_in_context(api.INVALID_SPAN, ambient)
        carried = self._propagator.extract(headers_of(operation.messages[0]), nowhere)
        creation = api.get_current_span(carried).get_span_context()
        links = [creation]
        parent = ambient
        if self._producer_as_parent and creation.is_valid:
            parent = carried
            links.append(api.get_current_span(ambient).get_span_context())
        span = self._start(operation, api.SpanKind.CONSUMER, links=self._links(links), context=parent)
        _describe_messages(span, operation)
        token = context.attach(api.set_span_in_context(span, carried))
        try:
            yield
        except BaseException as error:
            self._fail(span, error)
            raise
        finally:
            context.detach(token)
            span.end()
            self._processed.add(operation.messages[0], span.get_span_context())

    def _parent_of(self, operation: Operation) -> Context | None:
        """A worker settles when the handler's span has ended: the settle of one message is its child all the same."""
        found = [self._processed.take(message) for message in operation.messages] if operation.kind == "settle" else []
        if operation.batch or not found or found[0] is None or self._api.get_current_span().get_span_context().is_valid:
            return None
        parent: Context = self._api.set_span_in_context(self._api.NonRecordingSpan(found[0]))
        return parent

    def _create(self, operation: Operation, number: int) -> None:
        """A span for one message that is sent together with others."""
        one = Operation("create", operation.queue, operation.where, (operation.messages[number],))
        span = self._start(one, self._api.SpanKind.PRODUCER)
        _describe_messages(span, one)
        operation.add_headers(number, self._carried(span))
        span.end()

    def _start(self, operation: Operation, kind: Any, **options: Any) -> Span:
        name = f"{operation.name} {operation.queue}"
        span: Span = self._tracer.start_span(name, kind=kind, attributes=attributes_of(operation), **options)
        return span

    def _fail(self, span: Span, error: BaseException) -> None:
        if span.is_recording():
            span.set_attribute(ERROR_TYPE, error_type(error))
            span.add_event("exception", exception_attributes(error))
            span.set_status(self._api.StatusCode.ERROR, shown(error))

    def _lose(self, span: Span, operation: Operation) -> None:
        span.set_attribute(ERROR_TYPE, LEASE_LOST)
        lost = f"the leases of {operation.lost} of {len(operation.messages)} messages were lost"
        span.set_status(self._api.StatusCode.ERROR, lost)

    @property
    def _propagator(self) -> TextMapPropagator:
        from opentelemetry import propagate

        return propagate.get_global_textmap() if self._given_propagator is None else self._given_propagator

    def _carried(self, span: Span) -> dict[str, str]:
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self._api.set_span_in_context(span))
        return carrier

    def _creation(self, message: Any) -> SpanContext:
        """Where a message was made, as its headers say; one that is not valid where they do not."""
        headers = headers_of(message)
        context: Context = self._propagator.extract(headers, _context().Context()) if headers else _context().Context()
        found: SpanContext = self._api.get_current_span(context).get_span_context()
        return found

    def _links(self, contexts: Any) -> Sequence[Link]:
        return [self._api.Link(one) for one in contexts if one.is_valid]


def _describe_messages(span: Span, operation: Operation) -> None:
    messages = operation.messages
    if operation.batch:
        span.set_attribute(BATCH_COUNT, len(messages))
    elif messages:
        message = messages[0]
        span.set_attribute(MESSAGE_ID, getattr(message, "id", message))
        if attempt := getattr(message, "attempts", 0):
            span.set_attribute(DELIVERY_ATTEMPT, attempt)
        if worker := getattr(message, "leased_by", None):
            span.set_attribute(CLIENT_ID, worker)
        if task := _task_of(getattr(message, "value", None)):
            span.set_attribute(TASK_NAME, task)


def _task_of(value: Any) -> str | None:
    """The name of the task that a message calls, if it is one of `Tasks`."""
    name = value["task"] if isinstance(value, dict) and value.keys() >= {"task", "args"} else None
    return name if isinstance(name, str) else None


def _context() -> Any:
    from opentelemetry import context

    return context


def _api() -> Any:
    try:
        from opentelemetry import trace
    except ImportError as error:
        raise RuntimeError(
            "OpenTelemetry tracing requires the optional dependency; "
            'install with `pip install "localqueue[opentelemetry]"`'
        ) from error
    return trace
