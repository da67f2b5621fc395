"""Another process with a notification policy and a queue of its own, for the suites of policies."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from localqueue.contracts.steps import PATIENCE
from localqueue.queue import PersistentQueue
from localqueue.stores.sqlite import SQLiteQueueStore
from localqueue.workers import Worker

MakePolicy = Callable[..., Any]


class Peer:
    """Another process with a policy of its own. What is called here happens there, and has happened on return."""

    def __init__(self, make: MakePolicy, path: str, queue: str) -> None:
        context = multiprocessing.get_context("forkserver")
        self._connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(make, path, queue, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def start(self, method: str, *arguments: Any) -> None:
        """Have it done, without waiting for the answer."""
        self._connection.send((method, arguments))

    def answer(self) -> Any:
        assert self._connection.poll(2 * PATIENCE), "the other process does not answer"
        return self._connection.recv()

    def ask(self, method: str, *arguments: Any) -> Any:
        self.start(method, *arguments)
        return self.answer()

    def signal(self, signum: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signum)

    @property
    def has_answered(self) -> bool:
        return self._connection.poll()

    def close(self) -> None:
        with suppress(OSError):
            self.start("end")
        self.process.join(PATIENCE)
        assert self.process.exitcode is not None
        self.process.close()
        self._connection.close()


def _serve(make: MakePolicy, path: str, queue: str, connection: Connection) -> None:
    with _Place(make, path, queue) as place:
        while True:
            method, arguments = connection.recv()
            if method == "end":
                return
            connection.send(getattr(place, method)(*arguments))


class _Place:
    """A process's policy, and its queue of that name."""

    def __init__(self, make: MakePolicy, path: str, queue: str) -> None:
        self.policy = make(queue=queue)
        self._store = SQLiteQueueStore(path)
        self._queue: PersistentQueue[Any] = PersistentQueue(queue, store=self._store, notification_policy=self.policy)

    def put(self, item: Any, delay: float = 0.0) -> str:
        return self._queue.put(item, delay=delay).id

    def put_after(self, item: Any, message_id: str) -> str:
        return self._queue.put(item, after=[message_id]).id

    def put_many(self, count: int) -> int:
        return len(self._queue.put_many(range(count)))

    def listen(self) -> bool:
        return is_heard(self.policy)

    def wait(self, timeout: float) -> bool:
        return bool(self.policy.wait(timeout))

    def clear(self) -> None:
        self.policy.clear()

    def take(self, count: int) -> list[Any]:
        """Everything up to so many, resting on nothing but the policy."""
        taken: list[Any] = []
        while len(taken) < count:
            self.policy.clear()
            found = self._queue.get_messages(count, block=False) if self._queue.qsize() else []
            taken.extend(message.value for message in found)
            for message in found:
                self._queue.ack(message)
            if not found:
                assert self.policy.wait(PATIENCE), "a wake-up was lost"
        return taken

    def work(self, count: int) -> list[Any]:
        """What a worker handles, until it has handled so many."""
        return handled(self._queue, count)

    def __enter__(self) -> _Place:
        return self

    def __exit__(self, *_: object) -> None:
        self.policy.close()
        self._store.close()


def is_heard(policy: Any) -> bool:
    """Begin to listen, and wait until the policy is sure to be told."""
    policy.wait(0)
    deadline = time.monotonic() + PATIENCE
    while not policy.live and time.monotonic() < deadline:
        policy.wait(0.01)
    policy.clear()
    return bool(policy.live)


def handled(queue: PersistentQueue[Any], count: int) -> list[Any]:
    """What a worker of a queue handles, until it has handled so many."""
    seen: list[Any] = []

    def handle(item: Any) -> None:
        seen.append(item)
        if len(seen) >= count:
            worker.stop()

    worker = Worker(queue, handle)
    too_long = threading.Timer(PATIENCE, worker.stop)
    too_long.start()
    worker.run(signals=False)
    too_long.cancel()
    too_long.join()
    return sorted(seen)
