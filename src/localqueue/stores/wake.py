"""Waking blocked callers.

A commit in this process wakes the threads that wait on its queues at once. Those of other processes are told by the
server, or else seen through a version of the store that changes with each of them and is cheap to read; of all threads
that wait, one polls it.

Who may not block, as a coroutine, hangs up a bell instead: a function that is called, by whichever thread, when there
may be something to look at. While bells hang and there is a version to poll, one thread of the store's polls it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import TracebackType
from typing import Self

from localqueue._named_tuple import NamedTuple
from localqueue.stores import rules
from localqueue.stores.port import RecordWrite

_POLL = 0.006
_CATCH_UP = 0.5  # bounds how late a jump of the clock, or a wake-up that was lost, is noticed
_LINGER = 1.0  # seconds that the thread which polls for bells stays when none is left: most come back

Bell = Callable[[], None]


class RecordName(NamedTuple):
    """A record that is waited for, beside queues, which are known by their names."""

    kind: str
    key: str


def told_records(writes: Iterable[RecordWrite]) -> set[RecordName]:
    """The records of a commit that those are woken for who wait."""
    return {RecordName(write.kind, write.key) for write in writes if write.tell}


class Wake:
    """Tells when something in the queues that are waited for changed.

    `version` reads, for those queues, something that differs after another process changed them; it may differ more
    often. It is None for a store that only this process can change, or one whose server tells of changes (see
    `listener.py`). `catch_up` says how long a wait may last at most before the store is looked at again.
    """

    def __init__(
        self,
        version: Callable[[Iterable[Hashable]], Hashable] | None,
        catch_up: Callable[[], float] = lambda: _CATCH_UP,
    ) -> None:
        self._version = version
        self.catch_up = catch_up
        self._condition = threading.Condition()
        self._generation = 0  # counts what happened
        self._stirred = 0  # when everybody was to look, and when something changed that is waited for
        self._changed: dict[Hashable, int] = {}
        self._seen: Hashable = None
        self._polling = False
        self._waited: Counter[Hashable] = Counter()
        self._told: dict[Hashable, int] = {}
        self._bells: dict[object, tuple[Bell, frozenset[Hashable]]] = {}
        self._poller: threading.Thread | None = None

    def touched(self, queues: Iterable[Hashable]) -> None:
        """A commit of this process changed these queues."""
        if self._waited and (changed := [name for name in queues if name in self._waited]):
            with self._condition:
                self._note(changed)

    def wrote(self, writes: Sequence[RecordWrite]) -> None:
        """A commit of this process wrote these records."""
        if writes and self._waited:
            self.touched(told_records(writes))

    def told(self, queues: Iterable[Hashable]) -> None:
        """The server said that another process changed these queues."""
        with self._condition:
            waited = [name for name in queues if name in self._waited]
            if waited:
                self._note(waited)
                self._told.update(dict.fromkeys(waited, self._generation))

    def told_since(self, generation: int, queues: Iterable[Hashable]) -> bool:
        return any(self._told.get(name, 0) > generation for name in queues)

    def _note(self, names: Sequence[Hashable]) -> None:
        self._generation += 1
        self._changed.update(dict.fromkeys(names, self._generation))
        self._condition.notify_all()
        self._ring(names)

    def stir(self) -> None:
        """Have everybody who waits look again."""
        with self._condition:
            self._stir()

    def _stir(self) -> None:
        self._generation += 1
        self._stirred = self._generation
        self._condition.notify_all()
        self._ring()

    def watch(self, queues: Sequence[Hashable], by: int) -> None:
        with self._condition:
            for name in queues:
                self._waited[name] += by
                if not self._waited[name]:
                    del self._waited[name]
                    self._told.pop(name, None)
                    self._changed.pop(name, None)

    def has_changed(self, generation: int, queues: Iterable[Hashable]) -> bool:
        return any(self._changed.get(name, 0) > generation for name in queues)

    def has_happened(self, generation: int) -> bool:
        return self._generation > generation

    def nudge(self) -> None:
        """Have those who wait see whether their wait was ended."""
        with self._condition:
            self._condition.notify_all()

    def generation(self) -> int:
        with self._condition:
            self._poll()
            return self._generation

    def wait_for_change(self, generation: int, timeout: float, ended: Callable[[int], bool]) -> None:
        """Until `ended` says so of what happened since, or everybody is to look."""
        deadline = time.monotonic() + timeout
        polled = False
        with self._condition:
            try:
                while self._stirred <= generation and not ended(generation):
                    remaining = deadline - time.monotonic()
                    if remaining <= 0:
                        break
                    if self._version is None or (self._polling and not polled):
                        self._condition.wait(remaining)
                        continue
                    self._polling = polled = True
                    self._condition.wait(min(_POLL, remaining))
                    self._poll()
            finally:
                if polled:
                    self._polling = False
                    self._condition.notify()

    def _poll(self) -> bool:
        if self._version is None:
            return False
        version = self._version(self._waited)
        if version == self._seen:
            return False
        self._seen = version
        self._stir()
        return True

    def hang(self, hook: object, bell: Bell, queues: Iterable[Hashable]) -> None:
        """Call `bell` when one of the queues, which are watched, may have changed, until it is taken off its hook."""
        with self._condition:
            self._bells[hook] = bell, frozenset(queues)
            if self._version is None:
                return
            if self._poller is not None and self._poller.is_alive():
                self._condition.notify_all()
                return
            self._poller = threading.Thread(target=self._poll_for_bells, name="localqueue-wake", daemon=True)
            self._poller.start()

    def take_off(self, hook: object) -> None:
        with self._condition:
            self._bells.pop(hook, None)

    def _ring(self, queues: Iterable[Hashable] | None = None) -> None:
        for bell, wanted in self._bells.values():
            if queues is None or not wanted.isdisjoint(queues):
                bell()

    def _poll_for_bells(self) -> None:
        while True:
            with self._condition:
                if not self._condition.wait_for(lambda: self._bells, _LINGER):
                    self._poller = None
                    return
                generation = self._generation
            try:
                self.wait_for_change(generation, _CATCH_UP, self.has_happened)
            except Exception:  # such as that the store is closed: those who look are told
                self.stir()
                with self._condition:
                    self._condition.wait(_CATCH_UP)


def heed(clock: object, look_again: Callable[[], object]) -> None:
    """Have somebody who waits look again when the clock is moved, if it is one that says so: that of a test."""
    on_move = getattr(clock, "on_move", None)
    if on_move is not None:
        on_move(look_again)


def change_of(look: Callable[[], object]) -> Callable[[], tuple[bool, float]]:
    """A check that is true when `look` shows something else than it did the last time."""
    seen = look()

    def check() -> tuple[bool, float]:
        nonlocal seen
        before, seen = seen, look()
        return seen != before, rules.NEVER

    return check


class StoreWaiter:
    """Blocks until `check` says so. It returns whether to stop, and in how many seconds to look again at the latest."""

    def __init__(self, wake: Wake, queues: Sequence[Hashable], check: Callable[[], tuple[bool, float]]) -> None:
        self._wake = wake
        self._queues = queues
        self._check = check
        self._interrupted = False
        wake.watch(queues, 1)

    def wait(self, timeout: float | None = None) -> bool:
        return self._wait(timeout, trusting=False)

    def heard(self, timeout: float | None = None) -> bool:
        """What the server says is passed on without a look, which saves a round trip."""
        return self._wait(timeout, trusting=True)

    def _wait(self, timeout: float | None, *, trusting: bool) -> bool:
        deadline = rules.NEVER if timeout is None else time.monotonic() + timeout
        while True:
            generation = self._wake.generation()
            done, again = self._check()
            if done:
                return True
            remaining = deadline - time.monotonic()
            if remaining <= 0 or self._interrupted:
                self._interrupted = False
                return False
            self._wake.wait_for_change(
                generation, min(remaining, max(again, 0.0005), self._wake.catch_up()), self._is_over
            )
            if trusting and not self._interrupted and self._wake.told_since(generation, self._queues):
                return True

    def _is_over(self, generation: int) -> bool:
        return self._interrupted or self._wake.has_changed(generation, self._queues)

    def look(self) -> tuple[bool, float]:
        """What `check` says now, for one who waits for a bell; the seconds are also those after which to catch up."""
        done, again = self._check()
        return done, min(max(again, 0.0005), self._wake.catch_up())

    def ring(self, bell: Bell) -> None:
        """Have `bell` called, by any thread and as long as this is open, when there may be something to look at."""
        self._wake.hang(self, bell, self._queues)

    def interrupt(self) -> None:
        """End the wait that runs, or the next one, as if its time were up."""
        self._interrupted = True
        self._wake.nudge()

    def close(self) -> None:
        self._wake.take_off(self)
        if self._queues:
            self._wake.watch(self._queues, -1)
            self._queues = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
