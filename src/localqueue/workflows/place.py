"""The store that runs live in: given open, by its address, or the store of the process."""

from __future__ import annotations

import atexit
import threading
from typing import Any

from localqueue.brokers.url import is_broker
from localqueue.stores.port import QueueStore
from localqueue.stores.url import absolute
from localqueue.tasks.home import Home
from localqueue.workflows.errors import WorkflowError

_homes: dict[str | None, Home] = {}
_lock = threading.Lock()


def store_of(store: str | QueueStore | None, *, creates: bool = True) -> QueueStore:
    """The store. One that is named by its address is opened once in a process, and closed when the process ends.

    Who only looks (`creates` is False) is refused where there is none.
    """
    if is_broker(store) or hasattr(store, "as_store"):
        raise WorkflowError(
            "runs need a store, whose commits settle a step and set the next one free; a broker has no such commit"
        )
    if store is not None and not isinstance(store, str):
        return store
    with _lock:
        address = None if store is None else absolute(store)
        home = _homes.get(address)
        if home is None:
            home = _homes[address] = Home(address, None, "workflows", {}, {})
            if len(_homes) == 1:
                atexit.register(_close)
    if not creates:
        home.require_store()
    return home.store


def _close(*_: Any) -> None:
    with _lock:
        homes = list(_homes.values())
        _homes.clear()
    for home in homes:
        home.close()
