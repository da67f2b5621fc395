"""What is remembered of a retried call, and the store protocol for it."""

from __future__ import annotations

import time
from typing import Protocol, Self

from localqueue._dataclass import dataclass


@dataclass(slots=True)
class RetryRecord:
    """The failed attempts of one key: how many, since when, and whether its budget is used up."""

    attempts: int = 0
    first_attempt_at: float = 0.0
    exhausted: bool = False

    @classmethod
    def new(cls) -> Self:
        """The record of a key whose first attempt starts now."""
        return cls(first_attempt_at=time.time())


class AttemptStore(Protocol):
    """Protocol for custom attempt stores. A store must be usable from any thread.

    One that several hosts share may also have `now()`, seconds since the epoch on a clock that is the same for all of
    them: then times are kept and compared by it.
    """

    def load(self, key: str) -> RetryRecord | None: ...

    def save(self, key: str, record: RetryRecord) -> None: ...

    def delete(self, key: str) -> None: ...

    def prune_exhausted(self, *, older_than: float, now: float) -> int:
        """Remove the exhausted records whose first attempt is at least `older_than` seconds ago; how many."""

    def count_exhausted_older_than(self, *, older_than: float, now: float) -> int:
        """How many records `prune_exhausted` would remove."""
