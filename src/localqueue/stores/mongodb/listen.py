"""The listening half of the port: what a blocked caller looks at, and what tells it to look again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from localqueue.stores import rules
from localqueue.stores.mongodb import gate, reads, said
from localqueue.stores.mongodb.listener import ChangeListener
from localqueue.stores.mongodb.server import Server, closed
from localqueue.stores.wake import StoreWaiter, Wake

if TYPE_CHECKING:
    from localqueue.stores.mongodb.store import MongoDBQueueStore

_RUNS = object()


class Ears:
    """The wakes of one store, one for each kind of channel; the process's listener starts with the first waiter."""

    def __init__(self, server: Server, namespace: int) -> None:
        self._server = server
        self._namespace = namespace
        self._closed = False
        self.begin()

    def begin(self) -> None:
        """Also in a forked child, where nothing of this runs yet."""
        self._lock = threading.Lock()
        self._listener: ChangeListener | None = None
        self._listening: set[str] = set()
        self.wakes = {kind: Wake(None, self._catch_up) for kind in (said.READY, said.ROOM, said.RUN)}

    def _catch_up(self) -> float:
        listener = self._listener
        return 0.1 if listener is None else listener.catch_up()

    def touched(self, names: Sequence[Hashable]) -> None:
        """A commit of this store changed these queues."""
        self.wakes[said.READY].touched(names)
        self.left(names)

    def left(self, names: Sequence[Hashable]) -> None:
        """Messages left these queues, and nothing came."""
        self.wakes[said.ROOM].touched(names)
        self.wakes[said.RUN].touched((_RUNS,))

    def open(self, kind: str) -> Wake:
        """The wake of a kind, once the server tells of it."""
        wake = self.wakes[kind]
        server = self._server
        with self._lock:
            if self._closed:
                raise closed(server.url)
            if kind not in self._listening:
                if self._listener is None:
                    key = (ChangeListener, id(server))
                    self._listener = ChangeListener.share(key, lambda: ChangeListener(server))
                self._listener.add(said.channel(kind, self._namespace), wake)
                self._listening.add(kind)
        return wake

    def close(self) -> None:
        with self._lock:
            self._closed = True
            listener, self._listener = self._listener, None
            kinds, self._listening = self._listening, set()
        if listener is not None:
            for kind in kinds:
                listener.remove(said.channel(kind, self._namespace), self.wakes[kind])
            listener.release()
        for wake in self.wakes.values():
            wake.stir()


def for_messages(store: MongoDBQueueStore, queues: Sequence[str], worker: str | None) -> StoreWaiter:
    def check() -> tuple[bool, float]:
        store._require_open()
        now, next_due = store.now(), rules.NEVER
        for name in queues:
            queue = store._find_queue(name)
            if queue is None:
                continue
            with store.server.call():
                found = gate.look(store.server, queue, worker)
            if found.paused:
                continue
            store.server.looks.looked(queue, now, found.due)
            if found.ready or found.due <= now:
                return True, 0.0
            next_due = min(next_due, found.due)
        return False, next_due - now

    return _waiter(store, said.READY, tuple(queues), check)


def for_capacity(store: MongoDBQueueStore, limits: Mapping[str, int]) -> StoreWaiter:
    def check() -> tuple[bool, float]:
        full = [name for name, maxsize in limits.items() if store.load(name) >= maxsize]
        now, next_due = store.now(), rules.NEVER
        for name in full:
            queue = store._find_queue(name)
            if queue is not None:
                with store.server.call():
                    next_due = min(next_due, reads.next_expiry(store.server, queue, now))
        return not full, next_due - now

    return _waiter(store, said.ROOM, tuple(limits), check)


def for_run(store: MongoDBQueueStore, run_id: str) -> StoreWaiter:
    wake = store.ears.open(said.RUN)
    seen = [store.run(run_id)]

    def check() -> tuple[bool, float]:
        now = store.run(run_id)
        changed, seen[0] = now != seen[0], now
        return changed, rules.NEVER

    return StoreWaiter(wake, (_RUNS,), check)


def _waiter(
    store: MongoDBQueueStore, kind: str, names: tuple[str, ...], check: Callable[[], tuple[bool, float]]
) -> StoreWaiter:
    store._require_open()
    return StoreWaiter(store.ears.open(kind), names, check)
