"""Everything a namespace holds at one moment, for a backup of a store that is no file of its own.

A store reads it in one snapshot; `localqueue.stores.sqlite.archive.write_archive` makes a SQLite file of it, which
`SQLiteQueueStore` opens and `copy_queue` reads from.
"""

from __future__ import annotations

from collections.abc import Iterable

from localqueue._dataclass import dataclass
from localqueue._named_tuple import NamedTuple
from localqueue.events.journal import JournalEvent
from localqueue.stores.port import Record, StoredMessage, Subscriptions
from localqueue.stores.stats import KnownWorker


class ArchivedQueue(NamedTuple):
    name: str
    paused_at: float | None
    dropped: int
    subscriptions: Subscriptions
    workers: tuple[KnownWorker, ...]


class ArchivedMessage(NamedTuple):
    """`most` is the attempt limit of its lease, `ended_at` when it left delivery."""

    message: StoredMessage
    most: int | None = None
    ended_at: float | None = None


class ArchivedRun(NamedTuple):
    name: str
    total: int
    done: int
    cancelled_at: float | None


class ArchivedJournal(NamedTuple):
    """`last` is the number of the last entry that was written, kept or not."""

    enabled: bool
    last: int
    keep_seconds: float | None
    keep_events: int | None


@dataclass(slots=True)
class Archive:
    """Iterables are read once, in this order. Messages ascend by id; edges are pairs (upstream id, dependent id);
    `removed` are ids of messages that were removed without being acked, with the journal's type of that."""

    namespace: str
    secret: int
    queues: Iterable[ArchivedQueue]
    runs: Iterable[ArchivedRun]
    messages: Iterable[ArchivedMessage]
    edges: Iterable[tuple[str, str]]
    removed: Iterable[tuple[str, str]]
    records: Iterable[Record]
    journal: ArchivedJournal | None
    events: Iterable[JournalEvent]
