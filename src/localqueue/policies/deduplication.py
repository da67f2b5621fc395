"""Whether two puts can be recognised as the same piece of work."""

from __future__ import annotations

from typing import Any, Protocol

from localqueue._dataclass import dataclass
from localqueue.policies._described import Described


class DeduplicationPolicy(Protocol):
    """Names whether the queue tracks stable dedupe keys."""

    @property
    def deduplication(self) -> bool: ...

    @property
    def accepts_dedupe_key(self) -> bool: ...

    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class DedupeKeySupport(Described):
    """A put may carry a `dedupe_key`; while that key is stored, a second put adds nothing."""

    deduplication: bool = True
    accepts_dedupe_key: bool = True


@dataclass(frozen=True, slots=True)
class NoDeduplication(Described):
    """Every put is its own message, and a put with a `dedupe_key` is refused."""

    deduplication: bool = False
    accepts_dedupe_key: bool = False


DEDUPE_KEY_SUPPORT = DedupeKeySupport()
NO_DEDUPLICATION = NoDeduplication()
