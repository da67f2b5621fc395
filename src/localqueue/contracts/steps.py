"""The few steps that every test of the contract is made of."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from localqueue.stores.port import (
    STATES,
    Action,
    Changes,
    Enqueued,
    LeaseRequest,
    Limit,
    NewMessage,
    QueueStore,
    Settle,
    StoredMessage,
)

#: How long a test waits for something that should happen at once, before it calls it lost.
PATIENCE = 20.0

#: How long a test waits to see that something does not happen.
MOMENT = 0.15


def new(store: QueueStore, queue: str = "jobs", payload: str | bytes = "x", **options: Any) -> NewMessage:
    return NewMessage(store.mint()[0], queue, payload, **options)


def put(store: QueueStore, queue: str = "jobs", payload: str | bytes = "x", **options: Any) -> str:
    """Store one message; its id."""
    message = new(store, queue, payload, **options)
    (done,) = store.commit(Changes(enqueue=[message])).enqueued
    assert done.outcome == "stored"
    return done.id or message.id


def put_many(store: QueueStore, payloads: Iterable[str], queue: str = "jobs", **options: Any) -> list[str]:
    """Store messages in one commit; their ids."""
    values = list(payloads)
    ids = store.mint(len(values))
    drafts = [NewMessage(i, queue, p, **options) for i, p in zip(ids, values, strict=True)]
    done = store.commit(Changes(enqueue=drafts)).enqueued
    return [one.id or given for one, given in zip(done, ids, strict=True)]


def put_limited(
    store: QueueStore, limit: Limit, queue: str = "jobs", payload: str | bytes = "x", **options: Any
) -> Enqueued:
    message = new(store, queue, payload, **options)
    return store.commit(Changes(enqueue=[message], limits={queue: limit})).enqueued[0]


def lease(store: QueueStore, queue: str = "jobs", limit: int = 1, **options: Any) -> list[StoredMessage]:
    return store.lease(LeaseRequest(queue, limit, **options))


def take(store: QueueStore, queue: str = "jobs", **options: Any) -> StoredMessage:
    """Lease one message that must be there."""
    found = lease(store, queue, **options)
    assert len(found) == 1, f"expected a ready message in {queue!r}"
    return found[0]


def payloads(messages: Iterable[StoredMessage]) -> list[Any]:
    return [message.payload for message in messages]


def drain(store: QueueStore, queue: str = "jobs") -> list[Any]:
    """Lease and ack one message after the other; their payloads in the order of delivery."""
    seen = []
    while found := lease(store, queue):
        seen.append(found[0].payload)
        assert ack(store, found[0])
    return seen


def settle(store: QueueStore, message: StoredMessage, action: Action, **options: Any) -> bool:
    """A worker's fenced settle: applied, or False when the lease is no longer current."""
    one = Settle(message.queue, message.id, action, message.attempts, **options)
    return store.commit(Changes(settle=[one], strict=False)).settled[0]


def ack(store: QueueStore, message: StoredMessage) -> bool:
    return settle(store, message, "ack")


def release(store: QueueStore, message: StoredMessage, **options: Any) -> bool:
    return settle(store, message, "release", **options)


def dead_letter(store: QueueStore, message: StoredMessage, **options: Any) -> bool:
    return settle(store, message, "dead-letter", **options)


def override(store: QueueStore, message_id: str, action: Action, queue: str = "jobs", **options: Any) -> bool:
    """An operator's settle, without a token."""
    one = Settle(queue, message_id, action, None, **options)
    return store.commit(Changes(settle=[one], strict=False)).settled[0]


def stored(store: QueueStore, message_id: str, queue: str = "jobs") -> StoredMessage:
    """A message that must be there."""
    found = store.get(queue, message_id)
    assert found is not None, f"message {message_id} is gone from {queue!r}"
    return found


def state_of(store: QueueStore, message_id: str, queue: str = "jobs") -> str | None:
    found = store.get(queue, message_id)
    return None if found is None else found.state


def counts(store: QueueStore, queue: str = "jobs") -> dict[str, int]:
    """The non-zero counts of a queue."""
    stats = store.stats(queue)
    return {state: getattr(stats, state) for state in STATES if getattr(stats, state)}


def assert_sound(store: QueueStore, queues: Sequence[str] = ("jobs",)) -> None:
    """Counts agree with a full scan, and the store finds nothing wrong with itself."""
    for queue in queues:
        assert counts(store, queue) == dict(Counter(message.state for message in store.scan(queue)))
    assert store.check().problems == ()


class Background:
    """Runs functions in threads, and brings their exceptions back to the test."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []

    def start(self, work: Callable[..., Any], *arguments: Any) -> None:
        thread = threading.Thread(target=self._run, args=(work, arguments), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            work(*arguments)
        except BaseException as error:
            self._errors.append(error)

    def join(self) -> None:
        deadline = time.monotonic() + PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._errors:  # which may be why another waits
            raise self._errors[0]
        assert not any(thread.is_alive() for thread in self._threads), "a thread did not finish in time"
