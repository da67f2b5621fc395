"""The reads of the port. Each is one call, which sees one moment, apart from long lists of messages, which come in
pages. A queue that nobody has used yet is simply empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from localqueue.message import QueueStats, RunStats
from localqueue.stores import rules
from localqueue.stores.port import STATES, CheckReport, Record, StoredMessage, Subscriptions
from localqueue.stores.redis import rows
from localqueue.stores.redis.namespace import Namespace
from localqueue.stores.redis.schema import digest
from localqueue.stores.stats import Held, KnownWorker, queue_stats

PAUSED = b"paused:"  # and the worker
_PAGE = 2000  # messages a call, so that a long list keeps nobody else waiting for long


def pairs(flat: list[Any]) -> dict[bytes, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def most(limit: int | None) -> int:
    return -1 if limit is None else max(limit, 0)


def known_workers(settings: dict[bytes, Any], seen: dict[bytes, Any]) -> list[KnownWorker]:
    """The workers of a queue: those who were seen there, and those who are paused."""
    names = {field[1:] for field in seen} | {field[len(PAUSED) :] for field in settings if field.startswith(PAUSED)}
    return [
        KnownWorker(
            name.decode(), int(seen.get(b"n" + name, 0)), rows.real(seen.get(b"s" + name)),
            rows.real(settings.get(PAUSED + name)),
        )
        for name in sorted(names)
    ]  # fmt: skip


def subscriptions(version: Any, numbers: dict[bytes, Any]) -> Subscriptions:
    """Subscribers in the order in which they came."""
    return Subscriptions(
        int(version), tuple(name.decode() for name in sorted(numbers, key=lambda one: int(numbers[one])))
    )


class Reads(Namespace):
    def get(self, queue: str, message_id: str) -> StoredMessage | None:
        key = self._key(message_id)
        name = self._digest(queue)
        _, (_, body, extra, lease) = self._read("get", key=key)
        if body is None or rows.queue_of(body) != name:
            return None
        return rows.stored_message(self.ids, queue, key, body, extra, lease)

    def _counts(self, queue: str) -> list[int]:
        counts: list[int] = self._read("counts", queue=self._digest(queue))[1]
        return counts

    def qsize(self, queue: str) -> int:
        return self._counts(queue)[0]

    def load(self, queue: str) -> int:
        counts = self._counts(queue)
        return counts[0] + counts[4]

    def stats(self, queue: str) -> QueueStats:
        now, found = self._read("stats", queue=self._digest(queue))
        counts, held, workers, settings, oldest = found
        kept = pairs(settings)
        return queue_stats(
            counts,
            now=now,
            available=(rows.real(oldest),),
            held=[Held(rows.text(by), count, float(first), float(since)) for by, count, first, since in held],
            workers=known_workers(kept, pairs(workers)),
            dropped=int(kept.get(b"dropped", 0)),
            paused=b"paused" in kept,
        )

    def _scan(
        self, queue: str, state: str | None, after: str | None, last: int | None, limit: int | None
    ) -> list[StoredMessage]:
        end = None if last is None else last.to_bytes(8)
        behind = None if after is None else self._key(after) or bytes(8)
        messages: list[StoredMessage] = []
        while limit is None or len(messages) < limit:
            wanted = limit if state in rules.ENDED else _PAGE if limit is None else min(_PAGE, limit - len(messages))
            name = self._digest(queue)
            found = self._read("scan", queue=name, state=state, after=behind, limit=most(wanted), last=end)[1]
            messages += self._messages(found)
            if wanted is None or len(found) < wanted * 4:
                break
            behind = found[-4]
        return messages

    def _splits(self, queue: str, parts: int) -> list[str]:
        return [self._id_of(key) for key in self._read("splits", queue=self._digest(queue), parts=parts)[1]]

    def queues(self) -> list[str]:
        return sorted(name.decode() for name in self._server.ask(b"HVALS", self._root + b":names", again=True))

    def runs(self, *, after: str = "", limit: int | None = None) -> list[str]:
        names = (name.decode() for name in self._server.ask(b"HVALS", self._root + b":runs", again=True))
        return sorted(name for name in names if name > after)[:limit]

    def run(self, run_id: str) -> RunStats | None:
        return self._run_stats(run_id, self._read("run", run=digest(run_id))[1])

    def _run_stats(self, run_id: str, found: list[int] | None) -> RunStats | None:
        if found is None:
            return None
        total, done, *counts = found
        return RunStats(run_id=run_id, total=total, done=done, **dict(zip(STATES, counts, strict=True)))

    def _run_messages(self, run_id: str, after: str | None, limit: int | None) -> list[StoredMessage]:
        behind = None if after is None else self._key(after)
        return self._messages(self._read("run_messages", run=digest(run_id), after=behind, limit=most(limit))[1])

    def upstream(self, queue: str, message_id: str) -> list[str]:
        found = self._read("upstream", queue=self._digest(queue), key=self._key(message_id))[1]
        return [self._id_of(key) for key in found]

    def record(self, kind: str, key: str) -> Record | None:
        found = self._server.ask(b"HGET", self._root + b":rec", rows.record_field(kind, key), again=True)
        return None if found is None else rows.record(kind, key, found)

    def _record_versions(self, kind: str, keys: Sequence[str]) -> list[bytes | None]:
        """In which version each record is, as the server writes it."""
        fields = [rows.record_field(kind, key) for key in keys]
        found = self._server.ask(b"HMGET", self._root + b":rec", *fields, again=True) if fields else []
        return [None if value is None else value[:8] for value in found]

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Record]:
        found = self._read("records", kind=kind, after=after, limit=most(limit))[1]
        return [rows.record(kind, key.decode(), value) for key, value in zip(found[::2], found[1::2], strict=True)]

    def subscriptions(self, topic: str) -> Subscriptions:
        _, (version, subscribers) = self._read("subscriptions", queue=self._digest(topic))
        return subscriptions(version, pairs(subscribers))

    def paused(self, queue: str, *, worker: str | None = None) -> bool:
        field = b"paused" if worker is None else PAUSED + worker.encode()
        key = b"%b:%b:q" % (self._root, self._digest(queue))
        return bool(self._server.ask(b"HEXISTS", key, field, again=True))

    def check(self) -> CheckReport:
        return CheckReport(tuple(problem.decode() for problem in self._read("check")[1]))
