"""Waking those who wait: what a blocked caller looks at, and the change stream that tells it to look again.

One stream serves all stores of this process on one database. A message tells of itself: whoever inserts one, makes one
ready or takes one away writes the field `k` (document.py), and the stream asks for nothing else of it; a record that is
waited for does so too. What neither can tell (a deleted one, a resumed queue, a change of a run) is said in the one
document of `lq_wakes`, after the commit and without waiting for it. The server sends what is said on the channels that
somebody here waits for, nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import pymongo
from bson.objectid import ObjectId
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from localqueue.stores import rules
from localqueue.stores.engine.row import BLOCKED, READY
from localqueue.stores.listener import Ear, Listener
from localqueue.stores.mongodb import gate
from localqueue.stores.mongodb.connection import Server
from localqueue.stores.mongodb.document import RECORD, ROOM, RUN, TO_CLAIM, Document, channel, record_number, say
from localqueue.stores.mongodb.reads import Reads
from localqueue.stores.wake import RecordName, StoreWaiter, Wake, change_of

_RUNS = object()
_TELL_WITHIN = 0.5  # seconds: whoever waits looks again by himself after a second
_HISTORY_LOST = (136, 234, 280, 286)
_ANSWER_WITHIN = 5.0
_CHANGES = {"insert": "fullDocument", "update": "updateDescription.updatedFields"}  # where they are told
_SAID, _OF_RECORD = "k", "told"  # the fields that are for listeners, of messages and of records


class Ears:
    """An ear of one store for each kind of channel, of which the process's listener is shared.

    A store that only looks does without: a listener says something now and then, to hear whether it still hears.
    """

    def __init__(self, server: Server, namespace: int, *, read_only: bool = False) -> None:
        self._server = server
        self._namespace = namespace
        self._read_only = read_only
        self.begin()

    def begin(self) -> None:
        """Also in a forked child, where nothing of this runs yet."""
        self._of = {kind: Ear(channel(kind, self._namespace), self._join) for kind in (TO_CLAIM, ROOM, RUN, RECORD)}

    def _join(self) -> ChangeListener | None:
        server = self._server
        if self._read_only:
            return None
        return ChangeListener.share((ChangeListener, id(server)), lambda: ChangeListener(server))

    def touched(self, names: Sequence[Hashable]) -> None:
        """A commit of this store changed these queues."""
        self._of[TO_CLAIM].wake.touched(names)
        self.left(names)

    def left(self, names: Sequence[Hashable]) -> None:
        """Messages left these queues, and nothing came."""
        self._of[ROOM].wake.touched(names)
        self._of[RUN].wake.touched((_RUNS,))

    def written(self, names: Iterable[RecordName]) -> None:
        """A commit of this store changed these records, and tells of it."""
        self._of[RECORD].wake.touched([_of_record(*name) for name in names])

    def open(self, kind: str) -> Wake:
        """The wake of a kind, once the server tells of it."""
        return self._of[kind].open()

    def close(self) -> None:
        for ear in self._of.values():
            ear.close()


class Notifies(Reads):
    """The listening part of the port, and telling others."""

    ears: Ears

    def say(self, what: Iterable[tuple[str, int]]) -> None:
        """Tell listeners of other processes what no message tells them. What is lost costs them time only."""
        with suppress(PyMongoError), pymongo.timeout(_TELL_WITHIN):
            for kind, queue in what:
                self.server.tell(say(kind, self.namespace_id, queue))

    def listen(self, queues: Sequence[str], *, worker: str | None = None) -> StoreWaiter:
        def check() -> tuple[bool, float]:
            now, next_due = self.now(), rules.NEVER
            for name in queues:
                with self._call():
                    queue = self._number(name)
                    found = gate.look(self.server, queue, worker)
                if found.paused:
                    continue
                self.server.looks.looked(queue, now, found.due)
                if found.ready or found.due <= now:
                    return True, 0.0
                next_due = min(next_due, found.due)
            return False, next_due - now

        return self._waiter(TO_CLAIM, tuple(queues), check)

    def listen_capacity(self, limits: Mapping[str, int]) -> StoreWaiter:
        def check() -> tuple[bool, float]:
            full = [name for name, maxsize in limits.items() if self.load(name) >= maxsize]
            now = self.now()
            next_due = min((self._next_expiry(name, now) for name in full), default=rules.NEVER)
            return not full, next_due - now

        return self._waiter(ROOM, tuple(limits), check)

    def _next_expiry(self, queue: str, now: float) -> float:
        """When the next message that counts against capacity reaches the end of its life."""
        with self._call():
            query = {"q": self._number(queue), "s": {"$in": [READY, BLOCKED]}, "due": {"$gt": now}}
            found = self.server.messages.find_one(query, {"due": 1}, sort=[("due", 1), ("_id", 1)])
        return rules.NEVER if found is None else float(found["due"])

    def listen_run(self, run_id: str) -> StoreWaiter:
        return self._waiter(RUN, (_RUNS,), change_of(lambda: self.run(run_id)))

    def listen_records(self, kind: str, keys: Sequence[str]) -> StoreWaiter:
        names = list(dict.fromkeys(keys))
        look = change_of(lambda: self._record_versions(kind, names))
        return self._waiter(RECORD, tuple(_of_record(kind, name) for name in names), look)

    def _waiter(self, kind: str, names: tuple[Hashable, ...], check: Callable[[], tuple[bool, float]]) -> StoreWaiter:
        self._require_open()
        return StoreWaiter(self.ears.open(kind), names, check)


def _of_record(kind: str, key: str) -> str:
    return str(record_number(kind, key))


class ChangeListener(Listener):
    """Hears what is said in `fields` of whatever is written to the database."""

    fields: ClassVar[tuple[str, ...]] = (_OF_RECORD, _SAID)
    await_ms: ClassVar[int] = 1000  # how long the server waits before it says that nothing was written

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

    def mask(self, text: str) -> str:
        return self._server.address.mask(text)

    def subscribe(self, channels: Iterable[str]) -> None:
        self.disconnect()
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
            {"operationType": kind, f"{changed}.{field}.c": {"$in": channels}}
            for kind, changed in _CHANGES.items()
            for field in self.fields
        ]
        places = [f"${changed}.{field}" for field in self.fields for changed in _CHANGES.values()]
        self._stream = (
            self.watched()
            .with_options(read_concern=ReadConcern("majority"))
            .watch(
                [{"$match": {"$or": heard}}, {"$project": {"k": {"$ifNull": places}}}],
                max_await_time_ms=self.await_ms,
                start_after=self._token,
            )
        )

    def watched(self) -> Any:
        """The database or the collection whose changes are heard."""
        return self._server.database

    def hear(self, timeout: float) -> list[tuple[str, list[str] | None]]:
        until = time.monotonic() + timeout
        while True:
            event = self._stream.try_next()
            self._token = self._stream.resume_token
            if event is not None:
                found = self.understood(event["k"])
                if found or self._wanted.is_set():
                    return found
            elif time.monotonic() >= until:
                return []
            if self._stopped.is_set() or self._wanted.is_set() or not self._stream.alive:
                return []

    def understood(self, heard: Document) -> list[tuple[str, list[str] | None]]:
        place, queue = heard["c"], heard["q"]
        if place == self._me:
            self._answered = max(self._answered, queue)
            return []
        if place.startswith(RUN):
            return [(place, None)]
        if place.startswith(RECORD):
            return [(place, [str(queue)])]
        if queue not in self._names:
            found = self._server.queues.find_one({"_id": queue}, {"name": 1})
            if found is None:
                return []
            self._names[queue] = found["name"]
        return [(place, [self._names[queue]])]

    def probe(self) -> None:
        """Say something to itself, and hear it."""
        self._asked += 1
        self._say_to_myself()
        until = time.monotonic() + _ANSWER_WITHIN
        while self._answered < self._asked and not self._stopped.is_set():
            if time.monotonic() >= until:
                raise TimeoutError("the change stream does not deliver")
            for heard, queues in self.hear(0.0):
                self._tell(heard, queues)

    def nudge(self) -> None:
        with suppress(PyMongoError):
            self._say_to_myself()

    def _say_to_myself(self) -> None:
        self._server.tell({"c": self._me, "q": self._asked, "t": ObjectId()})

    def abandon(self) -> None:
        """The client knows by itself that its process was forked."""

    def disconnect(self) -> None:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            with suppress(Exception):
                stream.close()
