"""The open LMDB environments of this process, one for each directory, shared by all stores that name it.

LMDB forbids opening an environment twice in a process and carrying it over a fork, and its map may only be resized
while no transaction of the process is open. So there is one `Environment` for each directory, with a count of the
stores that use it; reads pass a `Gate` that resizing shuts; and the handle is closed for the time of a fork and
opened again by whoever needs it next, in the parent as in the child.

Writers of all processes take a file lock before LMDB's own: unlike that one it can be waited for with a timeout.

An environment that is only looked at is opened without making or changing a file. A reader enters itself in LMDB's
table of readers, so that the pages of its snapshot are left alone; where that table is missing or may not be written,
it keeps the writers waiting instead, by the same file lock.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import random
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from localqueue.errors import QueueStoreCorruptError, QueueStoreError, QueueStoreFullError
from localqueue.stores import refusals
from localqueue.stores.lmdb import errors, pages, space
from localqueue.stores.lmdb.keys import Txn
from localqueue.stores.lmdb.writer import Writer
from localqueue.stores.port import Compacted
from localqueue.stores.privacy import FILE, make_directory, make_file
from localqueue.stores.room import Disk, Room
from localqueue.stores.wake import Wake

if TYPE_CHECKING:
    from localqueue.stores.lmdb.store import LMDBQueueStore

T = TypeVar("T")

LARGEST_MAP = 1 << 40
MAX_READERS = 1024
DATA_FILE = "data.mdb"
LOCK_FILE = "write.lock"

_abandoned: list[object] = []

_LMDBS_OWN = 1 << 16  # bytes, about: what holds the numbers of the free pages

_FIRST_PAUSE = 0.00005
LONGEST_PAUSE = 0.002
_OPEN_TIMEOUT = 15.0


class Gate:
    """Many may pass at a time; it can be shut to wait until nobody is inside."""

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        self._inside = 0
        self._shut = False

    def __enter__(self) -> None:
        with self._condition:
            while self._shut:
                self._condition.wait()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._inside -= 1
            if self._shut and not self._inside:
                self._condition.notify_all()

    def close(self) -> None:
        """Let nobody in, and wait until everybody has left. One thread at a time: they hold the writer's lock."""
        self._shut = True  # before the lock, or a stream of readers could keep it from us
        with self._condition:
            while self._inside:
                self._condition.wait()

    def open(self) -> None:
        with self._condition:
            self._shut = False
            self._condition.notify_all()

    @contextmanager
    def shut(self) -> Iterator[None]:
        self.close()
        try:
            yield
        finally:
            self.open()


class _Replaced(Exception):
    """There is another file in the place of the one that is open."""


class Environment:
    """The open environment of one directory. Strongest durability of its stores wins: once synced, always synced."""

    def __init__(self, path: str, *, map_size: int, sync: bool, writing: bool) -> None:
        self.path = path
        self.driver = refusals.load_driver("LMDB", "lmdb", "lmdb")
        self.sync = sync
        self.writing = writing
        self.users = 0
        self.closed = False
        self._map_size = -(-map_size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._handle: Any = None
        self._data_file = os.path.join(path, DATA_FILE)
        self._lock_file = -1
        self._listed = True  # whether reads are entered in the table of readers
        self._make_locks()

    def _make_locks(self) -> None:
        self._opening = threading.Lock()
        self.gate = Gate()
        self.writer = Writer(self)
        self.room = Room(self.path, self._measure_room)
        self.wake = Wake(lambda _queues: self.last_transaction())

    # the handle

    def handle(self) -> Any:
        """The driver's environment, opened on first use. To be used inside the gate or the writer's lock only."""
        handle = self._handle
        if handle is None:
            with self._opening:
                if self.closed:
                    raise refusals.closed(self.path)
                if self._handle is None:
                    self._open()
                handle = self._handle
        return handle

    def _open(self) -> None:
        try:
            self._require_whole()
            if self.writing:
                make_directory(self.path)
                for name in (LOCK_FILE, "lock.mdb") if os.path.exists(self._data_file) else (LOCK_FILE,):
                    make_file(os.path.join(self.path, name), like=self._data_file)
            self._inode = self._current_inode()
            self._listed = self.writing or os.access(Path(self.path, "lock.mdb"), os.W_OK)
            self._lock_file = self._open_lock_file()
            if self.writing and not is_there(self.path):
                self._lock(_OPEN_TIMEOUT, self._lock_file)  # nobody looks at a file that is half made
            while self._handle is None:
                with suppress(self.driver.MapResizedError):  # another process has grown it while it was opened
                    self._handle = self.driver.open(
                        self.path, map_size=self._map_size, sync=self.sync, meminit=False, max_dbs=0,
                        max_readers=MAX_READERS, readonly=not self.writing, create=self.writing, lock=self._listed,
                        mode=FILE,
                    )  # fmt: skip
            self.unlock()
            self._handle.reader_check()
        except BaseException as error:
            self._close_handle()
            if isinstance(error, (FileExistsError, NotADirectoryError)):
                raise QueueStoreError(
                    f"{self.path!r} is a file: an LMDB queue store is a directory; choose another store_path",
                    path=self.path,
                ) from error
            if isinstance(error, (self.driver.Error, OSError)):
                raise errors.translate(error, self.path) from error
            raise

    def _current_inode(self) -> int | None:
        try:
            return os.stat(self._data_file).st_ino
        except FileNotFoundError:
            return None

    def _open_lock_file(self) -> int:
        """-1 where nobody has written yet, and this is not the one who may."""
        path = Path(self.path, LOCK_FILE)
        if self.writing:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC) if path.exists() else -1

    def _require_whole(self) -> None:
        """Once more under the lock, where no commit of another process is half written."""
        try:
            pages.require_whole(self._data_file)
        except QueueStoreCorruptError:
            lock_file = Path(self.path, LOCK_FILE)
            if not lock_file.is_file():
                raise
            with lock_file.open("rb") as lock:
                self._lock(_OPEN_TIMEOUT, lock.fileno(), fcntl.LOCK_SH)
                pages.require_whole(self._data_file)

    def _close_handle(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None
        if self._lock_file >= 0:
            os.close(self._lock_file)
            self._lock_file = -1

    def close(self) -> None:
        """Wait for what is under way, then close for good."""
        with self.writer.lock, self.gate.shut():
            self.closed = True
            self._close_handle()
        self.wake.stir()

    def strengthen(self, *, sync: bool, writing: bool) -> None:
        """Sync every commit, and take some at all, from now on, if asked to. LMDB decides that when it opens."""
        if sync > self.sync or writing > self.writing:
            with self.writer.lock, self.gate.shut():
                self.sync |= sync
                self.writing |= writing
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
            except _Replaced:
                with self.writer.lock:
                    self.drop_handle()
            except self.driver.Error as error:
                raise errors.translate(error, self.path) from error

    def _read_inside(self, work: Callable[[Txn], T]) -> T:
        """A frame of its own: the transaction object must be gone before the gate is left and the handle may close."""
        handle = self.handle()
        if not self._listed:
            return self._read_unlisted(handle, work)
        with handle.begin() as txn:
            return work(txn)

    def _read_unlisted(self, handle: Any, work: Callable[[Txn], T]) -> T:
        """With a lock of its own, so that reads of other threads may end before it does."""
        lock_file = self._open_lock_file()
        try:
            self._lock(_OPEN_TIMEOUT, lock_file, fcntl.LOCK_SH)
            if self._current_inode() != self._inode:
                raise _Replaced
            with handle.begin() as txn:
                return work(txn)
        finally:
            if lock_file >= 0:
                os.close(lock_file)

    def last_transaction(self) -> int:
        """A number that changes with every commit of any process."""
        with self.gate:
            return int(self.handle().info()["last_txnid"])

    def _measure_room(self) -> int:
        """How many bytes can be put: into pages that are free and what the disk has, beside what is kept of both. While
        somebody reads, the file may grow into what is kept of the disk: then as much is kept of the pages."""
        with self.gate:
            handle = self.handle()
            stat, pages = handle.stat(), handle.info()["last_pgno"] + 1
        free = (pages - stat["branch_pages"] - stat["leaf_pages"] - stat["overflow_pages"]) * stat["psize"]
        disk = Disk.of(self.path, pages * stat["psize"])
        return int(max(max(free - _LMDBS_OWN, 0) + disk.free - disk.kept, 0))

    def copy(self, path: str) -> None:
        """Into a new file."""
        with self.gate, open(path, "xb", opener=lambda name, flags: os.open(name, flags, FILE)) as file:
            self.handle().copyfd(file.fileno(), compact=True)

    def compact(self, timeout: float) -> Compacted:
        """Put a copy without free pages in the place of the file, while nobody has it open."""
        with self.writer.lock, self.gate.shut():
            self.handle()
            lock_file = self._open_lock_file()
            try:
                self._lock(timeout, lock_file)
                self._close_handle()
                return space.compact(self.driver, self.path, self._data_file)
            except (self.driver.Error, OSError) as error:
                raise errors.translate(error, self.path) from error
            finally:
                os.close(lock_file)

    def abort(self, txn: Any) -> None:
        """Undo a write transaction. The driver first waits until no call of another thread is under way, which a stream
        of reads could put off for seconds: so they wait for it."""
        with self.gate.shut():
            txn.abort()

    def drop_handle(self) -> None:
        """Give up a handle that LMDB declares broken; the next use opens another."""
        with self.gate.shut():
            self._close_handle()

    def forget_dead_readers(self) -> int:
        """Strike processes that were killed from the table of readers: what they read is reused for nobody else. With
        the writer's lock held. How many reads they had under way."""
        return int(self.handle().reader_check())

    # the size of the map; only with the writer's lock held and no write transaction open

    def grow(self) -> None:
        """Double the map, because a transaction did not fit into it, unless that was for a reader that is dead."""
        if self.forget_dead_readers():
            return
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
        self._lock(timeout, self._lock_file)

    def unlock(self) -> None:
        if self._lock_file >= 0:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    def _lock(self, timeout: float, lock_file: int, how: int = fcntl.LOCK_EX) -> None:
        if lock_file < 0:
            return
        deadline = 0.0
        pause = _FIRST_PAUSE
        while True:
            try:
                fcntl.flock(lock_file, how | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                now = time.monotonic()
                deadline = deadline or now + timeout
                if now >= deadline:
                    raise errors.locked(self.path) from error
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 1.5, LONGEST_PAUSE)

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
        if not usable:
            _abandoned.append(self._handle)
            self._handle, self.closed = None, True
        self._make_locks()


# the environments of this process, by resolved path, and what happens to them on a fork

_lock = threading.RLock()  # a store that is garbage collected releases its environment from wherever that happens
_environments: dict[str, Environment] = {}
stores: weakref.WeakSet[LMDBQueueStore] = weakref.WeakSet()
_closed_for_fork: list[Environment] = []


def acquire(
    owner: object, path: str, *, map_size: int, sync: bool, writing: bool = True
) -> tuple[Environment, weakref.finalize[[Environment], Any]]:
    """The environment at `path`, and what gives it back: to be called, or else the end of its owner does it."""
    resolved = os.path.realpath(path)
    with _lock:
        environment = _environments.get(resolved)
        if environment is not None:
            environment.users += 1
        if environment is None or environment.closed:  # the garbage collector may close it just before it is counted
            environment = _environments[resolved] = Environment(resolved, map_size=map_size, sync=sync, writing=writing)
            environment.users = 1
        finalizer = weakref.finalize(owner, _release, environment)
        finalizer.atexit = False  # the end of the process closes everything, without waiting for its threads
        environment.strengthen(sync=sync, writing=writing)
        return environment, finalizer


def _release(environment: Environment) -> None:
    with _lock:
        environment.users -= 1
        if environment.users:
            return
        if _environments.get(environment.path) is environment:
            del _environments[environment.path]
        environment.close()


def is_there(path: str) -> bool:
    """Whether a store was ever made in this directory."""
    try:
        found = os.stat(os.path.join(path, DATA_FILE))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # of which opening it says more
        return True
    return found.st_size > 0 or not stat.S_ISREG(found.st_mode)


def _before_fork() -> None:
    _lock.acquire()
    for environment in _environments.values():
        if environment.before_fork():
            _closed_for_fork.append(environment)


def _after_fork_in_parent() -> None:
    for environment in _closed_for_fork:
        environment.after_fork_in_parent()
    _closed_for_fork.clear()
    _lock.release()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()
    for environment in _environments.values():
        environment.after_fork_in_child(usable=environment in _closed_for_fork)
    _closed_for_fork.clear()
    for store in list(stores):
        store.after_fork_in_child()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
