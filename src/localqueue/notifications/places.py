"""Where the processes of one host find each other: a directory of one user, with an entry for each queue and listener.

An entry is an empty file, `<place>/<kind>/<two digits>/<the others>.<name of the listener>`; the digits are of the key
of its channel and queue. A producer lists the directories of its queue and of those who listen to every queue, which
are short even where thousands of queues are listened to, and looks at nothing else.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b

_EVERY = ""  # in the place of a name, which is never empty
_TRIES = 100


@lru_cache(4096)
def key_of(channel: str, queue: str | None) -> bytes:
    """16 bytes that stand for a queue on a channel, whatever characters are in their names; None: every queue."""
    name = _EVERY if queue is None else queue
    return blake2b(f"{len(channel)}:{channel}{name}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def default_places() -> list[str]:
    """Where listeners of this user may be, the best place first.

    Not every process of a user has the same environment: one that is started by a timer often lacks that of a session.
    A listener takes the first place, a producer looks at all.
    """
    user = os.geteuid()
    parents = [os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{user}"]
    places = [os.path.join(parent, "localqueue") for parent in parents if os.path.isabs(parent) and _is_ours(parent)]
    places += [os.path.join(parent, f"localqueue-{user}") for parent in (tempfile.gettempdir(), "/tmp")]
    return list(dict.fromkeys(places))


def _is_ours(path: str) -> bool:
    try:
        return problem_with(path) is None
    except OSError:
        return False


def problem_with(path: str) -> str | None:
    """Why a directory can not be trusted to hold nothing but what this user has put there."""
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        return "it is no directory"
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}, and this process is user {os.geteuid()}"
    if found.st_mode & 0o022:
        return f"others may write into it (mode {stat.S_IMODE(found.st_mode):o})"
    return None


class Places:
    """The directories that a policy uses: the one it was given, or those of this user."""

    def __init__(self, directory: str | os.PathLike[str] | None, kind: str) -> None:
        self._given = directory is not None
        self._kind = kind
        self._all = default_places() if directory is None else [os.path.abspath(os.fspath(directory))]
        self._checked: set[str] = set()
        for place in self._all:
            if self._given and os.path.lexists(place):
                _check(place)

    @property
    def home(self) -> str:
        """Where this one listens."""
        return self._all[0]

    def make(self) -> str:
        """The place to listen in, which is made if it is not there."""
        place = self.home
        with suppress(FileExistsError):
            os.makedirs(place, 0o700)
        _check(place)
        return place

    def listeners(self, key: bytes) -> list[tuple[str, str]]:
        """Those who have entered themselves under a key: their places and names."""
        digits = key.hex()
        head = f"{digits[2:]}."
        found: list[tuple[str, str]] = []
        for place in self._all:
            try:
                entries = os.listdir(f"{place}/{self._kind}/{digits[:2]}")
            except (FileNotFoundError, NotADirectoryError):
                continue
            except PermissionError:
                if self._given:
                    raise
                continue  # it is another user's
            if place not in self._checked:
                if not self._given and not _is_ours(place):
                    continue  # no listener of this user can be there
                _check(place)
                self._checked.add(place)
            found += [(place, entry[len(head) :]) for entry in entries if entry.startswith(head)]
        return found

    def entry(self, place: str, key: bytes, name: str) -> str:
        digits = key.hex()
        return f"{place}/{self._kind}/{digits[:2]}/{digits[2:]}.{name}"

    def enter(self, place: str, key: bytes, name: str, *, like: str | None = None) -> None:
        """Enter a listener under a key. The entry becomes another name of the file `like`, which costs least."""
        path = self.entry(place, key, name)
        for _ in range(_TRIES):
            try:
                if like is None:
                    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
                else:
                    os.link(like, path)
                return
            except FileExistsError:
                return
            except FileNotFoundError:  # the last of its queues has just been left, or this is the first
                os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        raise OSError(errno.ENOENT, "a listener could not enter itself: the directory is removed all the time", path)

    def leave(self, place: str, key: bytes, name: str) -> None:
        path = self.entry(place, key, name)
        with suppress(OSError):
            os.unlink(path)
        with suppress(OSError):  # others are there
            os.rmdir(os.path.dirname(path))

    def strike(self, place: str, names: Collection[str]) -> None:
        """Remove all entries of listeners that are no more."""
        for folder, _, entries in os.walk(f"{place}/{self._kind}"):
            for entry in entries:
                if entry.partition(".")[2] in names:
                    with suppress(OSError):
                        os.unlink(f"{folder}/{entry}")
            with suppress(OSError):
                os.rmdir(folder)


def _check(place: str) -> None:
    problem = problem_with(place)
    if problem is not None:
        raise PermissionError(
            f"{place} can not be used for notifications: {problem}; give a directory of this user with mode 700 "
            "as directory="
        )
