"""The messages that one `put_many` stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, overload

from localqueue.message import QueueMessage

T = TypeVar("T")


class StoredBatch(Sequence[QueueMessage[T]]):
    """Messages in the order they were put, each made when it is looked at: most callers never look."""

    __slots__ = ("_at", "_ids", "_queue", "_values")

    def __init__(self, queue: str, values: Sequence[T], ids: Sequence[str], at: float) -> None:
        self._queue = queue
        self._values = values
        self._ids = ids
        self._at = at

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> QueueMessage[T]: ...
    @overload
    def __getitem__(self, index: slice) -> list[QueueMessage[T]]: ...
    def __getitem__(self, index: int | slice) -> QueueMessage[T] | list[QueueMessage[T]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return QueueMessage(
            self._ids[index], self._values[index], self._queue, created_at=self._at, available_at=self._at
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"StoredBatch({list(self)!r})"
