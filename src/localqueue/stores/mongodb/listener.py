"""Hearing what other processes did, through one change stream for all stores of this process on one database.

A message tells it itself: whoever inserts one, makes one ready or takes one away writes the field `k` (said.py), and
the stream asks for nothing else of it. What no message can tell (a deleted one, a resumed queue, a change of a run) is
said in the one document of `lq_wakes`, after the commit and without waiting for it. The server sends what is said on
the channels that somebody here waits for, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from bson.objectid import ObjectId
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from localqueue.stores.listener import Listener
from localqueue.stores.mongodb import said
from localqueue.stores.mongodb.server import Server

_AWAIT_MS = 1000
_HISTORY_LOST = (136, 234, 280, 286)
_ANSWER_WITHIN = 5.0
_INSERTED, _UPDATED = "fullDocument.k", "updateDescription.updatedFields.k"


class ChangeListener(Listener):
    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self._me = str(ObjectId())  # a channel of its own, for nudges and probes
        self._stream: Any = None
        self._token: Any = None
        self._names: dict[int, str] = {}
        self._answered = 0
        self._asked = 0

    def connect(self) -> None:
        self._server.client.admin.command("ping")

    def subscribe(self, channels: Iterable[str]) -> None:
        self._close()
        wanted = [*channels, self._me]
        try:
            self._open(wanted)
        except OperationFailure as error:
            if error.code not in _HISTORY_LOST:
                raise
            self._token = None  # the server has forgotten where we were; everybody looks again after this
            self._open(wanted)

    def _open(self, channels: list[str]) -> None:
        heard = [
            {"operationType": "insert", f"{_INSERTED}.c": {"$in": channels}},
            {"operationType": "update", f"{_UPDATED}.c": {"$in": channels}},
        ]
        shown = {"k": {"$ifNull": [f"${_INSERTED}", f"${_UPDATED}"]}}
        database = self._server.database.with_options(read_concern=ReadConcern("majority"))
        self._stream = database.watch(
            [{"$match": {"$or": heard}}, {"$project": shown}], max_await_time_ms=_AWAIT_MS, start_after=self._token
        )

    def hear(self, timeout: float) -> list[tuple[str, list[str] | None]]:
        until = time.monotonic() + timeout
        while True:
            event = self._stream.try_next()
            self._token = self._stream.resume_token
            if event is not None:
                found = self._understood(event["k"])
                if found or self._wanted.is_set():
                    return found
            elif time.monotonic() >= until:
                return []
            if self._stopped.is_set() or self._wanted.is_set() or not self._stream.alive:
                return []

    def _understood(self, heard: dict[str, Any]) -> list[tuple[str, list[str] | None]]:
        channel, queue = heard["c"], heard["q"]
        if channel == self._me:
            self._answered = max(self._answered, queue)
            return []
        if channel.startswith(said.RUN):
            return [(channel, None)]
        if queue not in self._names:
            found = self._server.queues.find_one({"_id": queue}, {"name": 1})
            if found is None:
                return []
            self._names[queue] = found["name"]
        return [(channel, [self._names[queue]])]

    def probe(self) -> None:
        """Say something to itself, and hear it."""
        self._asked += 1
        self._say_to_myself()
        until = time.monotonic() + _ANSWER_WITHIN
        while self._answered < self._asked and not self._stopped.is_set():
            if time.monotonic() >= until:
                raise TimeoutError("the change stream does not deliver")
            for channel, queues in self.hear(0.0):
                self._tell(channel, queues)

    def nudge(self) -> None:
        with suppress(PyMongoError):
            self._say_to_myself()

    def _say_to_myself(self) -> None:
        said_now = {"c": self._me, "q": self._asked, "t": ObjectId()}
        soon = self._server.database.lq_wakes.with_options(write_concern=self._server.soon)
        soon.update_one(said.SAID, {"$set": {"k": said_now}})

    def disconnect(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            with suppress(Exception):
                stream.close()
