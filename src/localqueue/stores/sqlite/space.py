"""What a file and its log take on the disk, and giving back what they do not need.

SQLite begins its log anew once all of it is copied into the file and nobody reads it any more; where somebody reads at
every moment that has to be waited for. A file keeps the pages that become free. When nearly all of it is free, as after
a huge message was acked, what is left is written anew, which is soon done; anything larger is for `compact`.

A commit needs room in the log at once, and in the file when the log is copied. Where the disk has little of it, who
puts asks for both inside of the transaction, when nobody else can take them. So what is kept for taking messages out is
there however many processes put.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress

from localqueue._named_tuple import NamedTuple
from localqueue.errors import QueueStoreError
from localqueue.stores.port import Compacted
from localqueue.stores.room import Disk, full

LOG_PAGES = 10_000  # before the log is copied into the file
LOG_SIZE = 42 << 20  # bytes to which a log is cut that begins anew: these pages, and a last commit
PAUSE = 5.0  # seconds before that is tried again which readers, or a full disk, have prevented

_FREE = 8 << 20  # bytes that are worth giving back
_LIVE = 8 << 20  # bytes that are soon written anew
_PATIENCE = 50  # milliseconds that a checkpoint waits for readers, while writers wait for it
_PATIENCE_OF_COMPACT = _PATIENCE_ON_A_FULL_DISK = 1000
_COMMITS = 100  # between two looks
_A_COMMIT = 1 << 16  # bytes of log and file that one takes which puts little, at most
_LITTLE = _A_COMMIT // 4
_PROCESSES = 8  # that may commit between two looks of one
_AMPLE = _COMMITS * _A_COMMIT * _PROCESSES
_FRESH = 1.0  # seconds for which a look tells how it is
_SIZES = "SELECT page_count, freelist_count, page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
_FOREIGN = r"SELECT 1 FROM sqlite_schema WHERE tbl_name NOT LIKE 'lq\_%' ESCAPE '\' LIMIT 1"


class Sizes(NamedTuple):
    """In bytes: the file and its log as they lie there, what the file will have in it, of which some is free, and the
    disk around it."""

    file: int
    log: int
    pages: int
    free: int
    disk: Disk

    @property
    def is_hollow(self) -> bool:
        live = self.pages - self.free
        return self.free >= _FREE and self.free >= 3 * live and 0 < live <= _LIVE

    @property
    def is_uncut(self) -> bool:
        """Whether a checkpoint that gets to its end would make the file or the log smaller."""
        return self.log > 1.5 * LOG_SIZE or self.file - self.pages >= _FREE

    @property
    def beyond(self) -> int:
        """What the disk has free beside what the log will take of it when it is copied, and what is kept."""
        return self.disk.free - self.disk.kept - max(self.pages - self.file, 0)

    def lacks(self, size: int) -> int:
        """How many bytes too little there are to put so many: into the log, and into what is free in the file or
        behind its end. A file grows only while that leaves room for the log of those who put into what becomes free."""
        log, growth = size + _A_COMMIT, max(size - self.free, 0)
        return log + (growth + self.disk.kept // 2 if growth else 0) - self.beyond

    @property
    def until_look(self) -> int:
        """How many commits may pass before the next look: each makes the log longer, and those of others do too."""
        return max(1, min(_COMMITS, (self.beyond + self.disk.kept // 2) // (_A_COMMIT * _PROCESSES)))


class Space:
    """Looks after the file of a connection, which the caller has for itself meanwhile."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path, self._file = path, os.path.realpath(path)
        self._not_before = 0.0
        self._owes_cut = False  # a file was written anew, and readers still need what it was
        self._ample_until = 0.0

    def sizes(self, connection: sqlite3.Connection | None = None) -> Sizes:
        pages, free, page = (connection or self._connection).execute(_SIZES).fetchall()[0]
        try:
            log = os.path.getsize(f"{self._file}-wal")
        except FileNotFoundError:
            log = 0
        disk = Disk.of(os.path.dirname(self._file), pages * page)
        return Sizes(os.path.getsize(self._file), log, pages * page, free * page, disk)

    def tidy(self) -> int:
        """Give back what is not needed, if that is much and soon done. What prevents it now does not the next time.
        How many commits may pass before it is called again."""
        with suppress(sqlite3.Error, OSError):
            sizes = self._look()
            if sizes.beyond < 0:
                self.begin_log_anew()
                return self.sizes().until_look
            hollow = sizes.is_hollow and not self.is_shared()
            if (hollow or sizes.is_uncut or self._owes_cut) and time.monotonic() >= self._not_before:
                self._not_before = time.monotonic() + PAUSE
                if hollow:
                    self._connection.execute("VACUUM")
                    self._owes_cut = True
                if self.checkpoint(_PATIENCE):
                    self._not_before, self._owes_cut = 0.0, False
            return sizes.until_look
        return 1

    def begin_log_anew(self) -> bool:
        """On a disk that is nearly full: have the log copied into the file, so that the next commit begins it anew
        where it lies. It is not cut: nobody else shall have what it occupies. False when somebody was in the way."""
        with suppress(sqlite3.Error, OSError):
            return self.checkpoint(_PATIENCE_ON_A_FULL_DISK, "RESTART")
        return True

    def _look(self) -> Sizes:
        sizes = self.sizes()
        self._ample_until = time.monotonic() + _FRESH if sizes.beyond >= _AMPLE else 0.0
        return sizes

    def was_ample(self, size: int) -> bool:
        """Whether the last look has found room enough for this as well."""
        return size <= _LITTLE and time.monotonic() < self._ample_until

    def is_ample(self, size: int) -> bool:
        """Whether so much, and what others put before they look, is a small part of the room."""
        return self._look().lacks(_PROCESSES * size) <= -_AMPLE

    def require(self, size: int, connection: sqlite3.Connection) -> None:
        """Refuse to put so much if there is no room for it. The connection has the write lock."""
        if self.sizes(connection).lacks(size) > 0:
            raise full(self._path)

    def make_room(self, size: int) -> None:
        """Cut the log, if what it occupies is what is lacking."""
        sizes = self.sizes()
        if 0 < sizes.lacks(size) <= sizes.log:
            self.checkpoint(_PATIENCE_ON_A_FULL_DISK)

    def compact(self) -> Compacted:
        """Write all that is in use anew, without gaps; others wait for it, as for any commit."""
        if self.is_shared():
            raise QueueStoreError(
                f"the SQLite file {self._file!r} has tables of an application in it: nothing was changed; run VACUUM "
                "on it yourself, which may number the rows of tables anew that have no INTEGER PRIMARY KEY",
                path=self._file,
            )
        before = self.sizes()
        self._connection.execute("PRAGMA temp_store = FILE")  # it is copied twice, and may be larger than the memory
        self._connection.execute("VACUUM")
        self.checkpoint(_PATIENCE_OF_COMPACT)
        after = self.sizes()
        return Compacted(before.file + before.log, after.file + after.log)

    def is_shared(self) -> bool:
        """Whether an application has tables in the file, whose rows a VACUUM may number anew."""
        return bool(self._connection.execute(_FOREIGN).fetchall())

    def checkpoint(self, patience: int, how: str = "TRUNCATE") -> bool:
        """Copy the log into the file and cut both; False when somebody who reads has prevented it."""
        self._connection.execute(f"PRAGMA busy_timeout = {patience}").fetchall()
        try:
            busy, *_ = self._connection.execute(f"PRAGMA wal_checkpoint({how})").fetchall()[0]
        finally:
            self._connection.execute("PRAGMA busy_timeout = 0").fetchall()
        return not busy
