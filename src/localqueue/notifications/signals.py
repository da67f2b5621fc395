"""Waking the processes of one host by a Unix signal: for programs that have a handler and no thread to spare."""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Iterable
from typing import Any

from localqueue.notifications.places import Places, key_of
from localqueue.notifications.port import CATCH_UP, CrossProcessNotification
from localqueue.notifications.process import Entry, Process, leave, signal_entered
from localqueue.notifications.trap import Trap, name_of


class SignalNotification(CrossProcessNotification):
    """Sends a signal to every process of this user on this host that listens to the message's queue.

    A process that listens installs a handler, which calls the one that was there before, and enters itself with its
    pid and start time for each queue. `notify` signals only processes that are entered, are still the same and have a
    handler: the default action of the signal would end them. Entries of dead processes are removed by whoever finds
    them. With `pids` those processes are signalled instead, under the same conditions.

    Python allows only the main thread to install a handler: the first `attach` or `wait` must happen there, or
    `install` before it. A signal names no queue, so a process that listens to several looks into all of them; and it
    can not be sent for later, so a delayed message is found by looking. The handler stays until `close`, which belongs
    in the main thread, too.
    """

    kind = "signal"
    scope = "host"

    def __init__(
        self,
        signum: int = getattr(signal, "SIGUSR1", 0),
        queue: str | None = None,
        *,
        channel: str = "",
        directory: str | os.PathLike[str] | None = None,
        pids: Iterable[int] | None = None,
        catch_up: float = CATCH_UP,
    ) -> None:
        if not sys.platform.startswith("linux"):
            raise OSError(
                "SignalNotification needs Linux, which can tell a process from a later one with its pid; "
                "use SocketNotification"
            )
        super().__init__(queue, catch_up=catch_up)
        if pids is not None and directory is not None:
            raise ValueError("pids and directory are two ways to find listeners; give one of them")
        self.signum = check_signal(signum)
        self.channel = channel
        self._places = Places(directory, "signals")
        self._given = None if pids is None else tuple(Process.running(pid) for pid in pids)
        self._trap: Trap | None = None
        self._entry: Entry | None = None
        self._entered: set[bytes] = set()

    @property
    def directory(self) -> str:
        """Where this one enters itself."""
        return self._places.home

    @property
    def live(self) -> bool:
        return self._trap is not None and self._trap.is_set and bool(self._entered)

    def install(self) -> None:
        """Install the handler now, in the main thread; where it is installed this does nothing."""
        with self._lock:
            if self._trap is None:
                self._trap = Trap.join(self.signum, self)

    def send(self, queue: str | None, delay: float) -> None:
        if delay > 0:
            return
        for trap in Trap._set.copy().values():
            trap.tell_others(self, queue)
        if self._given is not None:
            for process in self._given:
                if process.pid != os.getpid():
                    process.send(self.signum)
            return
        told = set()
        for key in dict.fromkeys((key_of(self.channel, queue), key_of(self.channel, None))):
            for place, name in self._places.listeners(key):
                entry = Entry.named(name)
                if entry.process.pid == os.getpid() or entry[:2] in told:
                    continue
                if signal_entered(self._places.entry(place, key, name), entry):
                    told.add(entry[:2])
                else:
                    self._places.leave(place, key, name)

    def listen(self, queues: frozenset[str | None]) -> None:
        wanted = {key_of(self.channel, queue) for queue in queues}
        if wanted - self._entered:
            self.install()
            place = self._places.make()
            if self._entry is None:
                self._entry = Entry(Process.running(os.getpid()), self.signum, secrets.token_hex(4))
            for key in wanted - self._entered:
                self._places.enter(place, key, self._entry.name)
                self._entered.add(key)
        for key in self._entered - wanted:
            assert self._entry is not None
            leave(self._places.entry(self.directory, key, self._entry.name))
            self._places.leave(self.directory, key, self._entry.name)
            self._entered.discard(key)

    def close(self) -> None:
        super().close()
        with self._lock:
            trap, self._trap = self._trap, None
            if trap is not None:
                trap.leave(self)

    def abandon(self) -> None:
        self._entry = None
        self._entered = set()

    def details(self) -> dict[str, Any]:
        return {"signal": name_of(self.signum), "channel": self.channel, "directory": self.directory}


def check_signal(signum: int) -> int:
    """Refuse a signal that means something else to the system or to Python."""
    usable = {signal.SIGUSR1, signal.SIGUSR2, *range(signal.SIGRTMIN, signal.SIGRTMAX + 1)}
    if isinstance(signum, bool) or not isinstance(signum, int) or signum not in usable:
        raise ValueError(
            f"{name_of(signum)} can not be used to wake a process: it means something else to the system or can not be "
            "caught; use SIGUSR1, SIGUSR2 or one from SIGRTMIN to SIGRTMAX"
        )
    return int(signum)
