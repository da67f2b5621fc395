"""Hearing from a server what other processes committed.

One connection listens for all stores of this process on one server. It is a thread of its own: it connects, subscribes,
hears, checks from time to time that it still hears, and connects again, with growing pauses, when it does not. A
wake-up that was lost meanwhile costs time and no message, because those who wait look again by themselves: rarely while
the listener is live, more often while it is not.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from typing import ClassVar, Protocol, TypeVar

from localqueue.stores.wake import Wake

_log = logging.getLogger("localqueue")

_HEARS = 1.0  # seconds between looks at a store while the listener is live
_DEAF = 0.1  # and while it is not
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0

L = TypeVar("L", bound="Listener")


class Hearer(Protocol):
    """Who is told of a channel: a store's `Wake`, or a notification."""

    def told(self, queues: Iterable[str]) -> None:
        """Something was said about these."""

    def stir(self) -> None:
        """Something was said about anything, or may have been while nobody heard."""


class Listener(ABC):
    """Subclasses say how to connect, subscribe, hear and probe. Only the listener's own thread calls those methods,
    apart from `nudge`, which ends a `hear` that is waiting."""

    #: seconds without a word after which the connection is probed
    quiet: ClassVar[float] = 5.0

    _shared: ClassVar[dict[Hashable, Listener]] = {}
    _sharing: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakes: dict[str, set[Hearer]] = {}
        self._wanted = threading.Event()  # set when the set of channels changed
        self._live = threading.Event()
        self._stopped = threading.Event()
        self._users = 0
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    # what a kind of server fills in

    @abstractmethod
    def connect(self) -> None: ...

    @abstractmethod
    def subscribe(self, channels: Iterable[str]) -> None:
        """Listen to exactly these channels from now on; returns when the server has confirmed it."""

    @abstractmethod
    def hear(self, timeout: float) -> list[tuple[str, list[str] | None]]:
        """Channels something was said on, with the queues it was about or None for any; empty after `timeout`."""

    @abstractmethod
    def probe(self) -> None:
        """Have the server answer, over the listening connection; raises when it does not within a few seconds."""

    @abstractmethod
    def disconnect(self) -> None:
        """Close the connection, whatever state it is in; raises nothing."""

    @abstractmethod
    def nudge(self) -> None:
        """End a `hear` that is waiting, so that a new channel is subscribed at once."""

    @abstractmethod
    def abandon(self) -> None:
        """In the child of a fork: let go of the parent's connection, without a word to the server."""

    def mask(self, text: str) -> str:
        """What was said by an error, without a secret that the driver has repeated."""
        return text

    # what a store uses

    @classmethod
    def share(cls: type[L], key: Hashable, make: Callable[[], L]) -> L:
        """The listener of this process for one server; each `share` wants a `release`."""
        with Listener._sharing:
            found = Listener._shared.get(key)
            if found is None or found._pid != os.getpid():
                found = Listener._shared[key] = make()
            found._users += 1
            assert isinstance(found, cls)
            return found

    def release(self) -> None:
        with Listener._sharing:
            self._users -= 1
            if self._users or self._pid != os.getpid():
                return
            for key, found in list(Listener._shared.items()):
                if found is self:
                    del Listener._shared[key]
        self._stopped.set()
        self.nudge()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5.0)

    def add(self, channel: str, wake: Hearer, *, patience: float = 2.0) -> None:
        """Stir `wake` when something is said on the channel. Returns when the server will tell, or else after
        `patience`: until then those who wait look more often."""
        with self._lock:
            self._wakes.setdefault(channel, set()).add(wake)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="localqueue-listener", daemon=True)
                self._thread.start()
            self._live.clear()
            self._wanted.set()
        self.nudge()
        self._live.wait(patience)

    def remove(self, channel: str, wake: Hearer) -> None:
        with self._lock:
            wakes = self._wakes.get(channel, set())
            wakes.discard(wake)
            if not wakes:
                self._wakes.pop(channel, None)
            self._wanted.set()
        self.nudge()

    @property
    def live(self) -> bool:
        """Whether the server tells this process of changes right now."""
        return self._live.is_set()

    def catch_up(self) -> float:
        """How long to wait at most before looking at the store without having heard anything."""
        return _HEARS if self._live.is_set() else _DEAF

    # the thread

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopped.is_set():
            try:
                self.connect()
                self._wanted.set()
                while not self._stopped.is_set():
                    self._listen()
                    pause = _FIRST_PAUSE
            except Exception as error:
                self._live.clear()
                if not self._stopped.is_set():
                    _log.warning(
                        "lost the connection that hears of changes (%s); connecting again", self.mask(str(error))
                    )
            finally:
                self.disconnect()
            self._stopped.wait(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _listen(self) -> None:
        if self._wanted.is_set():
            with self._lock:
                self._wanted.clear()
                channels = list(self._wakes)
            self.subscribe(channels)
            with self._lock:
                if not self._wanted.is_set():
                    self._live.set()
            self._stir(channels)  # for what was said while nobody heard
        since = time.monotonic()
        heard = self.hear(self.quiet)
        for channel, queues in heard:
            self._tell(channel, queues)
        if not heard and time.monotonic() - since >= self.quiet:
            self.probe()

    def _tell(self, channel: str, queues: list[str] | None) -> None:
        with self._lock:
            wakes = list(self._wakes.get(channel, ()))
        for wake in wakes:
            if queues is None:
                wake.stir()
            else:
                wake.told(queues)

    def _stir(self, channels: Iterable[str]) -> None:
        for channel in channels:
            self._tell(channel, None)


class Ear:
    """A store's part in the listener of its process: begins with the first who waits, and wakes those who do.

    `join` has the listener be shared; it says None where nothing can be heard, and those who wait look often.
    """

    def __init__(self, channel: str, join: Callable[[], Listener | None]) -> None:
        self._channel = channel
        self._join = join
        self._lock = threading.Lock()
        self._listener: Listener | None = None
        self._closed = False
        self.wake = Wake(None, catch_up=self._catch_up)

    def open(self) -> Wake:
        """Returns when the server tells of changes, or else soon: what is committed after that is heard."""
        if self._listener is None:
            with self._lock:
                if self._listener is None and not self._closed:
                    listener = self._join()
                    if listener is not None:
                        listener.add(self._channel, self.wake)
                        self._listener = listener
        return self.wake

    def _catch_up(self) -> float:
        listener = self._listener
        return _DEAF if listener is None else listener.catch_up()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.remove(self._channel, self.wake)
            listener.release()
        self.wake.stir()

    def abandon(self) -> None:
        """In the child of a fork, which has no thread that listens: let go of the parent's connection."""
        if self._listener is not None:
            self._listener.abandon()


_of_the_parent: list[Listener] = []  # kept, because to let go of a connection could mean to say goodbye on it


def _in_child() -> None:
    """A fork copies neither the threads nor the right to their connections; the lock may have been held."""
    Listener._sharing = threading.Lock()
    _of_the_parent.extend(Listener._shared.values())
    Listener._shared.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
