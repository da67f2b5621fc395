"""Replaying a journal: what it says must be what the store holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from localqueue.events.journal import JournalEvent
from localqueue.stores.port import STATES, QueueStore

_GONE = ("acked", "purged", "pruned", "dropped")
_BECOMES = {
    "enqueued": "live",
    "leased": "inflight",
    "renewed": "inflight",
    "released": "live",
    "lease_expired": "live",
    "requeued": "live",
    "dead_lettered": "dead",
    "expired": "expired",
    "cancelled": "cancelled",
}


class Known(NamedTuple):
    """A message as a journal knows it: whether it is leased or how it left delivery, and how often it was leased."""

    queue: str
    state: str
    attempts: int


def replay(events: Iterable[JournalEvent], known: dict[str, Known] | None = None) -> dict[str, Known]:
    """The messages there are after the events, given those there were before."""
    messages = {} if known is None else known
    for event in events:
        if event.type in _GONE:
            del messages[event.message_id]
        elif event.type == "enqueued":
            assert event.message_id not in messages, event
            messages[event.message_id] = Known(event.queue, "live", 0)
        else:
            before = messages[event.message_id]
            assert event.queue == before.queue, event
            attempts = before.attempts + (event.type == "leased")
            assert event.attempt == attempts, (event, before)
            messages[event.message_id] = Known(event.queue, _BECOMES[event.type], attempts)
    return messages


def known_as(queue: str, state: str, attempts: int) -> Known:
    """How a journal knows a message in one of the states of a store."""
    return Known(queue, "live" if state in STATES[:5] and state != "inflight" else state, attempts)


def held(store: QueueStore) -> dict[str, Known]:
    """The same of what the store holds."""
    return {
        message.id: known_as(queue, message.state, message.attempts)
        for queue in store.queues()
        for message in store.scan(queue)
    }
