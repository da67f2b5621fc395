"""A copy of a namespace as a SQLite file.

Everything is read in one transaction of the server, so that the copy is of one moment. The server answers nobody else
while it collects the answer: some seconds for millions of messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localqueue.events.journal import JOURNAL_TYPES
from localqueue.stores.archive import (
    Archive,
    ArchivedJournal,
    ArchivedMessage,
    ArchivedQueue,
    ArchivedRun,
)
from localqueue.stores.port import Record
from localqueue.stores.redis import rows
from localqueue.stores.redis.reads import known_workers, subscriptions

if TYPE_CHECKING:
    from localqueue.stores.redis.store import RedisQueueStore


def write(store: RedisQueueStore, path: str) -> None:
    from localqueue.stores.sqlite.archive import write_archive

    if Path(path).exists():
        raise FileExistsError(f"backup target {path!r} exists; choose a new name, a backup never overwrites")
    write_archive(path, _Snapshot(store).archive())


class _Snapshot:
    """Reads every key of the namespace. Its queues and runs are looked up first and watched, as each has keys of its
    own."""

    def __init__(self, store: RedisQueueStore) -> None:
        self._store = store
        self._queues: list[bytes] = []
        self._runs: list[bytes] = []
        root = store._root
        *found, self._edges, self._log = store._server.snapshot(self._plan, root + b":names", root + b":runs")
        self._hashes: dict[bytes, dict[bytes, bytes]] = dict(zip(self._names(), found, strict=True))
        meta = self._hashes[b""]
        store._require(meta.get(b"version"), meta.get(b"secret"))

    def _names(self) -> list[bytes]:
        """What the keys of all hashes end in."""
        names = [b"", b":names", b":m", b":x", b":l", b":gone", b":rec"]
        names += [b":%b:%b" % (queue, part) for queue in self._queues for part in (b"q", b"w", b"subs")]
        return names + [b":run:" + run for run in self._runs]

    def _plan(self, pipeline: Any) -> None:
        root = self._store._root
        self._queues, self._runs = pipeline.hkeys(root + b":names"), pipeline.hkeys(root + b":runs")
        pipeline.multi()
        for name in self._names():
            pipeline.hgetall(root + name)
        pipeline.zrange(root + b":up", 0, -1)
        pipeline.xrange(root + b":log")

    def archive(self) -> Archive:
        store, meta = self._store, self._hashes[b""]
        return Archive(
            namespace=store.namespace,
            secret=int(meta[b"secret"]),
            queues=[self._queue(queue) for queue in self._queues],
            runs=[_run(self._hashes[b":run:" + run]) for run in self._runs],
            messages=self._messages(),
            edges=[(store._id_of(edge[:8]), store._id_of(edge[8:])) for edge in self._edges],
            removed=[(store._id_of(key), JOURNAL_TYPES[int(why) - 1]) for key, why in self._hashes[b":gone"].items()],
            records=[_record(field, value) for field, value in self._hashes[b":rec"].items()],
            journal=_journal(meta),
            events=[store._event(number, fields) for number, fields in self._log],
        )

    def _queue(self, queue: bytes) -> ArchivedQueue:
        kept, known, subscribers = (self._hashes[b":%b:%b" % (queue, part)] for part in (b"q", b"w", b"subs"))
        return ArchivedQueue(
            self._hashes[b":names"][queue].decode(),
            rows.real(kept.get(b"paused")),
            int(kept.get(b"dropped", 0)),
            subscriptions(kept.get(b"subs", 0), subscribers),
            tuple(known_workers(kept, known)),
        )

    def _messages(self) -> Iterator[ArchivedMessage]:
        names, extras, leases = self._hashes[b":names"], self._hashes[b":x"], self._hashes[b":l"]
        for key, body in sorted(self._hashes[b":m"].items()):
            packed, leased = extras.get(key), leases.get(key)
            queue = names[rows.queue_of(body)].decode()
            yield ArchivedMessage(
                rows.stored_message(self._store.ids, queue, key, body, packed, leased),
                None if leased is None else rows.LeaseValue(leased).most,
                rows.real(rows.unpack(packed).get(b"en")),
            )


def _run(run: dict[bytes, bytes]) -> ArchivedRun:
    return ArchivedRun(
        run[b"name"].decode(), int(run.get(b"total", 0)), int(run.get(b"done", 0)), rows.real(run.get(b"cancelled"))
    )


def _record(field: bytes, value: bytes) -> Record:
    end = 4 + int.from_bytes(field[:4])
    return rows.record(field[4:end].decode(), field[end:].decode(), value)


def _journal(meta: dict[bytes, bytes]) -> ArchivedJournal | None:
    if b"journal" not in meta:
        return None
    events = meta.get(b"keep_events")
    return ArchivedJournal(
        meta[b"journal"] == b"1",
        int(meta.get(b"seq", 0)),
        rows.real(meta.get(b"keep_seconds")),
        None if events is None else int(events),
    )
