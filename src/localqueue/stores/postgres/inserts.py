"""New messages as columns, which is how the server takes many of them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from localqueue.stores import rules
from localqueue.stores.engine.port import Batch, Insert
from localqueue.stores.port import STATES
from localqueue.stores.postgres.reads import raw_or_none, raw_payloads

#: From how many messages on COPY is faster than one INSERT.
COPY_FROM = 200

#: Columns and their types, in the order of `insert_messages.sql`.
COLUMNS = {
    "key": "int8", "queue": "int4", "state": "int2", "priority": "int8", "created_at": "float8",
    "available_at": "float8", "payload": "bytea", "is_text": "bool", "codec": "text", "headers": "bytea",
    "due_at": "float8", "ended_at": "float8", "expires_at": "float8", "waiting_on": "int4", "dependents": "bool",
    "run": "int4", "ordering_key": "bytea", "dedupe_key": "bytea", "attempts": "int4", "forgiven": "int4",
    "history": "int4", "last_error": "text", "failed_at": "float8",
}  # fmt: skip
_OF_MESSAGE = ("payload", "is_text", "codec", "headers")
_ROW_CELLS = {name: attrgetter(name) for name in COLUMNS if name not in _OF_MESSAGE}


def message_columns(inserts: Sequence[Insert]) -> dict[str, Sequence[Any]]:
    """New messages, in the order of `insert_messages.sql`."""
    rows, messages = [one.row for one in inserts], [one.message for one in inserts]
    columns: dict[str, Sequence[Any]] = {name: list(map(cell, rows)) for name, cell in _ROW_CELLS.items()}
    payloads, are_text = raw_payloads([message.payload for message in messages])
    columns["payload"], columns["is_text"] = payloads, are_text
    columns["codec"] = [message.codec for message in messages]
    columns["headers"] = [raw_or_none(message.headers) for message in messages]
    columns["dependents"] = [row.dependents > 0 for row in rows]
    for name in ("ordering_key", "dedupe_key"):
        columns[name] = list(map(raw_or_none, columns[name]))
    return {name: columns[name] for name in COLUMNS}


def batch_columns(batch: Batch) -> dict[str, Sequence[Any]]:
    """The columns of a batch that are not what they are by default."""
    now, count = batch.now, len(batch.keys)
    _, names, payloads, codecs, delays, priorities, dedupe_keys, ordering_keys, lives, headers, *_ = batch.columns
    data, are_text = raw_payloads(payloads)
    columns: dict[str, Sequence[Any]] = {
        "key": batch.keys,
        "queue": [batch.queues[name] for name in names],
        "state": batch.states,
        "priority": priorities,
        "created_at": [now] * count,
        "available_at": [now + delay for delay in delays] if any(delays) else [now] * count,
        "payload": data,
        "is_text": are_text,
        "codec": codecs,
        "headers": _raw_texts(headers),
        "ordering_key": _raw_texts(ordering_keys),
        "dedupe_key": _raw_texts(dedupe_keys),
    }
    if any(delays) or not _is_empty(lives):
        columns["expires_at"] = [None if life is None else now + life for life in lives]
        times = zip(batch.states, columns["available_at"], columns["expires_at"], strict=True)
        columns["due_at"] = [rules.due_at(STATES[s], available_at=a, expires_at=e) for s, a, e in times]
    graph = batch.graph
    if graph is not None:
        columns |= {
            "run": [graph.run] * count,
            "waiting_on": graph.waiting_on,
            "dependents": [below > 0 for below in graph.dependents],
        }
    return columns


def _is_empty(column: Sequence[Any]) -> bool:
    return column.count(None) == len(column)


def _raw_texts(texts: Sequence[str | None]) -> Sequence[bytes | None]:
    return [None] * len(texts) if _is_empty(texts) else [None if text is None else text.encode() for text in texts]
