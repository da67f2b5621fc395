"""The entries of a store's journal."""

from __future__ import annotations

from typing import Any

from localqueue._named_tuple import NamedTuple
from localqueue.events.event import EVENT_TYPES, NOTIFIED

#: The types of entries. A store writes their position in this tuple, plus one: new ones go to the end.
JOURNAL_TYPES: tuple[str, ...] = EVENT_TYPES[: EVENT_TYPES.index(NOTIFIED)]
JOURNAL_CODES = {name: code for code, name in enumerate(JOURNAL_TYPES, 1)}


class JournalEvent(NamedTuple):
    """One committed change of a message. `seq` ascends in the order of the commits and is never used again.

    `payload` and `codec` are those of an `enqueued` message, as they were stored; a codec of None is JSON. `options`
    are its options that were not left at their defaults, None when all were: priority, dedupe_key, ordering_key,
    run_id, headers, delay and ttl.
    """

    seq: int
    at: float
    type: str
    queue: str
    message_id: str
    attempt: int | None = None
    worker: str | None = None
    error: dict[str, Any] | None = None
    payload: str | bytes | None = None
    codec: str | None = None
    options: dict[str, Any] | None = None
