"""The last of a disk is left to those who take messages out, which needs some room as well.

On a disk that is nearly full puts are refused, while messages can be taken out to the last one. What those occupied can
be put into again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from localqueue._named_tuple import NamedTuple
from localqueue.errors import QueueStoreFullError
from localqueue.stores.port import NewMessage, Payload

PLENTY = 1 << 62
A_ROW = 300  # bytes that a message takes besides its payload, about
_LEAST, _MOST = 1 << 18, 8 << 20
_SHARE = 16  # of the room may be put before the next look: other processes put as well
_KNOWN_FOR = 0.05  # seconds before the next look: one that stood still for longer can not tell what others have put


class Disk(NamedTuple):
    """In bytes: what is free on the disk of a store, and how much of that is left to those who take messages out."""

    free: int
    kept: int

    @classmethod
    def of(cls, folder: str, size: int) -> Disk:
        """For a store of a size: a quarter of it is kept, within limits, and little of a small disk."""
        found = os.statvfs(folder)
        total = found.f_blocks * found.f_frsize
        if not total:  # a file system that does not say
            return cls(PLENTY, 0)
        return cls(found.f_bavail * found.f_frsize, min(max(size // 4, _LEAST), _MOST, total // 8))


def size_of(messages: Sequence[NewMessage]) -> int:
    """How many bytes these messages take, about."""
    return sum([len(one.payload) + A_ROW for one in messages])


def size_of_batch(payloads: Sequence[Payload]) -> int:
    return sum(map(len, payloads)) + A_ROW * len(payloads)


def full(path: str) -> QueueStoreFullError:
    return QueueStoreFullError(
        f"the disk of the store at {path!r} is full: nothing was changed. What is left is kept for taking messages "
        "out; take some out, or free some disk space, and try again",
        path=path,
    )


class Room:
    """What may still be put into the store at `path`. `measure` says how many bytes that is, of all together.

    Puts are counted, and now and then it is looked how much room there is: by the clock on a disk with much of it, and
    with every put on one that is nearly full.
    """

    def __init__(self, path: str, measure: Callable[[], int]) -> None:
        self._path = path
        self._measure = measure
        self._left = 0  # bytes before the next look
        self._known_until = 0.0

    def admit(self, size: int) -> None:
        """Somebody is about to put as many bytes."""
        self._left -= size
        now = time.monotonic()
        if self._left < 0 or now > self._known_until:
            room = self._measure()
            if room < size:
                raise full(self._path)
            self._left = room // _SHARE
            self._known_until = now + _KNOWN_FOR
