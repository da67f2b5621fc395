"""Stored messages as the user sees them: the payload read with the queue's codec."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from localqueue.errors import PayloadError
from localqueue.interrupts import is_interrupt
from localqueue.message import QueueMessage, UndecodablePayload
from localqueue.policies import Codec
from localqueue.policies.codec import JSON_CODEC, BytesCodec, JsonCodec, MsgpackCodec
from localqueue.queue.batch import StoredBatch
from localqueue.stores.kept_error import shown
from localqueue.stores.port import DELAYED, READY, Enqueued, NewMessage, Payload, StoredMessage

_PROMPT = (JsonCodec, MsgpackCodec, BytesCodec)


class Payloads:
    """What one queue's codec writes and reads. `codec_name` is stored with each message, None for JSON."""

    def __init__(self, queue: str, codec: Codec) -> None:
        self.encode = codec.encode
        self.codec_name = None if codec is JSON_CODEC else codec.name
        #: Whether it does nothing but compute, as far as anybody knows.
        self.is_prompt = type(codec) in _PROMPT
        self._queue = queue
        self._codec = codec

    def decode(self, stored: StoredMessage) -> Any:
        """The value, or `PayloadError` when this queue can not read it."""
        return self._decoded(stored.codec, stored.payload, "message", stored.id)

    def decode_result(self, message_id: str, codec: str | None, payload: Payload) -> Any:
        """What the handler of a message returned, or `PayloadError` when this queue can not read it."""
        return self._decoded(codec, payload, "the result of message", message_id)

    def _decoded(self, codec: str | None, payload: Payload, what: str, message_id: str) -> Any:
        try:
            if codec == self.codec_name:
                return self._codec.decode(payload)
            if codec is None:
                return JSON_CODEC.decode(payload)
        except PayloadError:
            raise
        except BaseException as error:
            if is_interrupt(error):
                raise
            problem = f"codec {self._codec.name!r} could not read {what} {message_id}: {shown(error)}"
            raise PayloadError(problem) from error
        then = " and requeue the message" if what == "message" else ""
        raise PayloadError(
            f"{what} {message_id} was written with codec {codec!r} and queue {self._queue!r} reads "
            f"{self._codec.name!r}; open the queue with that codec={then}"
        )

    def show(self, stored: StoredMessage) -> QueueMessage[Any]:
        """A message for inspection; one that can not be read shows its raw bytes."""
        try:
            return message_of(stored, self.decode(stored))
        except PayloadError as error:
            return message_of(stored._replace(headers=None), _unread(stored.codec, stored.payload, error))

    def show_result(self, message_id: str, codec: str | None, payload: Payload) -> Any:
        """A result for inspection; one that can not be read shows its raw bytes."""
        try:
            return self.decode_result(message_id, codec, payload)
        except PayloadError as error:
            return _unread(codec, payload, error)


def _unread(codec: str | None, payload: Payload, error: PayloadError) -> UndecodablePayload:
    raw = payload if isinstance(payload, bytes) else payload.encode("utf-8", "surrogatepass")
    return UndecodablePayload(raw=raw, codec=codec or "json", reason=str(error))


def message_of(stored: StoredMessage, value: Any) -> QueueMessage[Any]:
    """A message that was read from the store, or `PayloadError` when its headers can not be."""
    (message_id, queue, state, _, _, priority, attempts, created_at, available_at, leased_until, leased_by,
     last_error, failed_at, dedupe_key, ordering_key, expires_at, run_id, headers, waiting_on,
     history, forgiven, _) = stored  # fmt: skip
    return QueueMessage.of(
        id=message_id,
        value=value,
        queue=queue,
        state=READY if state == DELAYED else state,
        attempts=attempts,
        created_at=created_at,
        available_at=available_at,
        leased_until=leased_until,
        leased_by=leased_by,
        last_error=last_error,
        failed_at=failed_at,
        attempt_history=list(history),
        dedupe_key=dedupe_key,
        priority=priority,
        headers={} if headers is None else _headers_of(headers, message_id),
        ordering_key=ordering_key,
        expires_at=expires_at,
        run_id=run_id,
        waiting_on=waiting_on,
        forgiven=forgiven,
    )


def _headers_of(text: str, message_id: str) -> dict[str, str]:
    try:
        headers = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"the headers of message {message_id} are not valid JSON: {error}") from error
    if not isinstance(headers, dict):
        raise PayloadError(f"the headers of message {message_id} are no JSON object but {type(headers).__name__}")
    return headers


def plain_message(message_id: str, queue: str, at: float, value: Any) -> QueueMessage[Any]:
    """A message without options that was just stored."""
    return QueueMessage.of(
        id=message_id,
        value=value,
        queue=queue,
        created_at=at,
        available_at=at,
        attempt_history=[],
        headers={},
    )


def plain_batch(ids: Sequence[str], queue: str, at: float, values: Sequence[Any]) -> StoredBatch[Any]:
    """Several of them."""
    return StoredBatch(len(values), lambda n: QueueMessage(ids[n], values[n], queue, created_at=at, available_at=at))


def new_message(draft: NewMessage, enqueued: Enqueued, queue: str, value: Any) -> QueueMessage[Any]:
    """A message that was just stored in `queue`, without reading it back."""
    return QueueMessage.of(
        id=enqueued.id or draft.id,
        value=value,
        queue=queue,
        state=READY if enqueued.state == DELAYED else enqueued.state,
        created_at=enqueued.at,
        available_at=enqueued.at + draft.delay,
        attempt_history=[],
        dedupe_key=draft.dedupe_key,
        priority=draft.priority,
        headers={} if draft.headers is None else json.loads(draft.headers),
        ordering_key=draft.ordering_key,
        expires_at=None if draft.ttl is None else enqueued.at + draft.ttl,
        run_id=draft.run_id,
    )
