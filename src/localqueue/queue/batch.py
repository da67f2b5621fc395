"""The messages that one `put_many` stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from localqueue.message import QueueMessage, T


class StoredBatch(Sequence[QueueMessage[T]]):
    """Messages in the order they were put, each made when it is looked at: most callers never look."""

    __slots__ = ("_count", "_make")

    def __init__(self, count: int, make: Callable[[int], QueueMessage[T]]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> QueueMessage[T]: ...
    @overload
    def __getitem__(self, index: slice) -> list[QueueMessage[T]]: ...
    def __getitem__(self, index: int | slice) -> QueueMessage[T] | list[QueueMessage[T]]:
        places = range(self._count)[index]
        return self._make(places) if isinstance(places, int) else [self._make(place) for place in places]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"StoredBatch({list(self)!r})"
