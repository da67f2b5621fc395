"""Commits that meet: each is held just before it is made, until all have come, and then they go in a given order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from localqueue.contracts.steps import PATIENCE
from localqueue.stores.port import Changes


class Crossing:
    """Who goes first is said by `order`; without one all go at the same instant."""

    def __init__(self, *names: str, order: Sequence[str] = ()) -> None:
        self._come = threading.Barrier(len(names))
        self._order = list(order)
        self._gone = {name: threading.Event() for name in names}
        self._taken = set[str]()
        self._lock = threading.Lock()

    def at(self, store: Any, name: str, is_it: Callable[..., bool], method: str = "commit") -> None:
        """Hold the first call of a method of this store that is the one that is meant."""
        go = getattr(store, method)

        def held(*args: Any, **kwargs: Any) -> Any:
            if not is_it(*args, **kwargs) or not self._take(name):
                return go(*args, **kwargs)
            self._come.wait(PATIENCE)
            for one in self._order[: self._order.index(name)] if self._order else ():
                assert self._gone[one].wait(PATIENCE), f"{one} does not go"
            try:
                return go(*args, **kwargs)
            finally:
                self._gone[name].set()

        setattr(store, method, held)

    def _take(self, name: str) -> bool:
        with self._lock:
            free = name not in self._taken
            self._taken.add(name)
            return free

    @property
    def happened(self) -> bool:
        return all(one.is_set() for one in self._gone.values())


def writes(kind: str, *ends: str) -> Callable[[Changes], bool]:
    """Whether a commit writes a record of this kind, with a key that ends so."""
    return lambda changes: any(one.kind == kind and one.key.endswith(ends or ("",)) for one in changes.records)


def any_call(*_: Any, **__: Any) -> bool:
    return True
