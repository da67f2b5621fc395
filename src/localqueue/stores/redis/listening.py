"""The listening half of the port. Whoever waits looks at the server in one call, and again when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from localqueue.stores import rules
from localqueue.stores.port import Waiter
from localqueue.stores.redis.link import Link
from localqueue.stores.redis.listener import RedisListener
from localqueue.stores.redis.names import digest
from localqueue.stores.redis.reading import ReadsQueues
from localqueue.stores.redis.values import number, optional
from localqueue.stores.wake import StoreWaiter, Wake


class Ear:
    """This store's part in the listener that the process shares for one server; it begins with the first waiter."""

    def __init__(self, link: Link, url: str, channel: bytes) -> None:
        self._link = link
        self._url = url
        self._channel = channel.decode()
        self._lock = threading.Lock()
        self._listener: RedisListener | None = None
        self.wake = Wake(None, catch_up=self._catch_up)

    def open(self) -> None:
        """Returns when the server tells of changes, or else soon."""
        if self._listener is not None:
            return
        with self._lock:
            if self._listener is None:
                listener = RedisListener.share(("redis", self._url), self._make)
                listener.add(self._channel, self.wake)
                self._listener = listener

    def _make(self) -> RedisListener:
        return RedisListener(self._link.listening_wire)

    def _catch_up(self) -> float:
        listener = self._listener
        return 0.0 if listener is None else listener.catch_up()  # 0: the store was closed, look and see

    def close(self) -> None:
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.remove(self._channel, self.wake)
            listener.release()

    def abandon(self) -> None:
        if self._listener is not None:
            self._listener.abandon()


class ListensToQueues(ReadsQueues):
    _ear: Ear

    def listen(self, queues: Sequence[str], *, worker: str | None = None) -> Waiter:
        names = [self._digest(name) for name in queues]
        arguments = (optional(worker), str(len(names)).encode(), *names)

        def check() -> tuple[bool, float]:
            return _seen(self._read("look", *arguments)[1])

        self._ear.open()
        return StoreWaiter(self._wake, [name.decode() for name in names], check)

    def listen_capacity(self, limits: Mapping[str, int]) -> Waiter:
        names = [self._digest(name) for name in limits]
        pairs = [part for name, limit in zip(names, limits.values(), strict=True) for part in (name, number(limit))]

        def check() -> tuple[bool, float]:
            return _seen(self._write("room", str(len(names)).encode(), *pairs, again=True)[1])

        self._ear.open()
        return StoreWaiter(self._wake, [name.decode() for name in names], check)

    def listen_run(self, run_id: str) -> Waiter:
        run = digest(run_id)

        def look() -> Any:
            return self._run_stats(run_id, self._write("await_run", run, again=True)[1])

        self._ear.open()
        seen = [look()]

        def check() -> tuple[bool, float]:
            now = look()
            changed, seen[0] = now != seen[0], now
            return changed, rules.NEVER

        return StoreWaiter(self._wake, [run.decode()], check)


def _seen(answer: Any) -> tuple[bool, float]:
    done, seconds = answer
    return bool(done), rules.NEVER if seconds is None else float(seconds)
