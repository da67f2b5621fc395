"""The reading half of the port."""

from __future__ import annotations

from localqueue.message import QueueStats, RunStats
from localqueue.stores import rules
from localqueue.stores.mongodb import reads, records
from localqueue.stores.mongodb.base import Base
from localqueue.stores.mongodb.rows import BLOCKED, READY, stored_message
from localqueue.stores.port import Record, StoredMessage, Subscriptions


class Reads(Base):
    def get(self, queue: str, message_id: str) -> StoredMessage | None:
        return self._read(queue, lambda q: reads.get(self.server, self.ids, q, queue, message_id), None)

    def qsize(self, queue: str) -> int:
        now = self.now()
        return self._read(queue, lambda q: reads.counts(self.server, q, now)[READY], 0)

    def load(self, queue: str) -> int:
        now = self.now()

        def work(number: int) -> int:
            counts = reads.counts(self.server, number, now)
            return counts[READY] + counts[BLOCKED]

        return self._read(queue, work, 0)

    def stats(self, queue: str) -> QueueStats:
        now = self.now()
        return self._read(queue, lambda q: reads.stats(self.server, q, now), QueueStats())

    def scan(
        self,
        queue: str,
        *,
        state: str | None = None,
        after: str | None = None,
        until: str | None = None,
        limit: int | None = None,
    ) -> list[StoredMessage]:
        last = rules.last_wanted(self.ids, state, until)
        self._require_open()
        number = self._find_queue(queue)
        if number is None:
            return []
        with self.server.long_read():
            return reads.scan(self.server, self.ids, number, queue, state, after, last, limit)

    def splits(self, queue: str, parts: int) -> list[str]:
        rules.check_parts(parts)
        self._require_open()
        number = self._find_queue(queue)
        if number is None:
            return []
        with self.server.long_read():
            return reads.splits(self.server, self.ids, number, parts)

    def queues(self) -> list[str]:
        self._require_open()
        with self.server.call():
            return sorted(row["name"] for row in self.server.queues.find({"n": self.namespace_id}, {"name": 1}))

    def runs(self, *, after: str = "", limit: int | None = None) -> list[str]:
        self._require_open()
        with self.server.long_read():
            return reads.runs(self.server, self.namespace_id, after, limit)

    def run(self, run_id: str) -> RunStats | None:
        self._require_open()
        with self.server.call():
            return reads.run(self.server, self.namespace_id, run_id)

    def run_messages(self, run_id: str, *, after: str | None = None, limit: int | None = None) -> list[StoredMessage]:
        self._require_open()
        with self.server.long_read():
            found = reads.run_messages(self.server, self.ids, self.namespace_id, run_id, after, limit)
        return [stored_message(self.ids, one, self.name_of_queue(one["q"])) for one in found]

    def upstream(self, queue: str, message_id: str) -> list[str]:
        return self._read(queue, lambda q: reads.upstream(self.server, self.ids, q, message_id), [])

    def record(self, kind: str, key: str) -> Record | None:
        self._require_open()
        with self.server.call():
            return records.record(self.server, self.namespace_id, kind, key)

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Record]:
        self._require_open()
        with self.server.call():
            return records.records(self.server, self.namespace_id, kind, after, limit)

    def subscriptions(self, topic: str) -> Subscriptions:
        def work(queue: int) -> Subscriptions:
            row = self.server.queues.find_one({"_id": queue}) or {}
            return Subscriptions(row.get("version", 0), tuple(row.get("subscribers", ())))

        return self._read(topic, work, Subscriptions(0, ()))

    def paused(self, queue: str, *, worker: str | None = None) -> bool:
        def work(number: int) -> bool:
            row = self.server.queues.find_one({"_id": number}) or {}
            if worker is None:
                return row.get("paused_at") is not None
            return any(one["w"] == worker for one in row.get("off", ()))

        return self._read(queue, work, False)

    def is_paused(self, queue: int, worker: str | None) -> bool:
        """Whether a claim of this worker would find the queue closed."""
        with self.server.call():
            row = self.server.queues.find_one({"_id": queue}) or {}
        return row.get("paused_at") is not None or any(one["w"] == worker for one in row.get("off", ()))
