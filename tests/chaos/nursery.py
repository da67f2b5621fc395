"""A process that has imported everything and forks a child for each job, so that one starts in a millisecond.

It reads a line for each job and writes a line when a child was born and when it is gone. Children die with it, and it
ends when nobody is left to tell it anything. With a disk of its own it mounts that first, for itself and its children;
permissions bind it from then on, also if it is root.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]

_PR_SET_PDEATHSIG = 1

#: How long the nursery takes to import everything, at the very most.
_STARTS_WITHIN = 120.0


@dataclass
class Child:
    """A process that does a job. `on_ready` is called when it says that it has begun; `status` is what `waitpid` said
    of it, None while it lives."""

    number: int
    job: str
    on_ready: Callable[[], None] | None = None
    pid: int | None = None
    status: int | None = None

    @property
    def signal(self) -> int:
        """The signal that it died of, 0 if it did not."""
        return os.WTERMSIG(self.status) if self.status is not None and os.WIFSIGNALED(self.status) else 0

    def send(self, what: signal.Signals) -> bool:
        """Send a signal, if it is still there."""
        if self.pid is None or self.status is not None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, what)
            return True
        return False


class Nursery:
    """The other end of it."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.nursery", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})},
            start_new_session=True,
        )
        self.children: dict[int, Child] = {}
        self._count = 0
        self._rest = b""
        self._lines: deque[dict[str, Any]] = deque()
        self.has_disk = bool(self._next(time.monotonic() + _STARTS_WITHIN)["disk"])

    def hire(self, job: str, *, on_ready: Callable[[], None] | None = None, **arguments: Any) -> Child:
        """Have a child do a job; it is born a little later."""
        assert self._process.stdin is not None
        self._count += 1
        child = self.children[self._count] = Child(self._count, job, on_ready)
        order = {"number": child.number, "job": job, "arguments": arguments}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return child

    def look(self, timeout: float) -> list[Child]:
        """Who has gone since the last look; waits for one to go for no longer than `timeout`."""
        gone: list[Child] = []
        deadline = time.monotonic() + timeout
        while (line := self._heard(0.0 if gone else max(deadline - time.monotonic(), 0.0))) is not None:
            child = self.children[line["number"]]
            child.pid = line["pid"]
            if "ready" in line and child.on_ready is not None:
                child.on_ready()
            if "status" in line:
                child.status = line["status"]
                gone.append(self.children.pop(child.number))
        return gone

    def _next(self, deadline: float) -> dict[str, Any]:
        while (line := self._heard(1.0)) is None:
            assert time.monotonic() < deadline, "the nursery does not start"
        return line

    def _heard(self, timeout: float) -> dict[str, Any] | None:
        out = self._process.stdout
        assert out is not None
        while not self._lines:
            if not select.select([out], [], [], timeout)[0]:
                return None
            some = os.read(out.fileno(), 1 << 16)
            if not some:
                raise RuntimeError(f"the nursery ended with {self._process.wait(10)}")
            *lines, self._rest = (self._rest + some).split(b"\n")
            self._lines += map(json.loads, lines)
        return self._lines.popleft()

    def close(self) -> None:
        """End it, and its children with it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
        if self._process.stdout is not None:
            self._process.stdout.close()


# the nursery itself


def _tell(where: int = 1, **line: Any) -> None:
    os.write(where, json.dumps(line).encode() + b"\n")


def _fork(order: dict[str, Any], job: Callable[..., None]) -> int:
    pid = os.fork()
    if pid:
        _tell(number=order["number"], pid=pid)
        return pid
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # also when the nursery itself is killed
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    teller = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    status = 1
    try:
        job(lambda: _tell(teller, number=order["number"], pid=os.getpid(), ready=True), **order["arguments"])
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
    return 0


def _reap(numbers: dict[int, int]) -> None:
    while numbers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        _tell(number=numbers.pop(pid), pid=pid, status=status)


def main(disk: str | None = None, size: str = "0", *_: str) -> None:
    from tests.chaos import jobs
    from tests.chaos.backlog import stack, unstack
    from tests.chaos.soak import steady
    from tests.disks import mount_small_disk
    from tests.processes import obey_permissions

    known = {**jobs.JOBS, **{job.__name__: job for job in (stack, unstack, steady)}}
    jobs.warm_up()
    has_disk = disk is not None and mount_small_disk(disk, size)
    if disk is not None:
        obey_permissions()
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    _tell(disk=has_disk)
    numbers: dict[int, int] = {}
    rest = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 1 << 12)
            _reap(numbers)
        if 0 in ready:
            some = os.read(0, 1 << 16)
            if not some:
                break
            *lines, rest = (rest + some).split(b"\n")
            for line in lines:
                order = json.loads(line)
                numbers[_fork(order, known[order["job"]])] = order["number"]
    for pid in numbers:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
