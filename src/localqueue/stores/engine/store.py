"""What a store on the engine does not write itself: the calls of the port that are a transaction and a decision."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar, cast

from localqueue.events.journal import JournalEvent
from localqueue.stores import rules
from localqueue.stores.engine import operations, pieces
from localqueue.stores.engine.commit import apply, put_pages
from localqueue.stores.engine.row import CODE, DEAD
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import Changes, Lease, Limit, NewMessage, Page, Payload, Put, RecordWrite, Settle
from localqueue.stores.shell import Shell

T = TypeVar("T")

_LARGEST_KEY = (1 << 63) - 1


class EngineStore(Shell):
    """A store whose commits the engine decides. One that has one writer at a time leaves others time to take their turn
    between the pieces of an operation: longer than they wait before they ask again."""

    _pause_between_pieces = 0.0

    def __init__(self, *, namespace: str, durability: str = "process", read_only: bool = False) -> None:
        super().__init__(namespace=namespace, durability=durability, read_only=read_only)
        self.queue_ids: dict[str, int] = {}

    @abstractmethod
    def now(self) -> float: ...
    def _find_queue(self, name: str) -> int | None:
        """The number of a queue, if it is there."""
        known = self.queue_ids.get(name)
        if known is None and (known := self._look_up_queue(name)) is not None:
            self.queue_ids[name] = known
        return known

    @abstractmethod
    def _look_up_queue(self, name: str) -> int | None:
        """The number of a queue, as the store has it."""

    @abstractmethod
    def _write(self, work: Callable[[Unit], T], queues: Sequence[str] = ()) -> T:
        """Run work in a transaction of its own, which may hold these queues from its beginning on, then wake whoever
        waits for what it changed."""

    @abstractmethod
    def _prunable(self, queue: int, state: int, until: float) -> int:
        """How many messages left delivery for a state until then."""

    @abstractmethod
    def _events(self, after: int, limit: int | None, queue: int | None) -> list[JournalEvent]: ...

    def events(self, after: int = 0, limit: int | None = None, queue: str | None = None) -> list[JournalEvent]:
        after = rules.entry_behind(after)
        number = None if queue is None else self._find_queue(queue)
        return [] if queue is not None and number is None else self._events(after, limit, number)

    def _settle_one(self, one: Settle) -> bool:
        return self._write(lambda unit: apply(unit, Changes(settle=(one,), strict=False)), [one.queue]).settled[0]

    def _put_batch(
        self,
        queue: str,
        keys: range,
        payloads: Sequence[Payload],
        codec: str | None,
        records: Sequence[RecordWrite],
    ) -> tuple[range, float]:
        def work(unit: Unit) -> tuple[range, float]:
            unit.write_records(records)
            new = zip(map(self.ids.id_of, keys), payloads, strict=True)
            done = apply(
                unit, Changes(enqueue=[NewMessage(one, queue, payload, codec) for one, payload in new])
            ).enqueued
            first = self.ids.key_of(done[0].id) if done and done[0].id is not None else None
            return keys if first is None else range(first, first + len(keys)), unit.now

        return self._write(work)

    def _put_pages(
        self,
        pages: Iterable[Page],
        records: Sequence[RecordWrite],
        limits: Mapping[str, Limit],
        topics: Mapping[str, int],
        receipt: tuple[str, str] | None,
    ) -> Put:
        return self._write(lambda unit: put_pages(unit, pages, records, limits, topics, receipt, self._admit_page))

    def _admit_page(self, unit: Unit, page: Page) -> None:
        """Called inside of the transaction before a page is put, for a store that has to look at the room it needs, or
        to lock something first."""

    def renew(self, leases: Sequence[Lease], *, timeout: float) -> list[float | None]:
        return self._write(lambda unit: operations.renew(unit, leases, timeout))

    def requeue(self, queue: str, ids: Sequence[str] | None = None, *, delay: float = 0.0) -> int:
        self._require_writable()
        number = self._find_queue(queue)
        if number is None:
            return 0
        if ids is not None:
            return self._write(lambda unit: operations.requeue(unit, queue, ids, delay), [queue])
        until: float | None = None  # not now: the clock may have been set back since they died

        def some(unit: Unit, behind: operations.Behind, limit: int) -> tuple[int, operations.Behind | None]:
            nonlocal until
            if until is None:
                until = unit.rows.last_ended(number, DEAD)
            return operations.requeue_dead(unit, number, delay, until, behind, limit)

        return self._in_pieces(queue, some, (0.0, 0))

    def prune(self, queue: str, *, state: str, older_than: float, dry_run: bool = False) -> int:
        rules.check_ended(state)
        if not dry_run:
            self._require_writable()
        number, until = self._find_queue(queue), self.now() - older_than
        if number is None:
            return 0
        if dry_run:
            return self._prunable(number, CODE[state], until)
        ended = (number, CODE[state], until)
        return self._in_pieces(queue, lambda unit, _, limit: operations.prune(unit, *ended, limit), True)

    def purge(self, queue: str) -> int:
        self._require_writable()
        number = self._find_queue(queue)
        if number is None:
            return 0
        return self._in_pieces(queue, lambda unit, behind, limit: operations.purge(unit, number, behind, limit), 0)

    def cancel_run(self, run_id: str) -> int:
        return self._in_pieces(
            None, lambda unit, before, limit: operations.cancel_run(unit, run_id, before, limit), _LARGEST_KEY
        )

    def _in_pieces(self, queue: str | None, work: Callable[[Unit, T, int], tuple[int, T | None]], first: T) -> int:
        """How many messages were changed. A piece is told what the one before said, until that is None, and how many
        messages it may have."""
        count, size, begun = 0, pieces.FIRST, 0.0
        behind: T | None = first

        def one(unit: Unit) -> tuple[int, T | None]:
            nonlocal begun
            begun = time.monotonic()
            return work(unit, cast("T", behind), size)

        while True:
            some, behind = self._write(one, [queue] if queue else [])
            count += some
            if behind is None:
                return count
            size = pieces.next_size(size, time.monotonic() - begun)
            time.sleep(self._pause_between_pieces)

    def _set_subscription(self, topic: str, subscriber: str, wanted: bool) -> bool:
        return self._write(lambda unit: unit.rows.subscribe(unit.rows.queue(topic), subscriber, wanted), [topic])

    def _set_paused(self, queue: str, worker: str | None, paused: bool) -> None:
        def work(unit: Unit) -> None:
            number = unit.rows.queue(queue)
            unit.changed_queues.add(number)
            unit.rows.pause(number, worker, unit.now if paused else None)

        self._write(work, [queue])
