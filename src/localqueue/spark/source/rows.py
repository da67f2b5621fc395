"""Messages, journal entries and counts as Arrow batches of exactly the schema that Spark asked for.

A schema names columns of its view in any order and number; only those are made. Spark compares the types of the first
batch with its own, so times are `timestamp[us, UTC]` and every batch is built with the schema itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from localqueue.events.journal import JournalEvent
from localqueue.message import QueueStats
from localqueue.spark.columns import RUN_COUNTS
from localqueue.spark.source.values import error_fields, header_pairs, micros, payload_bytes, value_text
from localqueue.stores.port import DELAYED, READY, StoredMessage

if TYPE_CHECKING:
    from localqueue.spark.source.runs import RunRow

T = TypeVar("T")
Makers = Mapping[str, Callable[[Any], Any]]

ENQUEUED = "enqueued"


def message_batch(messages: Sequence[StoredMessage], schema: pa.Schema) -> pa.RecordBatch:
    """Messages as rows of the views `messages` and `dead`."""
    return _batch(messages, schema, _MESSAGE)


def event_batch(events: Sequence[JournalEvent], schema: pa.Schema) -> pa.RecordBatch:
    """Journal entries as rows of the view `events`."""
    return _batch(events, schema, _EVENT)


def enqueued_batch(events: Sequence[JournalEvent], schema: pa.Schema) -> pa.RecordBatch:
    """The `enqueued` entries among these as rows of the view `messages`: the messages as they were put."""
    return message_batch([enqueued_message(event) for event in events if event.type == ENQUEUED], schema)


def run_batch(rows: Sequence[RunRow], schema: pa.Schema) -> pa.RecordBatch:
    """Runs and their steps as rows of the view `runs`."""
    return _batch(rows, schema, _RUN)


def stats_batch(stats: Sequence[tuple[str, QueueStats]], schema: pa.Schema) -> pa.RecordBatch:
    """Queues and their counts as rows of the view `stats`."""
    makers = {name: _count(name) for name in schema.names if name != "queue"}
    return _batch(stats, schema, {"queue": lambda pair: pair[0], **makers})


def enqueued_message(event: JournalEvent) -> StoredMessage:
    """The message that an `enqueued` entry tells of, as it was put."""
    options = event.options or {}
    delay = options.get("delay") or 0.0
    headers = options.get("headers")
    return StoredMessage(
        id=event.message_id,
        queue=event.queue,
        state=DELAYED if delay > 0 else READY,
        payload=b"" if event.payload is None else event.payload,
        codec=event.codec,
        priority=options.get("priority") or 0,
        attempts=0,
        created_at=event.at,
        available_at=event.at + delay,
        dedupe_key=options.get("dedupe_key"),
        ordering_key=options.get("ordering_key"),
        run_id=options.get("run_id"),
        headers=json.dumps(headers) if isinstance(headers, Mapping) else headers,
    )


def _batch(rows: Sequence[T], schema: pa.Schema, makers: Makers) -> pa.RecordBatch:
    columns = []
    for field in schema:
        make = makers[field.name]
        columns.append(pa.array([make(row) for row in rows], type=field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _of(part: str, name: str, shown: Callable[[Any], Any] | None = None) -> Callable[[RunRow], Any]:
    def of(row: RunRow) -> Any:
        found = getattr(row, part)
        value = None if found is None else getattr(found, name)
        return value if shown is None else shown(value)

    return of


def _count(name: str) -> Callable[[tuple[str, QueueStats]], Any]:
    return lambda pair: getattr(pair[1], name)


def _option(name: str, default: Any = None) -> Callable[[JournalEvent], Any]:
    def of(event: JournalEvent) -> Any:
        return (event.options or {}).get(name, default) if event.type == ENQUEUED else None

    return of


_MESSAGE: Makers = {
    "id": lambda m: m.id,
    "queue": lambda m: m.queue,
    "state": lambda m: m.state,
    "value": lambda m: value_text(m.payload, m.codec),
    "headers": lambda m: header_pairs(m.headers),
    "attempts": lambda m: m.attempts,
    "priority": lambda m: m.priority,
    "dedupe_key": lambda m: m.dedupe_key,
    "ordering_key": lambda m: m.ordering_key,
    "run_id": lambda m: m.run_id,
    "created_at": lambda m: micros(m.created_at),
    "available_at": lambda m: micros(m.available_at),
    "leased_until": lambda m: micros(m.leased_until),
    "leased_by": lambda m: m.leased_by,
    "last_error": lambda m: error_fields(m.last_error),
    "failed_at": lambda m: micros(m.failed_at),
    "payload": lambda m: payload_bytes(m.payload),
    "codec": lambda m: m.codec,
}

_EVENT: Makers = {
    "seq": lambda e: e.seq,
    "at": lambda e: micros(e.at),
    "type": lambda e: e.type,
    "queue": lambda e: e.queue,
    "message_id": lambda e: e.message_id,
    "attempt": lambda e: e.attempt,
    "worker": lambda e: e.worker,
    "error": lambda e: error_fields(e.error),
    "value": lambda e: value_text(e.payload, e.codec),
    "headers": lambda e: header_pairs(_option("headers")(e)),
    "priority": _option("priority", 0),
    "dedupe_key": _option("dedupe_key"),
    "ordering_key": _option("ordering_key"),
    "run_id": _option("run_id"),
    "delay": _option("delay"),
    "ttl": _option("ttl"),
    "payload": lambda e: payload_bytes(e.payload),
    "codec": lambda e: e.codec,
}

_RUN: Makers = {
    "run_id": lambda row: row.run_id,
    **{name: _of("counts", name) for name in RUN_COUNTS},
    "workflow": _of("run", "workflow"),
    "version": _of("run", "version"),
    "queue": lambda row: row.queue,
    "run_state": _of("run", "state"),
    "paused": _of("run", "paused"),
    "parent": _of("run", "parent"),
    "created_at": _of("run", "created_at", micros),
    "run_finished_at": _of("run", "finished_at", micros),
    "step": _of("step", "name"),
    "kind": _of("step", "kind", lambda kind: kind or None),
    "item": lambda row: row.item,
    "step_state": _of("step", "state"),
    "attempts": _of("step", "attempts"),
    "started_at": _of("step", "started_at", micros),
    "finished_at": _of("step", "finished_at", micros),
    "seconds": _of("step", "seconds"),
    "worker": _of("step", "worker"),
    "error": _of("step", "error", error_fields),
    "child": _of("step", "child"),
}
