"""The socket on which a process hears for all its queues, and the thread that reads it."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from localqueue.notifications.places import Places
from localqueue.notifications.post import ENTRY, NOTICE, SOCKET, bury, entry_of, home_of, is_dead, socket_of

if TYPE_CHECKING:
    from localqueue.notifications.sockets import SocketNotification

_log = logging.getLogger("localqueue")

_MEND_EVERY = 30.0  # seconds after which a process sees to it that it can still be found
_AFTER_AN_ERROR = 1.0
_LONGEST_PATH = 103  # bytes of the path of a socket: what the smallest of the systems allows


class Target(NamedTuple):
    """A policy that listens to a queue."""

    policy: SocketNotification
    queue: str


class Ear:
    """One for each place in a process, shared by all who listen there. The thread ends with the last of them."""

    _ears: ClassVar[dict[str, Ear]] = {}
    _sharing: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, places: Places) -> None:
        self._places = places
        self._place = places.make()
        self._lock = threading.Lock()
        self._users = 0
        self._targets: dict[bytes, frozenset[Target]] = {}
        self._stopped = threading.Event()
        self._name, self._socket = self._bind()
        self._sweep()
        self._thread = threading.Thread(target=self._run, name="localqueue-ear", daemon=True)
        self._thread.start()

    @classmethod
    def share(cls, places: Places) -> Ear:
        """The ear of this process at a place; each `share` wants a `release`."""
        with cls._sharing:
            found = cls._ears.get(places.home)
            if found is None:
                found = cls._ears[places.home] = cls(places)
            found._users += 1
            return found

    def release(self) -> None:
        with Ear._sharing:
            self._users -= 1
            if self._users:
                return
            Ear._ears.pop(self._place, None)
        self._stopped.set()
        self._nudge()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._socket.close()
        self.leave()

    @property
    def hears(self) -> bool:
        return self._thread.is_alive()

    def add(self, key: bytes, target: Target) -> None:
        """Tell a target of what is sent under a key, from when this returns."""
        with self._lock:
            self._targets[key] = self._targets.get(key, frozenset()) | {target}
            self._enter(key)

    def remove(self, key: bytes, target: Target) -> None:
        with self._lock:
            left = self._targets.get(key, frozenset()) - {target}
            if left:
                self._targets[key] = left
            else:
                self._targets.pop(key, None)
                self._places.leave(self._place, key, self._name)

    def tell(self, key: bytes, every: bytes, delay: float, apart_from: SocketNotification | None = None) -> None:
        """Tell each policy once: by the name of the queue if it listens to that, and else as one of every queue."""
        told = {apart_from}
        for target in (*self._targets.get(key, ()), *self._targets.get(every, ())):
            if target.policy not in told:
                told.add(target.policy)
                target.policy.tell(target.queue, delay)

    def mend(self) -> None:
        """See to it that producers find this process, also when somebody has tidied up."""
        with self._lock:
            if not os.path.exists(socket_of(self._place, self._name)):
                _log.warning("the socket of this process in %s was removed; making another", self._place)
                self._places.make()
                before, old = self._name, self._socket
                self._name, self._socket = self._bind()
                for key in self._targets:
                    self._places.leave(self._place, key, before)
                old.close()
            with suppress(OSError):  # what sweeps old files leaves these alone
                os.utime(entry_of(self._place, self._name))
                os.utime(home_of(self._place, self._name))
            for key in self._targets:
                self._enter(key)

    def leave(self) -> None:
        """Remove all traces of this process."""
        for key in list(self._targets):
            self._places.leave(self._place, key, self._name)
        bury(self._place, self._name)

    def forget_parent(self) -> None:
        self._socket.close()

    def _enter(self, key: bytes) -> None:
        self._places.enter(self._place, key, self._name, like=entry_of(self._place, self._name))

    def _bind(self) -> tuple[str, socket.socket]:
        name = f"{os.getpid():x}-{secrets.token_hex(4)}"
        path = socket_of(self._place, name)
        if len(os.fsencode(path)) > _LONGEST_PATH:
            longest = _LONGEST_PATH - len(os.fsencode(path)) + len(os.fsencode(self._place))
            raise ValueError(
                f"the directory {self._place} is too long for a socket in it: its name can have {longest} bytes; "
                "give a shorter one as directory="
            )
        os.makedirs(home_of(self._place, name), 0o700)
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            os.close(os.open(entry_of(self._place, name), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            bound.bind(path)
            # A plain blocking read that ends after a while costs one call into the system, a timeout of Python's two.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(_MEND_EVERY))
        except BaseException:
            bound.close()
            bury(self._place, name)
            raise
        return name, bound

    def _sweep(self) -> None:
        """Remove what processes have left that died."""
        with suppress(OSError):
            names = os.listdir(f"{self._place}/p")
            dead = {name for name in names if name != self._name and is_dead(self._place, name)}
            if dead:
                self._places.strike(self._place, dead)
                for name in dead:
                    bury(self._place, name)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                notice = self._socket.recv(64)
            except BlockingIOError:
                self._try_to_mend()
                continue
            except OSError as error:
                _log.warning("the socket that hears of other processes failed, trying again: %s", error)
                self._stopped.wait(_AFTER_AN_ERROR)
                continue
            self._take(notice)
            self._drain()

    def _drain(self) -> None:
        """Read what is left; when that was more than one, somebody may have found no room and left a note."""
        several = False
        with suppress(BlockingIOError):
            while not self._stopped.is_set():
                self._take(self._socket.recv(64, socket.MSG_DONTWAIT))
                several = True
        if several:
            self._take_notes()

    def _take(self, notice: bytes) -> None:
        if len(notice) == NOTICE.size:
            try:
                self.tell(*NOTICE.unpack(notice))
            except Exception:
                _log.exception("a waiter could not be told")

    def _take_notes(self) -> None:
        home = home_of(self._place, self._name)
        with suppress(OSError):
            for note in os.listdir(home):
                if note not in (SOCKET, ENTRY):
                    os.unlink(f"{home}/{note}")
                    key = bytes.fromhex(note)
                    # Which channel it is on is not known here, so those of every queue are told, too.
                    for target in [one for ones in self._targets.copy().values() for one in ones if not one.queue]:
                        target.policy.tell("")
                    self.tell(key, key, 0.0)

    def _try_to_mend(self) -> None:
        try:
            self.mend()
        except Exception as error:
            _log.warning("this process may not hear of others: %s", error)

    def _nudge(self) -> None:
        """End the read that runs. A socket that has no room for this has something to read."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
            sender.setblocking(False)
            sender.sendto(b"", self._socket.getsockname())


def _timeval(seconds: float) -> bytes:
    return struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))


def own_names() -> set[str]:
    """Under which names this process listens."""
    return {ear._name for ear in Ear._ears.copy().values()}


def tell_process(key: bytes, every: bytes, delay: float, *, apart_from: SocketNotification) -> None:
    """Tell the other policies of this process without a detour over its socket."""
    for ear in Ear._ears.copy().values():
        ear.tell(key, every, delay, apart_from)


@atexit.register
def _leave() -> None:
    """A process that ends without a word to its policies is not sent to any more."""
    for ear in Ear._ears.copy().values():
        ear.leave()


def _in_child() -> None:
    """The child has its parent's sockets, which it must not read, and not the threads."""
    Ear._sharing = threading.Lock()
    for ear in Ear._ears.values():
        ear.forget_parent()
    Ear._ears.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
