"""Records in a dict of this process."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import TypeVar

from localqueue.stores import fork
from localqueue.stores.keyvalue.port import Kind, Records

V = TypeVar("V")


class MemoryRecords(Records[V]):
    """Keeps deep copies and hands out deep copies: nobody can change a record from outside."""

    def __init__(self, kind: Kind[V]) -> None:
        self.kind = kind
        self._lock = threading.Lock()
        self._values: dict[str, V] = {}
        fork.track(self)

    def __repr__(self) -> str:
        return ""

    def get(self, key: str) -> V | None:
        with self._lock:
            return copy.deepcopy(self._values.get(key))

    def put(self, key: str, value: V) -> None:
        kept = copy.deepcopy(value)
        with self._lock:
            self._values[key] = kept

    def put_unless(self, key: str, value: V, blocks: Callable[[V], bool]) -> V | None:
        kept = copy.deepcopy(value)
        with self._lock:
            found = self._values.get(key)
            if found is not None and blocks(found):
                return copy.deepcopy(found)
            self._values[key] = kept
            return None

    def delete(self, key: str) -> None:
        with self._lock:
            self._values.pop(key, None)

    def keys(self, prefix: str = "") -> list[str]:
        with self._lock:
            return sorted(key for key in self._values if key.startswith(prefix))

    def prune(self, until: float, *, dry_run: bool = False) -> int:
        with self._lock:
            ended = [key for key, value in self._values.items() if _ended_by(self.kind.ended_at(value), until)]
            if not dry_run:
                for key in ended:
                    del self._values[key]
            return len(ended)

    # fork: another thread may hold the lock, and does not exist in the child

    def hold_for_fork(self) -> None:
        self._lock.acquire()

    def go_on_after_fork(self) -> None:
        self._lock.release()

    def close_in_child(self) -> None:
        self._lock = threading.Lock()

    def reopen_in_child(self) -> None:
        pass


def _ended_by(ended_at: float | None, until: float) -> bool:
    return ended_at is not None and ended_at <= until
