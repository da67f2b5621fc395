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
from localqueue.stores.port import Record, Subscriptions
from localqueue.stores.redis import rows
from localqueue.stores.redis.connection import Command
from localqueue.stores.redis.reads import known_workers, pairs

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
        names, runs = store._root + b":names", store._root + b":runs"
        found = store._server.snapshot((names, runs), lambda ask: self._plan(ask(b"HKEYS", names), ask(b"HKEYS", runs)))
        (self._meta, self._names, self._bodies, self._extras, self._leases, self._gone, self._edges, self._records,
         self._log, *rest) = found  # fmt: skip
        meta = pairs(self._meta)
        store._require(meta.get(b"version"), meta.get(b"secret"))
        of_queues = 3 * (len(self._names) // 2)
        self._queues = [rest[n : n + 3] for n in range(0, of_queues, 3)]
        self._runs = rest[of_queues:]

    def _plan(self, queues: list[bytes], runs: list[bytes]) -> list[Command]:
        root = self._store._root
        commands: list[Command] = [
            (b"HGETALL", root), (b"HGETALL", root + b":names"), (b"HGETALL", root + b":m"), (b"HGETALL", root + b":x"),
            (b"HGETALL", root + b":l"), (b"HGETALL", root + b":gone"), (b"ZRANGE", root + b":up", b"0", b"-1"),
            (b"HGETALL", root + b":rec"), (b"XRANGE", root + b":log", b"-", b"+"),
        ]  # fmt: skip
        for queue in queues:
            commands += [(b"HGETALL", b"%b:%b:%b" % (root, queue, part)) for part in (b"q", b"w", b"subs")]
        self._order = queues
        return commands + [(b"HGETALL", b"%b:run:%b" % (root, run)) for run in runs]

    def archive(self) -> Archive:
        store, meta, names = self._store, pairs(self._meta), pairs(self._names)
        return Archive(
            namespace=store.namespace,
            secret=int(meta[b"secret"]),
            queues=[self._queue(names[queue], *one) for queue, one in zip(self._order, self._queues, strict=True)],
            runs=[self._run(pairs(one)) for one in self._runs],
            messages=self._messages(),
            edges=[(store._id_of(edge[:8]), store._id_of(edge[8:])) for edge in self._edges],
            removed=[(store._id_of(key), JOURNAL_TYPES[int(why) - 1]) for key, why in pairs(self._gone).items()],
            records=[_record(field, value) for field, value in pairs(self._records).items()],
            journal=_journal(meta),
            events=[store._event(number, pairs(fields)) for number, fields in self._log],
        )

    def _queue(self, name: bytes, settings: list[Any], workers: list[Any], subscribers: list[Any]) -> ArchivedQueue:
        kept, known = pairs(settings), pairs(workers)
        ordered = sorted(pairs(subscribers).items(), key=lambda pair: int(pair[1]))
        return ArchivedQueue(
            name.decode(),
            rows.real(kept.get(b"paused")),
            int(kept.get(b"dropped", 0)),
            Subscriptions(int(kept.get(b"subs", 0)), tuple(subscriber.decode() for subscriber, _ in ordered)),
            tuple(known_workers(kept, known)),
        )

    def _run(self, run: dict[bytes, bytes]) -> ArchivedRun:
        return ArchivedRun(
            run[b"name"].decode(),
            int(run.get(b"total", 0)),
            int(run.get(b"done", 0)),
            rows.real(run.get(b"cancelled")),
        )

    def _messages(self) -> Iterator[ArchivedMessage]:
        names, extras, leases = pairs(self._names), pairs(self._extras), pairs(self._leases)
        for key, body in sorted(pairs(self._bodies).items()):
            packed, leased = extras.get(key), leases.get(key)
            queue = names[rows.queue_of(body)].decode()
            yield ArchivedMessage(
                rows.stored_message(self._store.ids, queue, key, body, packed, leased),
                None if leased is None else rows.LeaseValue(leased).most,
                rows.real(rows.unpack(packed).get(b"en")),
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
