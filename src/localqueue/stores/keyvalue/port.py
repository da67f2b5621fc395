"""What a place for records can do, and what it must know about a kind of record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from localqueue.errors import PayloadError, QueueStoreClosedError, QueueStoreError, QueueStoreLockedError
from localqueue.policies.codec import JSON_CODEC

V = TypeVar("V")


def _never(_: Any) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[V]):
    """One kind of record: its name, and its shape in each place.

    `encode` and `decode` make it text. In SQLite it is a row of the table that `schema` makes: the column `key` and
    `columns`, in the order of `to_row` and `from_row`. A record is done with at `ended_at`, None while it is needed;
    `ended_rows` is the same as a condition of SQL on one parameter, the time until which to look. `application_id`
    marks the file. `locked` is the error for a place that another process holds.
    """

    name: str
    encode: Callable[[V], str]
    decode: Callable[[str | bytes], V]
    columns: tuple[str, ...]
    to_row: Callable[[V], tuple[Any, ...]]
    from_row: Callable[[tuple[Any, ...]], V]
    schema: str
    application_id: int
    locked: type[QueueStoreLockedError]
    ended_at: Callable[[V], float | None] = _never
    ended_rows: str = "0 AND ?"

    def reword(self, error: QueueStoreError) -> QueueStoreError:
        """An error of the layers that queue stores are built on, as one of this kind of store."""
        sort = self.locked if isinstance(error, QueueStoreLockedError) else type(error)
        return sort(str(error).replace("queue store", f"{self.name} store", 1), path=error.path)

    def closed(self, path: str) -> QueueStoreClosedError:
        return QueueStoreClosedError(f"the {self.name} store at {path!r} is closed", path=path)


class Records(ABC, Generic[V]):
    """A place that keeps records of one kind by key. Safe to use from many threads."""

    kind: Kind[V]

    @abstractmethod
    def get(self, key: str) -> V | None: ...

    @abstractmethod
    def put(self, key: str, value: V) -> None: ...

    @abstractmethod
    def put_unless(self, key: str, value: V, blocks: Callable[[V], bool]) -> V | None:
        """Save the value, unless the record that is there blocks it: then change nothing and return that record.

        No other writer, of any process, comes between the look and the write.
        """

    @abstractmethod
    def delete(self, key: str) -> None: ...

    @abstractmethod
    def keys(self, prefix: str = "") -> list[str]: ...

    @abstractmethod
    def prune(self, until: float, *, dry_run: bool = False) -> int:
        """Remove (or count) the records that ended at `until` or before."""

    def close(self) -> None:
        """Give back what is open. Closing twice is harmless."""


class KeyedStore(Generic[V]):
    """What attempt, idempotency and result stores share: the place they keep their records in."""

    def __init__(self, records: Records[V]) -> None:
        self._records = records

    def delete(self, key: str) -> None:
        """Forget the record; harmless when there is none."""
        self._records.delete(check_key(key))

    def close(self) -> None:
        """Give back what is open. Closing twice is harmless."""
        self._records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._records!r})"


def check_key(key: str) -> str:
    """Return the key when every place can hold it."""
    if not isinstance(key, str):
        raise TypeError(f"key must be a string, not {key!r}")
    if not key:
        raise ValueError("key cannot be empty")
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError:
            raise ValueError(f"key {key!r} is not valid Unicode") from None
    if "\0" in key:
        raise ValueError(f"key {key!r} cannot contain a NUL character")
    return key


def until(*, older_than: float, now: float) -> float:
    if older_than < 0:
        raise ValueError("older_than cannot be negative")
    return now - older_than


def to_json(value: Any, what: str) -> str:
    """JSON that reads back equal, or a `PayloadError` that says what of the value can not be kept."""
    try:
        return JSON_CODEC.encode(value)
    except PayloadError as error:
        raise PayloadError(str(error).replace("queue values", what, 1)) from error.__cause__
