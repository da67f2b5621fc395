"""Where tasks live: their store, opened when it is first needed, and the queues in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from localqueue.brokers.url import is_broker, open_broker
from localqueue.errors import QueueStoreMissingError, UnsupportedByBroker
from localqueue.limits import Limits
from localqueue.policies import PriorityOrdering
from localqueue.queue import PersistentQueue
from localqueue.stores import default
from localqueue.stores.address import shown
from localqueue.stores.port import QueueStore

if TYPE_CHECKING:
    from localqueue.brokers.capabilities import BrokerCapabilities
    from localqueue.brokers.port import Broker


class Home:
    """One store or broker, by its address, given open, or the store of the process, and the queues that were asked for.

    `options` are those of every queue, `queues` those of single ones beside them.
    """

    def __init__(
        self,
        store: str | QueueStore | Broker | None,
        namespace: str | None,
        queue: str,
        queues: Mapping[str, Mapping[str, Any]],
        options: Mapping[str, Any],
    ) -> None:
        self.broker: BrokerCapabilities | None = None
        self._opened_broker: Broker | None = None
        self._settings: default.Settings | None = None
        if is_broker(store) or hasattr(store, "as_store"):
            if namespace is not None:
                raise ValueError("namespace= goes with the address of a store; a broker has none")
            store = self._on_broker(store)
        elif isinstance(store, str):
            self._settings = default.Settings.of(None, store, namespace)
        elif namespace is not None:
            raise ValueError("namespace= goes with the address of a store; an open one has its namespace already")
        self._given = None if isinstance(store, str) else store
        self._default_queue = queue
        self._options = options
        self._queue_options = {name: dict(own) for name, own in queues.items()}
        self._queue_limits = {name: own.pop("limits", None) for name, own in self._queue_options.items()}
        self._queues: dict[str, PersistentQueue[Any]] = {}
        self._shared: default.Shared | None = None
        self._store: QueueStore | None = None
        self._opening = threading.RLock()

    def queue(self, name: str | None = None) -> PersistentQueue[Any]:
        """The queue beneath: everything a `PersistentQueue` can do goes for tasks too."""
        name = name or self._default_queue
        found = self._queues.get(name)
        if found is not None:
            return found
        with self._opening:
            found = self._queues.get(name)
            if found is None:
                own = {**self._ordering(), **self._options, **self._queue_options.get(name, {})}
                found = self._queues[name] = PersistentQueue(name, store=self.store, **own)
            return found

    def _ordering(self) -> dict[str, Any]:
        has_priorities = self.broker is None or self.broker.priorities > 0
        return {"ordering_policy": PriorityOrdering()} if has_priorities else {}

    def _on_broker(self, place: Any) -> QueueStore:
        """Live on a broker, opened here if an address was given."""
        if isinstance(place, str):
            place = self._opened_broker = open_broker(place)
        store: QueueStore = place.as_store()
        self.broker = getattr(store, "capabilities", None)
        return store

    def refuse_on_broker(self, applies: bool, what: str, way_out: str) -> None:
        """Refuse what no broker can do, if these tasks live on one."""
        if applies and self.broker is not None:
            raise UnsupportedByBroker(f"tasks on {self.broker.name} can not have {what}: {way_out}")

    def limits_of_queue(self, name: str) -> Limits | None:
        """The limits that all jobs of a queue are under."""
        return self._queue_limits.get(name)

    @property
    def store(self) -> QueueStore:
        """The store beneath, opened now if nobody needed it before."""
        with self._opening:
            if self._given is not None:
                return self._given
            if self._store is None:
                self._store = self._open()
            return self._store

    def now(self) -> float:
        """The time by the store's clock."""
        return self.store.now()

    def require_store(self) -> None:
        """`QueueStoreMissingError` where there is no store yet: who only looks makes none."""
        if self._given is not None or self._store is not None:
            return
        there = default.is_there() if self._settings is None else default.Shared(self._settings).is_there()
        if not there:
            raise QueueStoreMissingError(f"there is no store at {self._where()} yet, so nobody knows of any job")

    def _where(self) -> str:
        return default.described() if self._settings is None else repr(shown(self._settings.url))

    def close(self) -> None:
        """Close the store, unless it was passed in open."""
        with self._opening:
            queues, self._queues = list(self._queues.values()), {}
            store, self._store = self._store, None
            shared, self._shared = self._shared, None
        for queue in queues:
            queue.close()
        if self._opened_broker is not None:
            self._opened_broker.close()
        if shared is not None:
            shared.release()
        elif store is not None:
            store.close()

    def move_out(self) -> None:
        """Let go of the store of the process: it is another one now, which is opened when it is next needed."""
        self.close()

    @contextmanager
    def living_in(self, store: QueueStore) -> Iterator[None]:
        """Have the jobs live in `store` until the block ends, whatever store these tasks were given; for tests."""
        with self._opening:
            before = self._given
            self.close()
            self._given = store
        try:
            yield
        finally:
            with self._opening:
                self.close()
                self._given = before

    def _open(self) -> QueueStore:
        if self._settings is not None:
            return self._settings.open()
        default.move_in(self)
        self._shared = default.shared()
        if self._shared is not None:
            return self._shared.acquire()
        from localqueue.stores.sqlite import SQLiteQueueStore

        return SQLiteQueueStore(default.default_store_path())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
