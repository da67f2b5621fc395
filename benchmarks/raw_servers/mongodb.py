"""A queue by hand on pymongo: one write an operation, confirmed by the majority with its journal.

The least that a leased queue on MongoDB is: the id is the order, a field says until when a document is leased, and an
index over both finds the next. A worker watches a change stream, for the bare way from one process to another.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pymongo
from pymongo.write_concern import WriteConcern

NEVER = datetime(1970, 1, 1, tzinfo=UTC)
Handle = dict[str, Any]


class Adapter:
    def __init__(self, url: str, *, notify: bool = False) -> None:
        self.client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(url)
        database = self.client.get_default_database()
        self.messages = database.get_collection("raw", write_concern=WriteConcern(w="majority", j=True))
        self.messages.create_index([("leased", 1), ("_id", 1)])

    def put(self, item: dict[str, Any]) -> None:
        self.messages.insert_one({"payload": json.dumps(item), "leased": False, "until": NEVER, "attempts": 0})

    def put_many(self, items: list[dict[str, Any]]) -> None:
        self.messages.insert_many(
            {"payload": json.dumps(item), "leased": False, "until": NEVER, "attempts": 0} for item in items
        )

    def try_lease(self) -> Handle | None:
        until = datetime.now(UTC) + timedelta(minutes=10)
        return self.messages.find_one_and_update(
            {"leased": False},
            {"$set": {"leased": True, "until": until}, "$inc": {"attempts": 1}},
            sort=[("_id", 1)],
            return_document=pymongo.ReturnDocument.AFTER,
        )

    def lease(self) -> Handle:
        handle = self.try_lease()
        assert handle is not None
        json.loads(handle["payload"])
        return handle

    def lease_many(self, n: int) -> list[Handle]:
        """Find, and take what was found: two round trips, the second takes them all."""
        found = list(self.messages.find({"leased": False}, sort=[("_id", 1)], limit=n))
        until = datetime.now(UTC) + timedelta(minutes=10)
        self.messages.update_many(
            {"_id": {"$in": [one["_id"] for one in found]}, "leased": False},
            {"$set": {"leased": True, "until": until}, "$inc": {"attempts": 1}},
        )
        for one in found:
            json.loads(one["payload"])
        return found

    def ack(self, handle: Handle) -> None:
        self.messages.delete_one({"_id": handle["_id"], "attempts": handle["attempts"]})

    def ack_many(self, handles: list[Handle]) -> None:
        self.messages.delete_many({"_id": {"$in": [handle["_id"] for handle in handles]}})

    def work_some(self, n: int) -> int:
        for _ in range(0, n, 50):
            self.ack_many(self.lease_many(50))
        return n

    def start_worker(self, handler: Callable[[Any], object]) -> None:
        """Watch the inserts and claim."""
        self.stopping = threading.Event()
        self.stream = self.messages.watch([{"$match": {"operationType": "insert"}}], max_await_time_ms=200)

        def loop() -> None:
            with self.stream:
                while not self.stopping.is_set():
                    while (handle := self.try_lease()) is not None:
                        handler(json.loads(handle["payload"]))
                        self.ack(handle)
                    self.stream.try_next()

        self.worker = threading.Thread(target=loop)
        self.worker.start()

    def stop_worker(self) -> None:
        self.stopping.set()
        self.worker.join()

    def close(self) -> None:
        self.client.close()
