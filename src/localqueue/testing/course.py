"""The course of a drain: which worker is next, what became of the messages, and when it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from localqueue.queue import PersistentQueue
from localqueue.stores.port import DELAYED
from localqueue.testing.clock import Clock, clock_of
from localqueue.workers.outcome import Settled


class Drainer(Protocol):
    """A worker that a drain has run until nothing is ready."""

    queue: PersistentQueue[Any]

    def stop(self) -> None: ...


W = TypeVar("W", bound=Drainer)


class Course:
    """`note` is told of each message that a worker has settled."""

    def __init__(self, *, with_delayed: bool, raising: bool, most: int) -> None:
        self.settled: list[Settled] = []
        self._with_delayed = with_delayed
        self._raising = raising
        self._most = most
        self._stop: Callable[[], object] = lambda: None
        self._failure: BaseException | None = None
        self._is_over = False

    def note(self, one: Settled) -> None:
        if self._is_over:
            return  # it was given back without having been started
        self.settled.append(one)
        if self._raising:
            self._failure = one.error
        if self._failure is not None or len(self.settled) >= self._most:
            self._is_over = True
            self._stop()

    def rounds(self, workers: Sequence[W]) -> Iterator[W]:
        """The worker to run next, until none of them finds anything, nor could if the clock were moved."""
        queues = [worker.queue for worker in workers]
        clock = clock_of(queues[0].store) if self._with_delayed and queues else None
        while True:
            yield from self._round(workers)
            due = None if clock is None else _next_due(queues, clock)
            if self._is_over:
                self._require_drained(queues, due)
            if clock is None or due is None:
                return
            clock.move_to(due)

    def _round(self, workers: Sequence[W]) -> Iterator[W]:
        """Each worker, and again when one of them has done something: it may have put a message for another."""
        while True:
            before = len(self.settled)
            for worker in workers:
                self._stop = worker.stop
                yield worker
                if self._ends():
                    return
            if len(workers) == 1 or len(self.settled) == before:
                return

    def _ends(self) -> bool:
        if self._failure is not None:
            raise self._failure
        return self._is_over

    def _require_drained(self, queues: Sequence[PersistentQueue[Any]], due: float | None) -> None:
        names = [repr(queue.name) for queue in queues if due is not None or not queue.empty()]
        if names:
            raise AssertionError(
                f"queue {', '.join(names)} is not drained after {self._most} messages: does a handler put another one "
                "for each? Let it end, or say most="
            )


def _next_due(queues: Sequence[PersistentQueue[Any]], clock: Clock) -> float | None:
    now = clock()
    times = (message.available_at for queue in queues for message in queue.messages(state=DELAYED))
    return min((at for at in times if at > now), default=None)
