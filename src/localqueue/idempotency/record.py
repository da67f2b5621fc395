"""What the ledger knows of a key, who may start work on it, and the store protocol."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal, Protocol, Self

from localqueue._dataclass import dataclass, field

Status = Literal["pending", "succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """One key of the ledger. `result_key` says where the result is; `metadata` is free-form.

    A pending record holds its key for `metadata["owner"]` until the time `metadata["until"]`.
    """

    status: Status
    first_seen_at: float
    completed_at: float | None = None
    result_key: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def pending(cls, *, first_seen_at: float | None = None, metadata: Mapping[str, Any] | None = None) -> Self:
        """The record of work that starts now."""
        seen = time.time() if first_seen_at is None else first_seen_at
        return cls("pending", seen, metadata=dict(metadata or {}))


def excludes(existing: IdempotencyRecord, newcomer: IdempotencyRecord, now: float) -> bool:
    """Whether the existing record keeps the newcomer from starting: it succeeded, or another owner is at work.

    A record without an owner is nobody's own, so it excludes everybody until its time is over.
    """
    if existing.status != "pending":
        return existing.status == "succeeded"
    until, owner = existing.metadata.get("until"), existing.metadata.get("owner")
    if until is None or until <= now:
        return False
    return owner is None or owner != newcomer.metadata.get("owner")


class IdempotencyStore(Protocol):
    """Protocol for custom idempotency stores. A store must be usable from any thread.

    The stores of this package also have `begin`, which makes a key in progress elsewhere exclude. One that several
    hosts share may also have `now()`, a clock that is the same for all of them: then times are kept and compared by it.
    """

    def load(self, key: str) -> IdempotencyRecord | None: ...

    def save(self, key: str, record: IdempotencyRecord) -> None: ...

    def delete(self, key: str) -> None: ...

    def prune_completed(self, *, older_than: float, now: float) -> int:
        """Remove the succeeded records that were completed at least `older_than` seconds ago; how many."""

    def count_completed_older_than(self, *, older_than: float, now: float) -> int:
        """How many records `prune_completed` would remove."""
