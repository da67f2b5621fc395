"""Waking the processes of one host over Unix datagram sockets: no daemon, and nothing to configure."""

from __future__ import annotations

import os
import socket

from localqueue.notifications.ear import Ear, Target, own_names, tell_process
from localqueue.notifications.places import Places, key_of
from localqueue.notifications.port import CATCH_UP, CrossProcessNotification
from localqueue.notifications.post import post


class SocketNotification(CrossProcessNotification):
    """Wakes the listeners of a queue in all processes of this user on this host.

    A process that listens binds one socket, however many queues and policies listen, and enters itself for each queue
    in a directory that only its user can write to: below `XDG_RUNTIME_DIR` or the temporary directory, or `directory`.
    `notify` sends a datagram of 40 bytes to each listener of the message's queue. It never blocks: one that does not
    read has been told already, and one whose process is dead is removed by whoever finds it. A delayed message is told
    of with its delay, and wakes nobody before it is due.

    Queues of one name in different stores wake each other's listeners, who then look in vain. Give each store a
    `channel` of its own where that matters.
    """

    kind = "socket"
    scope = "host"

    def __init__(
        self,
        queue: str | None = None,
        *,
        channel: str = "",
        directory: str | os.PathLike[str] | None = None,
        catch_up: float = CATCH_UP,
    ) -> None:
        if not hasattr(socket, "AF_UNIX") or not hasattr(os, "getuid"):
            raise OSError("SocketNotification needs Unix sockets, which this system has not; use a network adapter")
        super().__init__(queue, catch_up=catch_up)
        self.channel = channel
        self._places = Places(directory, "sockets")
        self._ear: Ear | None = None
        self._listened: set[str | None] = set()

    @property
    def directory(self) -> str:
        """Where this one listens."""
        return self._places.home

    @property
    def live(self) -> bool:
        ear = self._ear
        return ear is not None and ear.hears

    def send(self, queue: str | None, delay: float) -> None:
        key, every = key_of(self.channel, queue), key_of(self.channel, None)
        tell_process(key, every, delay, apart_from=self)
        post(self._places, key, every, delay, apart_from=own_names())

    def listen(self, queues: frozenset[str | None]) -> None:
        if self._ear is None:
            if not queues:
                return
            self._ear = Ear.share(self._places)
        ear = self._ear
        for queue in queues - self._listened:
            ear.add(key_of(self.channel, queue), self._target(queue))
            self._listened.add(queue)
        for queue in self._listened - queues:
            ear.remove(key_of(self.channel, queue), self._target(queue))
            self._listened.discard(queue)
        if not queues:
            self._ear = None
            ear.release()

    def _target(self, queue: str | None) -> Target:
        # "" is the name of no queue: only those who listen to every queue are told.
        return Target(self, queue or "")

    def abandon(self) -> None:
        self._ear = None
        self._listened = set()

    def details(self) -> dict[str, str]:
        return {"channel": self.channel, "directory": self.directory}
