"""Waking over a change stream of a MongoDB replica set, wherever the messages are."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from localqueue.notifications.port import CATCH_UP
from localqueue.notifications.server import CHANNEL, ServerNotification
from localqueue.stores import fork
from localqueue.stores.listener import Listener
from localqueue.stores.mongodb import connection, errors, schema
from localqueue.stores.mongodb.connection import Server
from localqueue.stores.mongodb.notify import ChangeListener

COLLECTION = "lq_notifications"

_DOCUMENTS = 16  # for each channel, so that many who notify at once do not all write the same one
_SAID = "said"


class MongoDBNotification(ServerNotification[Server]):
    """Wakes the listeners of a queue in all processes that use the same MongoDB database, `collection` and `channel`.

    `notify` writes the name of the message's queue into one of at most 16 small documents of the collection, which are
    overwritten again and again; `put_many` writes those of all its messages at once. Listeners follow a change stream
    of the collection, which needs a replica set. Only `notify` makes the collection: one can listen before it is there.
    The database is the path of the url, or else `localqueue`. Nothing is connected to before the first use. `timeout`
    bounds the wait for the server, whose failure `notify` raises as `NotificationFailed`.
    """

    kind = "mongodb"
    schemes = ("mongodb", "mongodb+srv")

    def __init__(
        self,
        url: str,
        queue: str | None = None,
        *,
        channel: str = CHANNEL,
        collection: str = COLLECTION,
        timeout: float = 5.0,
        catch_up: float = CATCH_UP,
    ) -> None:
        super().__init__(url, queue, channel=channel, timeout=timeout, catch_up=catch_up)
        if not isinstance(collection, str) or not collection or "$" in collection or "\0" in collection:
            raise ValueError(f"collection must be the name of a collection, got {collection!r}")
        self.collection = collection
        fork.track(self)

    def open_sender(self) -> Server:
        return connection.acquire(self._url, self._timeout)

    def close_sender(self, sender: Server) -> None:
        connection.release(sender)

    def abandon_sender(self, sender: Server) -> None:
        """Its client was replaced already; it stays open for this one, which has not released it."""
        self._sender = sender

    def say(self, sender: Server, words: Sequence[str]) -> None:
        slot = crc32(" ".join(words[1:]).encode()) % _DOCUMENTS
        place = {"_id": f"{self.channel}:{slot}"}
        new = secrets.token_hex(6)  # to write the same again would be no change, and not be heard
        what = {"$set": {_SAID: {"c": self.channel, "q": " ".join(words), "t": new}}}
        # Waits for the journal of a majority: what is not there yet is not heard, and nobody else would hurry it.
        collection = sender.database[self.collection]
        try:
            with sender.call():
                collection.update_one(place, what, upsert=True)
        except errors.Refused:  # another has just made the document
            with sender.call():
                collection.update_one(place, what, upsert=True)

    def join(self, sender: Server) -> Listener:
        key, name = (CollectionListener, id(sender), self.collection), self.collection
        return CollectionListener.share(key, lambda: CollectionListener(sender, name))

    def details(self) -> dict[str, Any]:
        return {**super().details(), "collection": self.collection}

    # fork: nobody opens or closes a client meanwhile

    def hold_for_fork(self) -> None:
        connection.lock.acquire()

    def go_on_after_fork(self) -> None:
        connection.lock.release()

    def close_in_child(self) -> None:
        if self._sender is not None:
            connection.renew_in_child(self._sender)

    def reopen_in_child(self) -> None:
        connection.lock.release()


class CollectionListener(ChangeListener):
    """Follows one collection and writes nothing. It asks the server a few times a second, so it need not probe."""

    fields = (_SAID,)
    await_ms = 250

    def __init__(self, server: Server, collection: str) -> None:
        super().__init__(server)
        self._collection = collection

    def watched(self) -> Any:
        return self._server.database[self._collection]

    def connect(self) -> None:
        schema.require_transactions(self._server.client, self._server.url)

    def hear(self, timeout: float) -> list[tuple[str, list[str] | None]]:
        heard = super().hear(timeout)
        if not self._stream.alive and not heard:
            raise ConnectionError(f"the collection {self._collection!r} was dropped or renamed")
        return heard

    def understood(self, heard: dict[str, Any]) -> list[tuple[str, list[str] | None]]:
        return [(heard["c"], str(heard["q"]).split(" "))]

    def probe(self) -> None:
        """The server answers in `hear`."""

    def nudge(self) -> None:
        """`hear` ends by itself soon."""
