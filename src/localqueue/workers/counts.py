"""What a worker has done so far."""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableSequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from localqueue.workers.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCounts:
    """Messages that left a worker's hands, by what became of them. `skipped` are duplicates of finished work."""

    acked: int = 0
    released: int = 0
    dead_lettered: int = 0
    skipped: int = 0
    lost: int = 0

    @property
    def total(self) -> int:
        return self.acked + self.released + self.dead_lettered + self.skipped + self.lost

    def __add__(self, other: WorkerCounts) -> WorkerCounts:
        right = other.as_dict()
        return WorkerCounts(**{name: count + right[name] for name, count in self.as_dict().items()})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


_STATES = ("acked", "released", "dead-lettered", "skipped", "lost")


class Tally:
    """Counts in `cells`, which may be memory that is shared with another process."""

    def __init__(self, cells: MutableSequence[int] | None = None) -> None:
        self._lock = threading.Lock()
        self._cells = [0] * len(_STATES) if cells is None else cells

    @classmethod
    def shared(cls, new_array: Callable[[str, int], Any]) -> Self:
        """In memory that a forked process shares."""
        return cls(new_array("q", len(_STATES)))

    def clear(self) -> None:
        with self._lock:
            self._cells[:] = [0] * len(_STATES)

    def add(self, outcome: Outcome) -> None:
        with self._lock:
            self._cells[_STATES.index(outcome.state)] += 1

    def counts(self) -> WorkerCounts:
        with self._lock:
            return WorkerCounts(**{name.replace("-", "_"): self._cells[n] for n, name in enumerate(_STATES)})
