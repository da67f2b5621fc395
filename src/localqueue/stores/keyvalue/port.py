"""What a place for records must know about a kind of record, and what it can do."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from localqueue._dataclass import dataclass
from localqueue.errors import (
    PayloadError,
    QueueStoreClosedError,
    QueueStoreError,
    QueueStoreLockedError,
    QueueStoreVersionError,
)
from localqueue.policies.codec import JSON_CODEC
from localqueue.stores import fork

V = TypeVar("V")

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[V]):
    """What a place must know of its records.

    `columns` are the fields, in the order `make` takes them, each with the function that makes the field of what SQLite
    gives back, where that differs. As text a record is a JSON object of its fields; in SQLite it is a row of the table
    that `schema` makes.
    `ended` says when a record is done with: a field, the value it then has, and the field with the time of it.
    `application_id` marks a SQLite file, `locked` is the error for a place that another process holds.
    """

    name: str
    make: Callable[..., V]
    columns: Mapping[str, Callable[[Any], Any] | None]
    schema: str
    application_id: int
    locked: type[QueueStoreLockedError]
    ended: tuple[str, object, str] | None = None

    def encode(self, record: V) -> str:
        return to_json({name: getattr(record, name) for name in self.columns}, f"{self.name} records")

    def decode(self, text: str | bytes) -> V:
        return self.make(**JSON_CODEC.decode(text))

    def to_row(self, record: V) -> tuple[Any, ...]:
        fields = [getattr(record, name) for name in self.columns]
        return tuple([to_json(field, f"{self.name} records") if type(field) is dict else field for field in fields])

    def from_row(self, row: tuple[Any, ...]) -> V:
        fields = zip(self.columns.values(), row, strict=True)
        return self.make(*[field if read is None else read(field) for read, field in fields])

    def has_ended(self, record: V, until: float) -> bool:
        """Whether it is done with since `until` or longer."""
        if self.ended is None:
            return False
        name, value, time = self.ended
        ended_at = getattr(record, time)
        return getattr(record, name) == value and ended_at is not None and bool(ended_at <= until)

    @property
    def ended_rows(self) -> str:
        """The same as a condition of SQL on one parameter."""
        return "0 AND ?" if self.ended is None else "{} = {!r} AND {} <= ?".format(*self.ended)

    @contextmanager
    def worded(self) -> Iterator[None]:
        """Raises the errors of the layers that queue stores are built on as those of this kind of store."""
        try:
            yield
        except QueueStoreError as error:
            raise self.reword(error) from error.__cause__

    def reword(self, error: QueueStoreError) -> QueueStoreError:
        sort = self.locked if isinstance(error, QueueStoreLockedError) else type(error)
        return sort(str(error).replace("queue store", f"{self.name} store", 1), path=error.path)

    def closed(self, path: str) -> QueueStoreClosedError:
        return QueueStoreClosedError(f"the {self.name} store at {path!r} is closed", path=path)

    def foreign(self, path: str, what: str) -> QueueStoreVersionError:
        return QueueStoreVersionError(
            f"{path!r} is {what} of another program or another kind of store; nothing was changed, choose another "
            f"path for the {self.name} store",
            path=path,
        )

    def check_version(self, version: int, path: str, where: str) -> None:
        if version > VERSION:
            raise QueueStoreVersionError(
                f"unsupported {where} {self.name} schema version: {version}; expected at most {VERSION}: {path!r} was "
                "written by a newer localqueue, upgrade this one",
                path=path,
            )


class Records(ABC, Generic[V]):
    """A place that keeps records of one kind by key. Safe to use from many threads."""

    kind: Kind[V]
    path: str = ""

    def __repr__(self) -> str:
        return repr(self.path) if self.path else ""

    @abstractmethod
    def find(self, key: str) -> tuple[V | None, Any]:
        """The record, and how it is stored: something true that `swap` knows it by, or false when there is none."""

    @abstractmethod
    def put(self, key: str, value: V) -> None: ...

    @abstractmethod
    def swap(self, key: str, value: V, seen: Any) -> bool:
        """Save the value if what is there is still what `find` saw (false: nothing), in one step; whether it was."""

    @abstractmethod
    def delete(self, key: str) -> None: ...

    @abstractmethod
    def keys(self, prefix: str = "") -> list[str]: ...

    @abstractmethod
    def prune(self, until: float, *, dry_run: bool = False) -> int:
        """Remove (or count) the records that ended at `until` or before."""

    def close(self) -> None:
        """Give back what is open. Closing twice is harmless."""


class LockedRecords(Records[V]):
    """A place behind one lock, which is held while the process forks: its holder does not exist in the child."""

    def __init__(self, kind: Kind[V]) -> None:
        self.kind = kind
        self._lock = threading.Lock()
        fork.track(self)

    def hold_for_fork(self) -> None:
        self._lock.acquire()

    def go_on_after_fork(self) -> None:
        self._lock.release()

    def close_in_child(self) -> None:
        pass

    def reopen_in_child(self) -> None:
        self._lock = threading.Lock()


def to_json(value: Any, what: str) -> str:
    """JSON that reads back equal, or a `PayloadError` that says what of the value can not be kept."""
    try:
        return JSON_CODEC.encode(value)
    except PayloadError as error:
        raise PayloadError(str(error).replace("queue values", what, 1)) from error.__cause__
