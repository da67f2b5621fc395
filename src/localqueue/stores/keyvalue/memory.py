"""Records in a dict of this process."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from localqueue.stores.keyvalue.port import Kind, LockedRecords

V = TypeVar("V")


class MemoryRecords(LockedRecords[V]):
    """Keeps deep copies and hands out deep copies: nobody can change a record from outside."""

    def __init__(self, kind: Kind[V]) -> None:
        self._values: dict[str, tuple[V]] = {}
        super().__init__(kind)

    def find(self, key: str) -> tuple[V | None, Any]:
        seen = self._values.get(key)
        return (None, None) if seen is None else (copy.deepcopy(seen[0]), seen)

    def put(self, key: str, value: V) -> None:
        kept = (copy.deepcopy(value),)
        with self._lock:
            self._values[key] = kept

    def swap(self, key: str, value: V, seen: Any) -> bool:
        kept = (copy.deepcopy(value),)
        with self._lock:
            fits = self._values.get(key) is seen
            if fits:
                self._values[key] = kept
            return fits

    def delete(self, key: str) -> None:
        with self._lock:
            self._values.pop(key, None)

    def keys(self, prefix: str = "") -> list[str]:
        return sorted(key for key in list(self._values) if key.startswith(prefix))

    def prune(self, until: float, *, dry_run: bool = False) -> int:
        with self._lock:
            ended = [key for key, (value,) in self._values.items() if self.kind.has_ended(value, until)]
            for key in () if dry_run else ended:
                del self._values[key]
            return len(ended)
