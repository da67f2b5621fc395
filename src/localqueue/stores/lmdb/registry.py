"""The environments that are open in this process, by resolved path, and what happens to them on a fork."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING

from localqueue.stores.lmdb.environment import Environment

if TYPE_CHECKING:
    from localqueue.stores.lmdb.store import LMDBQueueStore

_lock = threading.RLock()  # a store that is garbage collected releases its environment from wherever that happens
_environments: dict[str, Environment] = {}
_stores: weakref.WeakSet[LMDBQueueStore] = weakref.WeakSet()
_closed_for_fork: list[Environment] = []


def acquire(path: str, *, map_size: int, sync: bool) -> Environment:
    """The environment at `path`, counted once more; `release` it."""
    resolved = os.path.realpath(path)
    with _lock:
        environment = _environments.get(resolved)
        if environment is not None:
            environment.users += 1
        if environment is None or environment.closed:  # the garbage collector may close it just before it is counted
            environment = _environments[resolved] = Environment(resolved, map_size=map_size, sync=sync)
            environment.users = 1
        environment.strengthen(sync)
        return environment


def release(environment: Environment) -> None:
    with _lock:
        environment.users -= 1
        if environment.users:
            return
        if _environments.get(environment.path) is environment:
            del _environments[environment.path]
        environment.close()


def remember(store: LMDBQueueStore) -> None:
    _stores.add(store)


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
    for store in list(_stores):
        store._after_fork_in_child()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
