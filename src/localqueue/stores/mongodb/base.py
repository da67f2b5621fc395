"""What every part of the store stands on: its server, its numbers of queues, and the transaction of a write."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from pymongo.errors import PyMongoError

from localqueue.ids import Mint
from localqueue.stores import fork
from localqueue.stores.mongodb import driver, listen, said, schema, server
from localqueue.stores.mongodb.transaction import transact
from localqueue.stores.mongodb.tx import Tx
from localqueue.stores.observing import Observed

T = TypeVar("T")

_TELL_WITHIN = 0.5  # seconds: whoever waits looks again by himself after a second


def _let_go(ears: listen.Ears, connected: server.Server) -> None:
    ears.close()
    server.release(connected)


class Base(Observed):
    """Opening and closing, and what reads and writes go through."""

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "default",
        durability: str = "process",
        clock: Callable[[], float] | None = None,
        timeout: float = 15.0,
    ) -> None:
        if durability not in ("process", "power"):
            raise ValueError(f"durability must be 'process' or 'power', not {durability!r}")
        if not namespace:
            raise ValueError("namespace cannot be empty")
        if timeout <= 0:
            raise ValueError(f"timeout must be positive, not {timeout!r}")
        super().__init__()
        self.durability = durability
        self._namespace = namespace
        self._clock = clock
        self.server = server.acquire(url, timeout)
        try:
            with self.server.call():
                self.namespace_id, secret = schema.namespace(self.server.database, namespace)
        except BaseException:
            server.release(self.server)
            raise
        self.ids = Mint(secret)
        self.queue_ids: dict[str, int] = {}
        self._queue_names: dict[int, str] = {}
        self.followed: set[int] = set()  # see hot.learn
        self.journalled = False  # as far as is known: the server knows better, see journal.py
        self.ears = listen.Ears(self.server, self.namespace_id)
        self._finalizer = weakref.finalize(self, _let_go, self.ears, self.server)
        self._finalizer.atexit = False  # the end of the process closes everything, without waiting for its threads
        fork.track(self)

    @property
    def namespace(self) -> str:
        return self._namespace

    @property
    def url(self) -> str:
        return self.server.url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, namespace={self._namespace!r})"

    def now(self) -> float:
        return self.server.clock() if self._clock is None else self._clock()

    def mint(self, count: int = 1) -> list[str]:
        return self.ids.take(count)

    def _write(self, work: Callable[[Tx], T], wanted: Iterable[int | None] | None = ()) -> T:
        """Run work in a transaction of its own, then wake whoever waits for what it changed.

        `wanted` are keys of messages it will need; None says that it touches no message.
        """
        self._require_open()
        seen = self._watched.seen
        keys = None if wanted is None else list(wanted)
        made: list[Tx] = []

        def apply(session: Any) -> T:
            tx = Tx(self, session, self.now(), seen is not None)
            made.append(tx)
            if keys is not None:
                tx.begin(keys)
            result = work(tx)
            tx.finish()
            return result

        result = transact(self.server, apply)
        tx = made[-1]
        if keys is not None:
            self.journalled = tx.journal.enabled
        for queue, at in tx.timers:
            self.server.looks.timer(queue, at)
        if seen is not None:
            seen += tx.transitions
        self.ears.touched(tuple(tx.touched))
        self.say(tx.said)
        return result

    def say(self, what: Iterable[tuple[str, int]]) -> None:
        """Tell listeners of other processes what no message tells them. What is lost costs them time only."""
        soon = self.server.database.lq_wakes.with_options(write_concern=self.server.soon)
        until = time.monotonic() + _TELL_WITHIN
        for kind, queue in what:
            told = said.say(kind, self.namespace_id, queue, self.ids.reserve())
            with suppress(PyMongoError), driver.deadline(until):
                soon.update_one(said.SAID, {"$set": {"k": told}})

    def _require_open(self) -> None:
        if not self._finalizer.alive:
            raise server.closed(self.url)

    def _read(self, name: str, work: Callable[[int], T], missing: T) -> T:
        """Read about a queue; one that nobody has used yet is simply empty."""
        self._require_open()
        queue = self._find_queue(name)
        if queue is None:
            return missing
        with self.server.call():
            return work(queue)

    # queues

    def queue_number(self, name: str) -> int:
        """The number of a queue, made on first use."""
        known = self.queue_ids.get(name)
        if known is None:
            with self.server.call():
                known = self.queue_ids[name] = schema.queue(self.server.database, self.namespace_id, name)
        return known

    def _find_queue(self, name: str) -> int | None:
        known = self.queue_ids.get(name)
        if known is None:
            self._require_open()
            with self.server.call():
                found = self.server.queues.find_one({"n": self.namespace_id, "name": name}, {"_id": 1})
            if found is None:
                return None
            known = self.queue_ids[name] = found["_id"]
        return known

    def name_of_queue(self, number: int) -> str:
        known = self._queue_names.get(number)
        if known is None:
            with self.server.call():
                found = self.server.queues.find_one({"_id": number}, {"name": 1})
            known = self._queue_names[number] = found["name"]
        return known

    # life

    def close(self) -> None:
        """Closing twice is harmless; any other call after it raises `QueueStoreClosedError`."""
        fork.forget(self)
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # fork: the child neither uses nor closes what it inherited

    def hold_for_fork(self) -> None:
        server.hold()

    def go_on_after_fork(self) -> None:
        server.go_on()

    def close_in_child(self) -> None:
        server.renew_in_child(self.server)

    def reopen_in_child(self) -> None:
        server.go_on()
        self.ears.begin()
