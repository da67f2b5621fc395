"""Sending a wake-up to the sockets of other processes, without ever waiting for one of them."""

from __future__ import annotations

import atexit
import errno
import os
import socket
import struct
import threading
import time
from collections.abc import Collection
from contextlib import suppress

from localqueue.notifications.places import Places

#: the key of a queue, that of every queue on its channel, and in how many seconds to look
NOTICE = struct.Struct("=16s16sd")

SOCKET, ENTRY = "s", "e"

_DEAD = frozenset({errno.ECONNREFUSED, errno.ENOENT, errno.ENOTSOCK, errno.ECONNRESET, errno.ENOTDIR})
_FULL = frozenset({errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM})

_IN_THE_MAKING = 60.0  # seconds in which a process binds its socket for sure

_sender: socket.socket | None = None
_lock = threading.Lock()


def home_of(place: str, name: str) -> str:
    """The directory of one listening process: its socket, and what could not be sent to it."""
    return f"{place}/p/{name}"


def socket_of(place: str, name: str) -> str:
    return f"{home_of(place, name)}/{SOCKET}"


def entry_of(place: str, name: str) -> str:
    """The file that the process is entered with for each queue."""
    return f"{home_of(place, name)}/{ENTRY}"


def post(places: Places, key: bytes, every: bytes, delay: float, *, apart_from: Collection[str]) -> None:
    """Send to the listeners of a queue and to those of every queue, apart from some names."""
    listeners = places.listeners(key)
    if every != key:
        listeners += places.listeners(every)
    if not listeners:
        return
    notice = NOTICE.pack(key, every, delay)
    sent = set()
    for place, name in listeners:
        if name in apart_from or (place, name) in sent:
            continue
        sent.add((place, name))
        problem = _send(notice, socket_of(place, name))
        if problem in _FULL:
            _leave_note(place, name, key, notice)
        elif problem in _DEAD:
            bury(place, name)
            places.leave(place, key, name)
            places.leave(place, every, name)


def _send(notice: bytes, path: str) -> int:
    """0, or what went wrong."""
    try:
        (_sender or _open()).sendto(notice, path)
    except OSError as error:
        if error.errno in _FULL or error.errno in _DEAD:
            return error.errno or 0
        raise
    return 0


def _leave_note(place: str, name: str, key: bytes, notice: bytes) -> None:
    """A full socket holds notices, perhaps of other queues. Its process looks for notes when it has read those; in case
    that it has done so just now it is sent to again."""
    with suppress(OSError):
        os.close(os.open(f"{home_of(place, name)}/{key.hex()}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    _send(notice, socket_of(place, name))


def bury(place: str, name: str) -> None:
    """Remove what a dead process has left."""
    home = home_of(place, name)
    with suppress(OSError):
        for left in os.listdir(home):
            os.unlink(f"{home}/{left}")
        os.rmdir(home)


def is_dead(place: str, name: str) -> bool:
    """Whether nobody reads a socket any more; nothing is sent to it. One that is just being made is not dead."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(socket_of(place, name))
        except ConnectionRefusedError:
            return True
        except OSError:
            with suppress(OSError):
                return os.stat(home_of(place, name)).st_mtime < time.time() - _IN_THE_MAKING
    return False


def _open() -> socket.socket:
    global _sender
    with _lock:
        if _sender is None:
            opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            opened.setblocking(False)
            _sender = opened
        return _sender


def _close() -> None:
    global _sender
    sender, _sender = _sender, None
    if sender is not None:
        sender.close()


def _in_child() -> None:
    """What the parent has sent counts against the buffer of its socket."""
    global _lock
    _lock = threading.Lock()
    _close()


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
