"""Parts of a worker in processes of their own, for a process that has threads is not to be forked."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any

from localqueue.workers.counts import WorkerCounts
from localqueue.workers.signals import STOP_SIGNALS

log = logging.getLogger("localqueue.tasks")

_FORK = multiprocessing.get_context("fork")
_PR_SET_PDEATHSIG = 1  # of Linux
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
_LIVED_LONG_ENOUGH = 10.0

Part = Callable[[], WorkerCounts]


class Branch:
    """One part, and the process that works at it now."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.pause = _FIRST_PAUSE
        self.started = 0.0
        self.process: ForkProcess | None = None
        self.ear: Connection | None = None

    def start(self) -> None:
        self.ear, mouth = _FORK.Pipe(duplex=False)
        self.process = _FORK.Process(target=_work, args=(self.part, mouth))
        self.started = time.monotonic()
        self.process.start()
        mouth.close()

    def counts(self) -> WorkerCounts:
        """What the process said before it ended, if it did."""
        assert self.ear is not None
        with contextlib.suppress(EOFError, OSError):
            if self.ear.poll():
                return WorkerCounts(**self.ear.recv())
        return WorkerCounts()


class Branches:
    """Keeps a process at work for each part until told to stop; one that dies is started again.

    With `until_done` a part may come to its end, and the others go on to theirs.
    """

    def __init__(self, parts: Sequence[Part], *, until_done: bool = False) -> None:
        self._branches = [Branch(part) for part in parts]
        self._bell, self._rope = os.pipe()
        os.set_blocking(self._rope, False)
        self._until_done = until_done
        self._stopping = False
        self._totals = WorkerCounts()

    def run(self) -> WorkerCounts:
        try:
            for branch in self._branches:
                branch.start()
            while any(branch.process is not None for branch in self._branches):
                self._watch()
        finally:
            self._end()
            os.close(self._bell)
            os.close(self._rope)
        return self._totals

    def stop(self) -> None:
        self._stopping = True
        with contextlib.suppress(OSError):
            os.write(self._rope, b"!")

    def _watch(self) -> None:
        running: dict[Any, Branch] = {one.process.sentinel: one for one in self._branches if one.process is not None}
        ready = wait([*running, self._bell])
        if self._bell in ready:
            os.read(self._bell, 64)
            for branch in running.values():
                _signal(branch, signal.SIGTERM)
        for sentinel, branch in running.items():
            if sentinel in ready:
                self._ended(branch)

    def _ended(self, branch: Branch) -> None:
        assert branch.process is not None
        branch.process.join()
        code = branch.process.exitcode
        self._totals += branch.counts()
        branch.process = None
        if self._stopping:
            return
        if code == 0:
            if not self._until_done:  # it was told to end by somebody else: so are the others
                self.stop()
            return
        log.error("a process of the worker ended with %s and is started again", code)
        if time.monotonic() - branch.started > _LIVED_LONG_ENOUGH:
            branch.pause = _FIRST_PAUSE
        if wait([self._bell], branch.pause):
            return
        branch.pause = min(2 * branch.pause, _LONGEST_PAUSE)
        branch.start()

    def _end(self) -> None:
        for branch in self._branches:
            _signal(branch, signal.SIGKILL)
            if branch.process is not None:
                branch.process.join()


def _work(part: Part, mouth: Connection) -> None:
    os.setpgid(0, 0)  # the terminal sends Ctrl-C to all of a group; the one who started us passes it on
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    _end_with_parent()
    mouth.send(part().as_dict())
    mouth.close()


def _signal(branch: Branch, number: int) -> None:
    if branch.process is not None and branch.process.pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(branch.process.pid, number)


def _end_with_parent() -> None:
    """Be told to stop when the parent dies, where the system can: nobody else would start or stop this process."""
    with contextlib.suppress(OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
