"""What producing, consuming and inspecting share: the configuration, the store, and messages in and out of it."""

from __future__ import annotations

import json
import os
import threading
from typing import Any, Generic, TypeVar

from localqueue.errors import PayloadError, QueueStoreClosedError
from localqueue.message import QueueMessage, UndecodablePayload
from localqueue.policies import Configuration
from localqueue.policies.codec import JSON_CODEC
from localqueue.queue.emitting import Emitting
from localqueue.queue.setup import limit_of
from localqueue.stores import default
from localqueue.stores.port import (
    DELAYED,
    INFLIGHT,
    READY,
    Changes,
    LeaseRequest,
    NewMessage,
    QueueStore,
    Settle,
    StoredMessage,
)

T = TypeVar("T")


class QueueCore(Emitting, Generic[T]):
    """A queue's configuration bound to its store, which is opened on first use."""

    def __init__(
        self,
        configuration: Configuration,
        store: QueueStore | None,
        store_path: str | os.PathLike[str] | None,
        durability: str | None,
    ) -> None:
        super().__init__()
        self.name = configuration.name
        self._configuration = configuration
        self._codec = configuration.codec
        self._codec_name = None if configuration.codec is JSON_CODEC else configuration.codec.name
        self._limit = limit_of(configuration.backpressure)
        self._quiet = not (
            configuration.notification_policy.notifies_on_put or configuration.dispatch_policy.dispatches_on_put
        )
        self._plain = (
            self._limit is None
            and configuration.backpressure.overflow != "throttle"
            and not configuration.routing_policy.fanout
            and not getattr(configuration.delivery_policy, "requires_dedupe_key", False)
        )
        self._at_most_once = configuration.delivery_policy.ack_timing == "before-delivery"
        self._lease_seconds = float(getattr(configuration.lease_policy, "timeout", 30.0))
        self._request = LeaseRequest(
            self.name, 1, self._lease_seconds, None, configuration.max_attempts, self._at_most_once
        )
        self._given_store = store
        self._store = store
        self._store_path = store_path
        self._shared: default.Shared | None = None
        self._durability = durability
        self._opening = threading.Lock()
        self._closed = False
        self._unfinished: dict[str, QueueMessage[T]] = {}
        self._finished = threading.Condition()

    @property
    def store(self) -> QueueStore:
        """The store this queue lives in."""
        store = self._store
        return self._open() if store is None else store

    def _open(self) -> QueueStore:
        with self._opening:
            if self._closed:
                raise QueueStoreClosedError(f"queue {self.name!r} is closed")
            if self._store is None:
                self._store = self._open_default()
            return self._store

    def _open_default(self) -> QueueStore:
        """The file of `store_path`, else the store of this process, else the user's file."""
        shared = default.shared() if self._store_path is None else None
        if shared is not None:
            if self._durability is not None:
                raise ValueError(
                    f"queue {self.name!r} lives in the store that is configured for this process, which has its own "
                    "durability; pass durability= to configure(), or a store= or store_path= to the queue"
                )
            store = shared.acquire()
            self._shared = shared
            return store
        from localqueue.stores.sqlite import SQLiteQueueStore

        path = default.default_store_path() if self._store_path is None else self._store_path
        return SQLiteQueueStore(path, durability=self._durability or "process")

    def close(self) -> None:
        """Close the store, unless it was passed in or is that of the process: then it belongs to whoever opened it."""
        with self._opening:
            self._closed = True
            store, self._store = self._store, None
            shared, self._shared = self._shared, None
        if shared is not None:
            shared.release()
        elif store is not None and store is not self._given_store:
            store.close()

    def _token(self, message: QueueMessage[Any] | str) -> tuple[str, int | None]:
        """Id and fencing token. Only a leased message has a token; anything else is an operator's override."""
        if isinstance(message, str):
            return message, None
        return message.id, message.attempts if message.state == INFLIGHT else None

    def _leased(self, stored: StoredMessage) -> QueueMessage[T] | None:
        """The leased message, or None when its payload can not be read: then it has become a dead letter."""
        try:
            value = self._decode(stored)
        except PayloadError as error:
            problem = {"type": "PayloadError", "module": "localqueue", "message": str(error)}
            self._bury(stored, problem)
            return None
        return self._message(stored, value)

    def _bury(self, stored: StoredMessage, problem: dict[str, Any]) -> None:
        """Keep a message that can not be read as a dead letter; one delivered at most once is stored again for that."""
        if not self._at_most_once:
            settle = Settle(self.name, stored.id, "dead-letter", stored.attempts, error=problem)
            self._commit(Changes(settle=(settle,), strict=False))
            return
        (new_id,) = self.store.mint()
        again = NewMessage(new_id, self.name, stored.payload, stored.codec, headers=stored.headers)
        buried = Settle(self.name, new_id, "dead-letter", error=problem)
        self._commit(Changes(enqueue=(again,), settle=(buried,)))

    def _seen(self, stored: StoredMessage) -> QueueMessage[Any]:
        """A message for inspection; one that can not be decoded shows its raw bytes."""
        try:
            value = self._decode(stored)
        except PayloadError as error:
            raw = (
                stored.payload if isinstance(stored.payload, bytes) else stored.payload.encode("utf-8", "surrogatepass")
            )
            value = UndecodablePayload(raw=raw, codec=stored.codec or "json", reason=str(error))
        return self._message(stored, value)

    def _decode(self, stored: StoredMessage) -> Any:
        try:
            if stored.codec == self._codec_name:
                return self._codec.decode(stored.payload)
            if stored.codec is None:
                return JSON_CODEC.decode(stored.payload)
        except PayloadError:
            raise
        except Exception as error:
            raise PayloadError(f"codec {self._codec.name!r} could not read message {stored.id}: {error!r}") from error
        raise PayloadError(
            f"message {stored.id} was written with codec {stored.codec!r} and queue {self.name!r} reads "
            f"{self._codec.name!r}; open the queue with that codec= and requeue the message"
        )

    def _message(self, stored: StoredMessage, value: T) -> QueueMessage[T]:
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
            headers={} if headers is None else json.loads(headers),
            ordering_key=ordering_key,
            expires_at=expires_at,
            run_id=run_id,
            waiting_on=waiting_on,
            forgiven=forgiven,
        )
