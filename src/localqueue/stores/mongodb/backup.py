"""Backup: a namespace as it was at one moment, written to a SQLite file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64

from localqueue.stores.archive import (
    Archive,
    ArchivedJournal,
    ArchivedMessage,
    ArchivedQueue,
    ArchivedRun,
)
from localqueue.stores.mongodb.document import stored_message
from localqueue.stores.mongodb.journal import entries_of
from localqueue.stores.mongodb.reads import as_record, known_workers
from localqueue.stores.port import Subscriptions

if TYPE_CHECKING:
    from localqueue.stores.mongodb.store import MongoDBQueueStore


def backup(store: MongoDBQueueStore, path: str) -> None:
    from localqueue.stores.sqlite.archive import write_archive

    with store.server.long_read(), store.server.client.start_session(snapshot=True) as session:
        write_archive(path, _Reading(store, session).archive())


class _Reading:
    """Reads collection after collection in one snapshot."""

    def __init__(self, store: MongoDBQueueStore, session: Any) -> None:
        self._store = store
        self._database = store.server.database
        self._session = session
        self._mine = {"n": store.namespace_id}
        self._names: dict[int, str] = {}

    def archive(self) -> Archive:
        store = self._store
        namespace = self._one("lq_namespaces", {"_id": store.namespace_id})
        assert namespace is not None
        queues = list(self._queues())  # first: messages and entries are shown by the names of their queues
        return Archive(
            namespace=store.namespace,
            secret=int(namespace["secret"]),
            queues=queues,
            runs=self._runs(),
            messages=self._messages(),
            edges=self._edges(),
            removed=((store.ids.id_of(one["_id"]), one["why"]) for one in self._all("lq_removed", self._mine)),
            records=(as_record(one) for one in self._all("lq_records", self._mine)),
            journal=self._journal(),
            events=(
                store._event(one) for one in self._all("lq_journal", entries_of(store.namespace_id)).sort("_id", 1)
            ),
        )

    def _all(self, collection: str, query: dict[str, Any]) -> Any:
        return self._database[collection].find(query, session=self._session)

    def _one(self, collection: str, query: dict[str, Any]) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._database[collection].find_one(query, session=self._session)
        return found

    def _queues(self) -> Iterator[ArchivedQueue]:
        for row in self._all("lq_queues", self._mine):
            self._names[row["_id"]] = row["name"]
            workers = tuple(known_workers(row, self._all("lq_workers", {"q": row["_id"]})))
            subscriptions = Subscriptions(row.get("version", 0), tuple(row.get("subscribers", ())))
            yield ArchivedQueue(row["name"], row.get("paused_at"), row.get("dropped", 0), subscriptions, workers)

    def _runs(self) -> Iterator[ArchivedRun]:
        done: dict[str, int] = {}
        for part in self._all("lq_done", self._mine):
            done[part["name"]] = done.get(part["name"], 0) + part["done"]
        for run in self._all("lq_runs", self._mine):
            yield ArchivedRun(run["name"], run["total"], done.get(run["name"], 0), run.get("cancelled_at"))

    def _messages(self) -> Iterator[ArchivedMessage]:
        """By ascending id, whatever their queues: the smallest next one of each queue's walk."""
        from heapq import merge

        key: Callable[[dict[str, Any]], int] = lambda one: one["_id"]  # noqa: E731
        walks = [
            self._all("lq_messages", {"q": queue, "_id": {"$gt": Int64(0)}}).sort("_id", 1) for queue in self._names
        ]
        for one in merge(*walks, key=key):
            message = stored_message(self._store.ids, one, self._names[one["q"]])
            yield ArchivedMessage(message, one.get("m"), one.get("e"))

    def _edges(self) -> Iterator[tuple[str, str]]:
        ids = self._store.ids
        waiting = [
            one["_id"]
            for queue in self._names
            for one in self._database.lq_messages.find({"q": queue, "w": {"$gt": 0}}, {"_id": 1}, session=self._session)
        ]
        for start in range(0, len(waiting), 1000):
            for edge in self._all("lq_edges", {"d": {"$in": waiting[start : start + 1000]}}):
                yield ids.id_of(edge["u"]), ids.id_of(edge["d"])

    def _journal(self) -> ArchivedJournal | None:
        switch = self._one("lq_journals", {"_id": self._store.namespace_id})
        if switch is None:
            return None
        return ArchivedJournal(
            bool(switch["enabled"]), int(switch["last"]), switch.get("keep_seconds"), switch.get("keep_events")
        )
