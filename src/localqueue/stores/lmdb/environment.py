"""One open LMDB environment, shared by all stores of this process that name its directory.

LMDB forbids opening an environment twice in a process and carrying it over a fork, and its map may only be resized
while no transaction of the process is open. So there is one `Environment` for each directory, with a count of the
stores that use it; reads pass a `Gate` that resizing shuts; and the handle is closed for the time of a fork and
opened again by whoever needs it next, in the parent as in the child.

Writers of all processes take a file lock before LMDB's own: unlike that one it can be waited for with a timeout.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from localqueue.errors import QueueStoreClosedError, QueueStoreError, QueueStoreFullError
from localqueue.stores.lmdb import driver
from localqueue.stores.lmdb.driver import Txn
from localqueue.stores.lmdb.gate import Gate
from localqueue.stores.wake import Wake

T = TypeVar("T")

LARGEST_MAP = 1 << 40
MAX_READERS = 1024
LOCK_FILE = "write.lock"

_abandoned: list[object] = []

_FIRST_PAUSE = 0.00005
_LONGEST_PAUSE = 0.002
_OPEN_TIMEOUT = 15.0


class Environment:
    """The open environment of one directory. Strongest durability of its stores wins: once synced, always synced."""

    def __init__(self, path: str, *, map_size: int, sync: bool) -> None:
        from localqueue.stores.lmdb.writer import Writer

        self.path = path
        self.driver = driver.load()
        self.sync = sync
        self.users = 0
        self.closed = False
        self._map_size = -(-map_size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._handle: Any = None
        self._lock_file = -1
        self._opening = threading.Lock()
        self.gate = Gate()
        self.writer = Writer(self)
        self.wake = Wake(lambda _queues: self.last_transaction())

    # the handle

    def handle(self) -> Any:
        """The driver's environment, opened on first use. To be used inside the gate or the writer's lock only."""
        handle = self._handle
        if handle is None:
            with self._opening:
                if self.closed:
                    raise QueueStoreClosedError(f"the store at {self.path!r} is closed", path=self.path)
                if self._handle is None:
                    self._open()
                handle = self._handle
        return handle

    def _open(self) -> None:
        try:
            Path(self.path).mkdir(parents=True, exist_ok=True)
            lock_file = os.open(Path(self.path, LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except (FileExistsError, NotADirectoryError) as error:
            raise QueueStoreError(
                f"{self.path!r} is a file: an LMDB queue store is a directory; choose another store_path",
                path=self.path,
            ) from error
        except OSError as error:
            raise driver.translate(error, self.path) from error
        try:
            self._handle = self.driver.open(
                self.path, map_size=self._map_size, sync=self.sync, meminit=False, max_dbs=0, max_readers=MAX_READERS
            )
            self._lock_file = lock_file
            self._handle.reader_check()  # frees the slots of processes that were killed
            self._cover_end()
        except BaseException as error:
            if self._handle is None:
                os.close(lock_file)
            self._close_handle()
            if isinstance(error, (self.driver.Error, OSError)):
                raise driver.translate(error, self.path) from error
            raise

    def _cover_end(self) -> None:
        """Make the file as long as LMDB believes it is.

        Pages at the end that were freed before they were written may be missing, and do no harm. But if the file was
        cut, reading what is lost would kill the process (SIGBUS); a hole reads as zeros, which is reported as damage.
        """
        if self._missing_bytes() > 0:
            self._lock(_OPEN_TIMEOUT)
            try:
                if self._missing_bytes() > 0:
                    os.truncate(self._data_file(), os.path.getsize(self._data_file()) + self._missing_bytes())
            finally:
                self.unlock()

    def _missing_bytes(self) -> int:
        pages = self._handle.info()["last_pgno"] + 1
        return int(pages * self._handle.stat()["psize"] - os.path.getsize(self._data_file()))

    def _data_file(self) -> str:
        return os.path.join(self.path, "data.mdb")

    def _close_handle(self) -> None:
        if self._handle is not None:
            self._handle.close()
            os.close(self._lock_file)
            self._handle, self._lock_file = None, -1

    def close(self) -> None:
        """Wait for what is under way, then close for good."""
        with self.writer.lock, self.gate.shut():
            self.closed = True
            self._close_handle()
        self.wake.stir()

    def strengthen(self, sync: bool) -> None:
        """Sync every commit from now on, if asked to. LMDB decides that when it opens."""
        if sync and not self.sync:
            with self.writer.lock, self.gate.shut():
                self.sync = True
                self._close_handle()

    # reading

    def read(self, work: Callable[[Txn], T]) -> T:
        """Run work in one snapshot."""
        while True:
            try:
                with self.gate:
                    return self._read_inside(work)
            except self.driver.MapResizedError:
                with self.writer.lock:
                    self.adopt_size()
            except self.driver.Error as error:
                raise driver.translate(error, self.path) from error

    def _read_inside(self, work: Callable[[Txn], T]) -> T:
        """A frame of its own: the transaction object must be gone before the gate is left and the handle may close."""
        with self.handle().begin() as txn:
            return work(txn)

    def last_transaction(self) -> int:
        """A number that changes with every commit of any process."""
        with self.gate:
            return int(self.handle().info()["last_txnid"])

    def copy(self, path: str) -> None:
        with self.gate:
            self.handle().copy(path, compact=True)

    def abort(self, txn: Any) -> None:
        """Undo a write transaction. The driver first waits until no call of another thread is under way, which a stream
        of reads could put off for seconds: so they wait for it."""
        with self.gate.shut():
            txn.abort()

    def drop_handle(self) -> None:
        """Give up a handle that LMDB declares broken; the next use opens another."""
        with self.gate.shut():
            self._close_handle()

    # the size of the map; only with the writer's lock held and no write transaction open

    def grow(self) -> None:
        """Double the map, because a transaction did not fit into it."""
        with self.gate.shut():
            size = self.handle().info()["map_size"]
            if size >= LARGEST_MAP:
                raise QueueStoreFullError(
                    f"LMDB queue store at {self.path!r} is full: it reached {LARGEST_MAP} bytes; nothing was changed",
                    path=self.path,
                )
            self._map_size = min(size * 2, LARGEST_MAP)
            self._resize(self._map_size)

    def adopt_size(self) -> None:
        """Follow another process that has grown the map."""
        with self.gate.shut():
            self._resize(0)

    def _resize(self, size: int) -> None:
        try:
            self.handle().set_mapsize(size)
        except (self.driver.Error, MemoryError) as error:
            self._close_handle()  # it may have lost its map: the next use opens it again
            raise QueueStoreFullError(
                f"LMDB queue store at {self.path!r} is full: its map can not grow ({error}); nothing was changed",
                path=self.path,
            ) from error

    # the file lock that writers of all processes take

    def lock(self, timeout: float) -> None:
        """Take it, or raise `QueueStoreLockedError` after `timeout` seconds."""
        self.handle()
        self._lock(timeout)

    def unlock(self) -> None:
        fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    def _lock(self, timeout: float) -> None:
        deadline = 0.0
        pause = _FIRST_PAUSE
        while True:
            try:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                now = time.monotonic()
                deadline = deadline or now + timeout
                if now >= deadline:
                    raise driver.locked(self.path) from error
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    # forking

    def before_fork(self) -> bool:
        """Let nothing be open while the process forks. False when the forking thread is itself inside a commit."""
        if self.writer.leader == threading.get_ident():
            return False
        self.writer.lock.acquire()
        self.gate.close()
        self._close_handle()
        return True

    def after_fork_in_parent(self) -> None:
        self.gate.open()
        self.writer.lock.release()

    def after_fork_in_child(self, usable: bool) -> None:
        """Fresh locks: the threads that held or awaited the old ones do not exist here, nor do their commits.

        The handle of a thread that forked inside a commit is the parent's: it can be neither used nor closed here.
        """
        from localqueue.stores.lmdb.writer import Writer

        if not usable:
            _abandoned.append(self._handle)
            self._handle, self.closed = None, True
        on_edge = self.writer.on_edge
        self._opening = threading.Lock()
        self.gate = Gate()
        self.writer = Writer(self)
        self.writer.on_edge = on_edge
        self.wake = Wake(lambda _queues: self.last_transaction())
