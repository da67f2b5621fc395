"""The statements of our own MongoDB store, by hand on pymongo.

The same collection, indexes, documents and conditions as a put, a lease and an ack of a plain message. The distance to
`mongodb.py` is the price of the schema, the distance to `ours.py` the price of our Python. What the store does now and
then only (a look at the timers) is left out, and so is the transaction around a bulk put.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pymongo
from bson.int64 import Int64
from pymongo.write_concern import WriteConcern

from localqueue.stores.engine.row import INFLIGHT
from localqueue.stores.mongodb import MongoDBQueueStore, gate
from localqueue.stores.mongodb.document import ROOM, TO_CLAIM, plain, say
from localqueue.stores.mongodb.schema import BY_KEY, CLAIM

QUEUE = "bench"
NOTHING_FOLLOWS = {"ok": None, "r": None, "dep": None, "j": None}
Handle = dict[str, Any]


class Adapter:
    def __init__(self, url: str) -> None:
        self.store = MongoDBQueueStore(url)  # makes the indexes, the namespace and the queue
        self.store.put_one(QUEUE, "{}", None)
        self.store.purge(QUEUE)
        self.client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(url)
        database = self.client[self.store.server.database.name]
        self.messages = database.get_collection("lq_messages", write_concern=WriteConcern(w="majority", j=True))
        self.namespace, self.queue = self.store.namespace_id, self.store.queue_number(QUEUE)

    def _document(self, key: int, item: dict[str, Any]) -> dict[str, Any]:
        document = plain(self.namespace, key, self.queue, json.dumps(item), None, time.time())
        document["k"] = say(TO_CLAIM, self.namespace, self.queue)
        return document

    def put(self, item: dict[str, Any]) -> None:
        self.messages.insert_one(self._document(time.time_ns(), item))

    def put_many(self, items: list[dict[str, Any]]) -> None:
        self.messages.insert_many([self._document(key, item) for key, item in enumerate(items, time.time_ns())])

    def lease(self) -> Handle:
        now = time.time()
        handle = self.messages.find_one_and_update(
            gate.for_claims(self.queue, None, now),
            self._claim(now),
            sort=gate.ORDER,
            hint=CLAIM,
            return_document=pymongo.ReturnDocument.AFTER,
        )
        assert handle is not None
        json.loads(handle["b"])
        return handle

    def _claim(self, now: float) -> dict[str, Any]:
        told = say(ROOM, self.namespace, self.queue)
        changed = {"s": INFLIGHT, "due": now + 600.0, "la": now, "k": told}
        return {"$set": changed, "$inc": {"a": 1}, "$unset": {"lb": "", "m": "", "j": ""}}

    def ack(self, handle: Handle) -> None:
        self.messages.delete_one(
            {"_id": Int64(handle["_id"]), "q": self.queue, "s": INFLIGHT, "a": handle["a"], **NOTHING_FOLLOWS},
            hint=BY_KEY,
        )

    def close(self) -> None:
        self.client.close()
        self.store.close()
