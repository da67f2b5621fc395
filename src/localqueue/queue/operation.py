"""What a queue is about to do, for those who stand around it: tracing, timing.

A hook is told of what has happened. A hook that has a method `around` is also asked, before an operation, for a context
manager to do it in: there it can take the time, see the operation fail, and have headers travel with new messages. It
can not change the outcome: what it raises is logged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from localqueue.interrupts import asks_to_end
from localqueue.message import QueueMessage
from localqueue.queue.drafts import encode_headers
from localqueue.stores.port import Changes, Committed, Enqueued, NewMessage

Kind: TypeAlias = Literal["create", "send", "receive", "process", "settle"]


S = TypeVar("S")


class Operation:
    """One thing that is done to messages of one queue.

    `name` says it more closely where there are several of a `kind`: how messages are settled. `messages` are drafts,
    messages, or bare ids; those of a `receive` are there when it is done. `batch` is whether it is meant for several.
    Headers can be added while it is `open`. `lost` says how many were not settled, because their leases had run out.
    """

    __slots__ = ("batch", "kind", "lost", "messages", "name", "open", "queue", "where")

    def __init__(
        self,
        kind: Kind,
        queue: str,
        where: str,
        messages: Iterable[Any] = (),
        *,
        name: str | None = None,
        batch: bool | None = None,
        open: bool = False,
    ) -> None:
        self.kind = kind
        self.name = name or kind
        self.queue = queue
        self.where = where
        self.messages = list(messages)
        self.batch = len(self.messages) > 1 if batch is None else batch
        self.open = open
        self.lost = 0

    def add_headers(self, number: int, headers: Mapping[str, str]) -> None:
        """Have a new message carry these headers too. What its producer gave it stays as it is."""
        draft = self.messages[number]
        self.messages[number] = draft._replace(headers=encode_headers({**headers, **headers_of(draft)}))

    def note_stored(self, drafts: Sequence[NewMessage], enqueued: Sequence[Enqueued]) -> None:
        """The messages are stored, under these ids."""
        self.messages = [
            draft._replace(id=(one.existing or draft).id if one.id is None else one.id)
            for draft, one in zip(drafts, enqueued, strict=True)
        ]


class Probe(Protocol):
    """A hook that wants to stand around operations. One that `adds_headers` says so, because a put without headers
    is stored in a quicker way."""

    def around(self, operation: Operation) -> AbstractContextManager[object]: ...


class Watch(Generic[S]):
    """A `with` block in which operations happen, and their probes around them. `subject` is what it is about."""

    __slots__ = ("_entered", "_pairs", "_subject")

    def __init__(self, subject: S, pairs: Iterable[tuple[Probe, Operation]]) -> None:
        self._subject = subject
        self._pairs = pairs
        self._entered: list[tuple[Probe, AbstractContextManager[object]]] = []

    def __enter__(self) -> S:
        for probe, operation in self._pairs:
            around = _harmless(probe, _entered, probe, operation)
            if around is not None:
                self._entered.append((probe, around))
        return self._subject

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for probe, around in reversed(self._entered):
            _harmless(probe, around.__exit__, kind, error, trace)


class CommitOperations:
    """The operations that are one commit: what it sends, settles and receives, each for its queue."""

    def __init__(self, changes: Changes, messages: Iterable[QueueMessage[Any] | str], where: str) -> None:
        known = {one.id: one for one in messages if isinstance(one, QueueMessage)}
        self._sends: dict[str, list[int]] = {}
        for number, draft in enumerate(changes.enqueue):
            self._sends.setdefault(draft.queue, []).append(number)
        self._settles: dict[tuple[str, str], list[int]] = {}
        for number, settle in enumerate(changes.settle):
            self._settles.setdefault((settle.queue, settle.action), []).append(number)
        self._changes = changes
        self.sending = [
            Operation("send", queue, where, [changes.enqueue[number] for number in numbers])
            for queue, numbers in self._sends.items()
        ]
        self.settling = [
            Operation("settle", queue, where, [known.get(id, id) for id in self._ids(numbers)], name=action)
            for (queue, action), numbers in self._settles.items()
        ]
        lease = changes.lease
        self.receiving = [] if lease is None else [Operation("receive", lease.queue, where, batch=lease.limit != 1)]

    def __iter__(self) -> Iterator[Operation]:
        return chain(self.sending, self.settling, self.receiving)

    def note(self, committed: Committed) -> None:
        """The commit is done, and this came of it."""
        for sending, numbers in zip(self.sending, self._sends.values(), strict=True):
            drafts = [self._changes.enqueue[number] for number in numbers]
            sending.note_stored(drafts, [committed.enqueued[number] for number in numbers])
        for settling, numbers in zip(self.settling, self._settles.values(), strict=True):
            settling.lost = sum(not committed.settled[number] for number in numbers)
        for receiving in self.receiving:
            receiving.messages = list(committed.leased)

    def _ids(self, numbers: Sequence[int]) -> list[str]:
        return [self._changes.settle[number].id for number in numbers]


def headers_of(message: Any) -> dict[str, str]:
    """The headers of a draft or message, as a dictionary; a bare id, or a text that can not be read, has none."""
    headers = getattr(message, "headers", None)
    if isinstance(headers, str):
        try:
            headers = json.loads(headers)
        except ValueError:
            return {}
    return dict(headers) if isinstance(headers, Mapping) else {}


def _entered(probe: Probe, operation: Operation) -> AbstractContextManager[object]:
    around = probe.around(operation)
    around.__enter__()
    return around


def _harmless(probe: Probe, call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except BaseException as failure:
        if asks_to_end(failure):
            raise
        import logging

        logging.getLogger("localqueue.events").error("hook %r failed around an operation", probe, exc_info=failure)
        return None
