"""Reading a store file without making or changing one, in a directory that may be read-only.

SQLite would make a log and its index beside a file that has none. So there are three ways to look, by what is there:

- the file alone: it is read as one that does not change, and where that proves untrue the read is done again;
- a write-ahead log with its index: somebody has the file open, or was killed, and SQLite reads all three;
- a log without its index, as beside a copy of a file that was in use: both are copied, and SQLite reads the copy.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TypeVar
from urllib.parse import quote

from localqueue._named_tuple import NamedTuple
from localqueue.errors import QueueStoreError, QueueStoreLockedError, QueueStoreMissingError
from localqueue.stores.sqlite.connection import Reader, at_one_moment, new_connection
from localqueue.stores.sqlite.errors import UNFORESEEN, raise_explained, translate

T = TypeVar("T")
Stamp = tuple[int, ...]

_TRIES = 20
_PAUSE = 0.005
_GRAIN = 0.02  # two changes that are closer in time may leave a file with the same stamp


class Look(NamedTuple):
    """What a file and its companions look like from outside, without opening them."""

    file: Stamp
    log: Stamp | None
    indexed: bool
    journal: Stamp | None

    @classmethod
    def at(cls, path: str) -> Look:
        """How it looks now. FileNotFoundError where there is nothing."""
        real = os.path.realpath(path)  # SQLite keeps the companions beside the file that a link leads to
        found = os.stat(real)
        file = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        return cls(file, _stamp(f"{real}-wal"), os.path.exists(f"{real}-shm"), _stamp(f"{real}-journal"))

    @property
    def is_in_use(self) -> bool:
        """Whether only SQLite can tell what holds: somebody may be writing."""
        return self.journal is not None or (self.log is not None and self.indexed)

    @property
    def has_log_left(self) -> bool:
        """Whether a log that nobody has open knows more than the file."""
        return not self.is_in_use and self.log is not None and self.log[1] > 0

    @property
    def is_fresh(self) -> bool:
        """Whether another change could leave the same look."""
        changed = max(self.file[2], 0 if self.log is None else self.log[2])
        return abs(time.time() - changed / 1e9) < _GRAIN


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


@contextmanager
def copy_of(path: str) -> Iterator[str]:
    """A copy of a file and its log, for a while."""
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "store")
        for suffix in ("", "-wal"):
            shutil.copyfile(os.path.realpath(path) + suffix, copy + suffix)
        yield copy


class Onlooker(Reader):
    """A reader that keeps nothing open of a file in use: whoever closes it last could not put its log away."""

    def __init__(self, path: str, timeout: float, *, url: str | None = None) -> None:
        self._file = os.path.abspath(path)
        super().__init__(lambda: self._connect_to(self._file, "immutable=1"), path)
        self._url = path if url is None else url
        self._timeout = timeout
        self._kept: Look | None = None  # how the file looked when the connection was made
        self._look()

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self.lock:
            for _ in range(_TRIES):
                self.require_open()
                look = self._look()
                if not look.is_in_use and look.is_fresh:
                    time.sleep(_GRAIN)
                    continue
                try:
                    with self._connected(look) as connection:
                        found = self._read_once(connection, work)
                except sqlite3.Error as error:
                    now = self._look()
                    if now == look or (now.is_in_use and look.is_in_use):
                        raise translate(error, self._path) from error
                except Exception:
                    if look.is_in_use or look == self._look():
                        raise
                else:
                    if look.is_in_use or look == self._look():
                        return found
                time.sleep(_PAUSE)
            raise QueueStoreLockedError(
                f"SQLite queue store at {self._path!r} changed each of the {_TRIES} times it was looked at; try again",
                path=self._path,
            )

    def _read_once(self, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return at_one_moment(connection, work)
        except UNFORESEEN as error:
            raise_explained(error, connection, self._path)

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return self.run(work)

    def _look(self) -> Look:
        try:
            return Look.at(self._file)
        except (FileNotFoundError, NotADirectoryError):
            raise QueueStoreMissingError(f"there is no store at {self._url!r}", path=self._path) from None
        except OSError as error:
            raise QueueStoreError(
                f"SQLite queue store at {self._path!r} can not be looked at: {error}", path=self._path
            ) from error

    @contextmanager
    def _connected(self, look: Look) -> Iterator[sqlite3.Connection]:
        if look.is_in_use:
            try:
                with closing(self._connect_to(self._file, "mode=ro")) as connection:
                    yield connection
            finally:
                self._put_away(look.log)
        elif look.has_log_left:
            with copy_of(self._file) as copy, closing(self._connect_to(copy, "mode=rw")) as connection:
                yield connection
        else:
            if self._kept != look:
                self.let_go()
                self._kept = look
            yield self.open()

    def _put_away(self, log: Stamp | None) -> None:
        """When the log was put away just before we read, SQLite has made an empty one: have it put away too."""
        now = self._look().log
        if now is not None and now[1] == 0 and now != log:
            with suppress(sqlite3.Error), closing(self._connect_to(self._file, "mode=rw")) as connection:
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()

    def _connect_to(self, path: str, mode: str) -> sqlite3.Connection:
        return new_connection(f"file://{quote(os.fsencode(path))}?{mode}", self._timeout, uri=True)
