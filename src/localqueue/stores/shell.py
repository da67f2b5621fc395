"""What every store is around its own work: the checks of what it is given, its life, and who watches its calls."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from localqueue.errors import IdTaken, QueueStoreReadOnlyError
from localqueue.ids import IdRange, Mint
from localqueue.stores import rules
from localqueue.stores.arguments import check_calls, check_page
from localqueue.stores.port import (
    Changes,
    Committed,
    Compacted,
    Lease,
    LeaseRequest,
    Limit,
    NewMessage,
    Page,
    Payload,
    Put,
    RecordWrite,
    StoredMessage,
    Transition,
)
from localqueue.stores.receipts import Placed, placed, written_receipt

SERVER_CALLS_AT_ONCE = 8
_PROMPT = 0.1  # seconds, and a quarter of the lease: what a claim may take of it


class _Watched(threading.local):
    seen: list[Transition] | None = None


class Shell(ABC):
    """The base of every store. `read_only` is one that was opened to look: it makes nothing and changes nothing."""

    ids: Mint

    #: How many calls are worth making at a time: one where all of them take turns anyway.
    calls_at_once: int = 1

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        check_calls(cls)

    def __init__(self, *, namespace: str, durability: str = "process", read_only: bool = False) -> None:
        if durability not in ("process", "power"):
            raise ValueError(f"durability must be 'process' or 'power', not {durability!r}")
        if not isinstance(namespace, str):
            raise TypeError(f"namespace must be a string, not {namespace!r}")
        if not namespace:
            raise ValueError("namespace cannot be empty")
        self.durability = durability
        self.read_only = read_only
        self._namespace = namespace
        self._watched = _Watched()

    @property
    def namespace(self) -> str:
        return self._namespace

    @property
    @abstractmethod
    def url(self) -> str:
        """Where the store is, without any password."""

    @abstractmethod
    def close(self) -> None:
        """Closing twice is harmless; any other call after it raises `QueueStoreClosedError`."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, namespace={self._namespace!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def mint(self, count: int = 1) -> list[str]:
        return self.ids.take(count)

    @contextmanager
    def observe(self) -> Iterator[list[Transition]]:
        """A store adds to `_watched.seen`, when it is not None, after each commit of a call."""
        outer, seen = self._watched.seen, list[Transition]()
        self._watched.seen = seen
        try:
            yield seen
        finally:
            self._watched.seen = outer

    def _require_writable(self) -> None:
        if self.read_only:
            raise QueueStoreReadOnlyError(
                f"the store at {self.url!r} was opened to look (read_only=True): nothing was changed; open it without "
                "read_only to write",
                path=self.url,
            )

    def put_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None, *, records: Sequence[RecordWrite] = ()
    ) -> tuple[Sequence[str], float]:
        self._require_writable()
        while True:
            first = self.ids.reserve(len(payloads))
            try:
                keys, at = self._put_batch(queue, range(first, first + len(payloads)), payloads, codec, records)
                return IdRange(self.ids, keys), at
            except IdTaken:  # another process minted one of these keys
                continue

    def put_pages(
        self,
        pages: Iterable[Page],
        *,
        records: Sequence[RecordWrite] = (),
        limits: Mapping[str, Limit] | None = None,
        topics: Mapping[str, int] | None = None,
        receipt: tuple[str, str] | None = None,
    ) -> Put:
        self._require_writable()
        while True:
            try:
                return self._put_pages(pages, records, limits or {}, topics or {}, receipt)
            except IdTaken:  # another process minted one of these keys
                continue

    def _put_pages(
        self,
        pages: Iterable[Page],
        records: Sequence[RecordWrite],
        limits: Mapping[str, Limit],
        topics: Mapping[str, int],
        receipt: tuple[str, str] | None,
    ) -> Put:
        """All of them in one commit, for a store that has nothing better."""
        messages: list[NewMessage] = []
        places: list[Placed] = []
        for page in pages:
            check_page(page)
            first = self.ids.reserve(len(page.payload))
            keys = range(first, first + len(page.payload))
            messages += page.messages([self.ids.id_of(key) for key in keys])
            places += placed(self.ids, page, limits, keys) if keys else ()
        if receipt is not None:
            records = [*records, written_receipt(receipt, places)]
        changes = Changes(messages, records=records, limits=limits, topics=topics, keep_ids=receipt is not None)
        done = self.commit(changes).enqueued
        found = Counter(one.outcome for one in done)
        at = done[0].at if done else self.now()
        return Put(at, found["stored"] + found["diverted"], found["duplicate"], found["dropped"])

    @abstractmethod
    def now(self) -> float: ...
    @abstractmethod
    def commit(self, changes: Changes) -> Committed: ...

    def _whole(self, messages: list[StoredMessage], request: LeaseRequest, began: float) -> list[StoredMessage]:
        """What was claimed by a call that began then, by the monotonic clock. One that waited on the server after it
        was told the time has used up some of its leases: they are renewed, and what was lost meanwhile is left out."""
        if self._is_whole(messages, request, began):
            return messages
        leases = [Lease(request.queue, one.id, one.attempts) for one in messages]
        renewed = zip(messages, self.renew(leases, timeout=request.timeout), strict=True)
        return [one._replace(leased_until=until) for one, until in renewed if until is not None]

    def _is_whole(self, messages: list[StoredMessage], request: LeaseRequest, began: float) -> bool:
        return not messages or request.consume or self._is_prompt(began, request.timeout)

    def _is_prompt(self, began: float, lease: float) -> bool:
        """Whether a call that began then has left most of a lease."""
        return time.monotonic() - began < max(_PROMPT, lease / 4)

    @abstractmethod
    def renew(self, leases: Sequence[Lease], *, timeout: float) -> list[float | None]: ...

    # calls of the port that differ in a word

    def subscribe(self, topic: str, subscriber: str) -> bool:
        return self._set_subscription(topic, subscriber, True)

    def unsubscribe(self, topic: str, subscriber: str) -> bool:
        return self._set_subscription(topic, subscriber, False)

    def pause(self, queue: str, *, worker: str | None = None) -> None:
        self._set_paused(queue, worker, True)

    def resume(self, queue: str, *, worker: str | None = None) -> None:
        self._set_paused(queue, worker, False)

    def enable_journal(self, *, keep_seconds: float | None = None, keep_events: int | None = None) -> None:
        rules.check_retention(keep_seconds, keep_events)
        self._set_journal(True, keep_seconds, keep_events)

    def disable_journal(self) -> None:
        self._set_journal(False, None, None)

    def scan(
        self,
        queue: str,
        *,
        state: str | None = None,
        after: str | None = None,
        until: str | None = None,
        limit: int | None = None,
    ) -> list[StoredMessage]:
        rules.check_state(state)
        rules.check_after(self.ids, after)
        return self._scan(queue, state, after, rules.last_wanted(self.ids, state, until), limit)

    def run_messages(self, run_id: str, *, after: str | None = None, limit: int | None = None) -> list[StoredMessage]:
        rules.check_after(self.ids, after)
        return self._run_messages(run_id, after, limit)

    def compact(self) -> Compacted:
        self._require_writable()
        return self._compact()

    def splits(self, queue: str, parts: int) -> list[str]:
        return self._splits(queue, rules.check_parts(parts))

    @abstractmethod
    def _put_batch(
        self,
        queue: str,
        keys: range,
        payloads: Sequence[Payload],
        codec: str | None,
        records: Sequence[RecordWrite],
    ) -> tuple[range, float]:
        """Store messages without options under these keys, or newer ones; which, and when. The records come first, so
        that a batch that is refused costs little."""

    @abstractmethod
    def _set_subscription(self, topic: str, subscriber: str, wanted: bool) -> bool: ...
    @abstractmethod
    def _set_paused(self, queue: str, worker: str | None, paused: bool) -> None: ...
    @abstractmethod
    def _set_journal(self, enabled: bool, keep_seconds: float | None, keep_events: int | None) -> None: ...
    @abstractmethod
    def _scan(
        self, queue: str, state: str | None, after: str | None, last: int | None, limit: int | None
    ) -> list[StoredMessage]: ...
    @abstractmethod
    def _run_messages(self, run_id: str, after: str | None, limit: int | None) -> list[StoredMessage]: ...
    def _compact(self) -> Compacted:
        """A store that has nothing to give back leaves this as it is."""
        return Compacted()

    @abstractmethod
    def _splits(self, queue: str, parts: int) -> list[str]: ...


check_calls(Shell)
