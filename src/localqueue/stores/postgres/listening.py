"""The listening half of the port: what a blocked caller looks at, and what tells it to look again."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from localqueue.stores import rules
from localqueue.stores.port import Waiter
from localqueue.stores.postgres.hearing import PostgresListener
from localqueue.stores.postgres.reads import ReadsQueues
from localqueue.stores.postgres.rows import raw, raw_or_none
from localqueue.stores.postgres.tokens import queue_token, run_token
from localqueue.stores.wake import StoreWaiter, Wake

_POLL = 0.1  # seconds between looks when nothing is heard


class ListensToQueues(ReadsQueues):
    """Waiters for a store. The connection that listens is made with the first of them and shared by all stores of
    the process on the same database; without an address to listen at, those who wait look often."""

    channel: str
    _listen_info: str | None
    _wake: Wake

    def _start_listening(self) -> None:
        self._listener: PostgresListener | None = None
        self._listening = threading.Lock()
        self._wake = Wake(None, catch_up=self._catch_up)

    def _catch_up(self) -> float:
        listener = self._listener
        return _POLL if listener is None else listener.catch_up()

    def _hear(self) -> None:
        """Listen before looking: what is committed after the look is heard."""
        info = self._listen_info
        if self._listener is not None or info is None:
            return
        with self._listening:
            if self._listener is None and not self._pool.closed:
                listener = PostgresListener.share(("postgres", info), lambda: PostgresListener(info))
                listener.add(self.channel, self._wake)
                self._listener = listener

    def _forget_listener(self) -> None:
        """In the child of a fork, which has no thread that listens."""
        if self._listener is not None:
            self._listener.abandon()

    def _stop_listening(self) -> None:
        with self._listening:
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.remove(self.channel, self._wake)
            listener.release()

    def listen(self, queues: Sequence[str], *, worker: str | None = None) -> Waiter:
        self._hear()
        by = raw_or_none(worker)

        def check() -> tuple[bool, float]:
            known = [row for name in queues if (row := self._find_queue(name)) is not None]
            found = self._one(self.sql.LOOK, (self._given_now(), known, by))
            assert found is not None
            return found[0], rules.NEVER if found[1] is None else found[1]

        return StoreWaiter(self._wake, tuple(map(queue_token, queues)), check)

    def listen_capacity(self, limits: Mapping[str, int]) -> Waiter:
        self._hear()

        def check() -> tuple[bool, float]:
            known = {row: maxsize for name, maxsize in limits.items() if (row := self._find_queue(name)) is not None}
            self._want_to_know(list(known))
            found = self._one(self.sql.ROOM, (self._given_now(), list(known), list(known.values())))
            assert found is not None
            return found[0], rules.NEVER if found[1] is None else found[1]

        return StoreWaiter(self._wake, tuple(map(queue_token, limits)), check)

    def listen_run(self, run_id: str) -> Waiter:
        self._hear()
        seen = [self.run(run_id)]

        def check() -> tuple[bool, float]:
            queues = self._all(self.sql.QUEUES_OF_RUN, (self.namespace_id, raw(run_id)))
            self._want_to_know([row[0] for row in queues])
            now = self.run(run_id)
            changed, seen[0] = now != seen[0], now
            return changed, rules.NEVER

        return StoreWaiter(self._wake, (run_token(run_id), *map(queue_token, self.queues())), check)

    def _want_to_know(self, queues: list[int]) -> None:
        """Have leases in these queues be told of, for a while."""
        if queues:
            self._do(self.sql.WANT_ROOM, (self._given_now(), queues), again=True)
