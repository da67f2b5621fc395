"""What clients asked of a store and what they were told, written down so that it outlives a client that is killed.

A client writes a line before it asks and another when it was told. So of each operation it is known when it began, and
that it was confirmed, refused, or that nobody knows: then it happened whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

Answer = Literal["ok", "refused", "unknown"]

#: No message has left, no lease has ended: later than anything that happened.
NEVER = float("inf")


class Put(NamedTuple):
    """A message to put. Its name is its payload, is put by one operation only, and says where it belongs."""

    queue: str
    name: str
    ordering_key: str | None = None
    dedupe_key: str | None = None
    after: tuple[str, ...] = ()
    delay: float = 0.0
    ttl: float | None = None
    priority: int = 0


class Stored(NamedTuple):
    """What became of a put: `existing` is the name of the message that has its dedupe key."""

    outcome: str
    id: str
    existing: str | None = None


class Ending(NamedTuple):
    """How a delivery is to end. `most` is the attempt limit that goes with it."""

    queue: str
    name: str
    action: str
    token: int | None
    most: int | None = None


class Claim(NamedTuple):
    queue: str
    limit: int
    timeout: float
    worker: str | None
    most: int | None = None
    consume: bool = False


class Handed(NamedTuple):
    """A message that was handed out. `queue` is the one it says it is in."""

    name: str
    queue: str
    id: str
    token: int
    tries: int
    until: float | None
    expires_at: float | None


class Bound(NamedTuple):
    """The limit of a queue that a put names, and the queue that takes what does not fit, if one does."""

    queue: str
    maxsize: int
    overflow: str
    spill: str | None = None


@dataclass(slots=True)
class Operation:
    """One call of a client. Times are those of the machine's monotonic clock, which all processes share."""

    who: str
    n: int
    verb: str
    namespace: str
    start: float
    puts: tuple[Put, ...] = ()
    endings: tuple[Ending, ...] = ()
    claim: Claim | None = None
    record: str | None = None
    bound: Bound | None = None
    queue: str | None = None
    end: float = NEVER
    answer: Answer = "unknown"
    stored: tuple[Stored, ...] = ()
    ended: tuple[bool, ...] = ()
    handed: tuple[Handed, ...] = ()
    value: Any = None
    error: str | None = None

    def asked(self) -> bytes:
        return _line(
            self.n, self.start, self.verb, self.namespace, self.puts, self.endings, self.claim, self.record, self.bound,
            self.queue,
        )  # fmt: skip

    def told(self) -> bytes:
        return _line(self.n, self.end, self.answer, self.stored, self.ended, self.handed, self.value, self.error)

    def hear(self, line: list[Any]) -> None:
        _, self.end, self.answer, stored, ended, handed, self.value, self.error = line
        self.stored = tuple(Stored(*one) for one in stored)
        self.ended = tuple(ended)
        self.handed = tuple(Handed(*one) for one in handed)
        if self.answer == "unknown":
            self.end = NEVER  # it may still happen

    def __str__(self) -> str:
        return f"{self.who}#{self.n} {self.verb}"


def _line(*fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


class Notebook(Protocol):
    """Where a client writes its lines."""

    def write(self, line: bytes) -> None: ...


class Pages:
    """Kept in memory, for clients that nobody kills."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.lines.append(line)


class PagesOnDisk:
    """A line is with the system when `write` returns, whatever becomes of the process."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o666)

    def write(self, line: bytes) -> None:
        os.write(self._file, line)


def read(who: str, lines: Iterable[bytes]) -> Iterator[Operation]:
    """The operations of one client in the order they began."""
    last: Operation | None = None
    for line in lines:
        try:
            fields = json.loads(line)
        except ValueError:  # killed within the line
            continue
        if isinstance(fields[2], str) and fields[2] in ("ok", "refused", "unknown"):
            if last is not None and last.n == fields[0]:
                last.hear(fields)
            continue
        if last is not None:
            yield last
        last = _begun(who, fields)
    if last is not None:
        yield last


def _begun(who: str, fields: list[Any]) -> Operation:
    n, start, verb, namespace, puts, endings, claim, record, bound, queue = fields
    return Operation(
        who, n, verb, namespace, start,
        tuple(Put(*one[:4], tuple(one[4]), *one[5:]) for one in puts),
        tuple(Ending(*one) for one in endings),
        None if claim is None else Claim(*claim),
        record,
        None if bound is None else Bound(*bound),
        queue,
    )  # fmt: skip


def read_folder(folder: Path) -> list[Operation]:
    """The operations of all clients that left a file, by the time they began."""
    operations: list[Operation] = []
    for path in sorted(folder.glob("*.history")):
        with path.open("rb") as lines:
            operations += read(path.stem, lines)
    return sorted(operations, key=lambda one: one.start)


class Held(NamedTuple):
    """A message that the store still has when everything is over."""

    namespace: str
    queue: str
    name: str
    id: str
    state: str
    dedupe_key: str | None = None
    ordering_key: str | None = None


@dataclass(slots=True)
class Final:
    """What the store has in the end: messages, the keys of its records by namespace, how many messages each queue of a
    namespace says it dropped, what its own check complains about, and what is wrong with its journal: each a text and
    the entries that show it."""

    held: list[Held] = field(default_factory=list)
    records: set[tuple[str, str]] = field(default_factory=set)
    dropped: dict[tuple[str, str], int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    journal: list[list[str]] = field(default_factory=list)
