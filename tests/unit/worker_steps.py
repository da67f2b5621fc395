"""What the tests of workers share: stores, a worker in a thread, waiting for what should happen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from localqueue import PersistentQueue
from localqueue.contracts import FakeClock
from localqueue.contracts.steps import PATIENCE
from localqueue.stores.port import QueueStore
from localqueue.workers import Settled, Worker
from tests.stores import OPENERS, new_place

STORES = tuple(OPENERS)


def open_store(kind: str, path: Path, **options: Any) -> QueueStore:
    store: QueueStore = new_place(kind, path).open(**options)
    return store


def eventually(condition: Callable[[], Any]) -> Any:
    """What `condition` returns as soon as that is true."""
    deadline = time.monotonic() + 3 * PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)
    return found


def is_leased_anew(queue: PersistentQueue[Any], message_id: str, clock: FakeClock) -> bool:
    """Whether a message's lease was renewed since the clock of its store was moved last.

    The clock stands still meanwhile, so that no lease runs out because the machine is slow.
    """
    message = queue.inspect(message_id)
    until = None if message is None else message.leased_until
    return until is not None and until > clock() + 0.95 * queue.lease_timeout


class Running:
    """A worker that runs in a thread until the block ends."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:
            self.error = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def join(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the worker does not stop"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self.worker.stop()
        self.join()
        if kind is None and self.error is not None:
            raise self.error


class Log:
    """Keeps what `on_settled` is told."""

    def __init__(self) -> None:
        self.settled: list[Settled] = []

    def __call__(self, settled: Settled) -> None:
        self.settled.append(settled)

    @property
    def states(self) -> list[str]:
        return [one.state for one in self.settled]


class Gate:
    """A handler that says that it runs and waits until it may go on."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.seen: list[Any] = []
        self._open = threading.Event()

    def __call__(self, value: Any) -> Any:
        self.seen.append(value)
        self.entered.release()
        assert self._open.wait(PATIENCE)
        return value

    def wait_for_entry(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.entered.acquire(timeout=PATIENCE), "the handler was not called"

    def open(self) -> None:
        self._open.set()
