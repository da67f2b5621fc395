"""Transactions in which the engine decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from localqueue._dataclass import replace
from localqueue.stores.engine.commit import apply
from localqueue.stores.engine.leases import lease
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import Changes, Committed, Transition
from localqueue.stores.postgres import errors
from localqueue.stores.postgres.locks import Locks, locks_of
from localqueue.stores.postgres.notify import Changed, Notifies
from localqueue.stores.postgres.rows import Anew, PostgresRows, rows_of

T = TypeVar("T")

#: What begins a transaction that holds these locks and queues: the connection it is on, and the time in it.
Transaction = Callable[[Locks, set[int]], AbstractContextManager[tuple[Any, float]]]

_LOOKED_UP = "".join(
    f", pg_catalog.set_config('{setting}', 'off', true)"
    for setting in ("enable_hashjoin", "enable_mergejoin", "enable_seqscan", "enable_bitmapscan", "jit")
)


class Done(NamedTuple):
    result: Any
    rows: PostgresRows
    changed: Changed
    transitions: list[Transition]


def work_of(changes: Changes) -> tuple[list[str], Callable[[Unit], Committed]]:
    """The queues that a commit names, and what it does. Those it makes are made first and always in the same order, so
    that two that make the same never wait in a circle."""
    made = {message.queue for message in changes.enqueue} | set(changes.topics)
    made.update(limit.overflow_queue for limit in changes.limits.values() if limit.overflow_queue is not None)
    others = {one.queue for one in changes.settle} | ({changes.lease.queue} if changes.lease is not None else set())

    def work(unit: Unit) -> Committed:
        for name in sorted(made):
            unit.rows.queue(name)
        request = changes.lease
        if request is None or request.consume:
            return apply(unit, changes)
        committed = apply(unit, replace(changes, lease=None))
        unit.flush()
        leased = rows_of(unit).claim_at_once(request, unit)
        committed.leased = leased if leased is not None else lease(unit, request, settle_all=True) or []
        return committed

    return [*made, *others], work


class Writer(Notifies):
    """Runs such transactions, and tells those who wait of what they changed."""

    _end_if_idle: str
    _lock_timeouts: tuple[str, str]  # for what is locked first, and for what is waited for with a queue in hand

    def _write(
        self, work: Callable[[Unit], T], queues: Sequence[str] = (), *, locked: bool = True, locks: Locks = ()
    ) -> T:
        """Run work in a transaction that holds these queues, then wake whoever waits for what it changed.

        Not `locked` is for work that decides nothing about them.
        """
        self._require_writable()
        seen = self._watched.seen

        def rows_on(connection: Any, now: float, held: set[int], guarded: bool) -> PostgresRows:
            return PostgresRows(self, connection, now, held if locked else None, guarded=guarded)

        done = self._patiently(
            lambda: self.decide(
                self._transaction, rows_on, work, queues if locked else (), locks, observed=seen is not None
            )
        )
        self.queue_ids.update(done.rows.new_queues)
        self.queue_names.update(done.rows.new_names)
        self._wake_for(done.changed)
        if seen is not None:
            seen += done.transitions
        result: T = done.result
        return result

    def decide(
        self,
        transaction: Transaction,
        rows_on: Callable[[Any, float, set[int], bool], PostgresRows],
        work: Callable[[Unit], Any],
        queues: Sequence[str] = (),
        locks: Locks = (),
        *,
        observed: bool = False,
        commit: bool = True,
    ) -> Done:
        """Run work in a transaction, and in another one when that is what it takes."""
        needed: set[int] = set()
        first = dict(locks)
        guarded = True
        while True:
            held = needed | {row for name in queues if (row := self.queue_ids.get(name)) is not None}
            try:
                with transaction(sorted(first.items()), held) as (connection, now):
                    rows = rows_on(connection, now, held, guarded)
                    unit = Unit(rows, now, observed=observed)
                    result = work(unit)
                    transitions = unit.finish()
                    changed = rows.changed(unit)
                    rows.finish(changed, commit=commit)
                    return Done(result, rows, changed, transitions)
            except Anew as anew:
                needed.update(anew.queues)
                first.update(anew.locks)
            except self._driver_error as error:
                if not guarded or not errors.is_dedupe_key_taken(error):
                    raise
                guarded = False

    @contextmanager
    def _transaction(self, locks: Locks, held: set[int]) -> Iterator[tuple[Any, float]]:
        with self._pool.connection() as connection:
            try:
                yield connection, self._begin(connection, locks, held)
            except self._driver_error:
                # By the driver, which then forgets what it has prepared: of a pipeline that failed it believes more
                # than the server has.
                with suppress(self._driver_error):
                    connection.rollback()
                raise

    def _begin(self, connection: Any, locks: Locks, queues: set[int]) -> float:
        """Begin a transaction that holds these locks and queues; the time in it.

        One round trip without a pipeline: behind one the server would not end a transaction that idles. Only numbers
        are written into the text. Plans are not left to statistics: rows are looked up one by one, by index.
        """
        now = self._given_now()
        given = "NULL" if now is None else repr(float(now))
        locked = ",".join(str(lock) for lock, _ in locks)
        shared = ",".join(str(shared) for _, shared in locks)
        held = ",".join(map(str, sorted(queues)))
        long, short = self._lock_timeouts
        begin = (
            f"SELECT localqueue.lq_begin({given}, ARRAY[{locked}]::int[], ARRAY[{shared}]::pg_catalog.bool[], "
            f"ARRAY[{held}]::int[], '{long}', '{short}')"
        )
        cursor = connection.execute(
            f"BEGIN ISOLATION LEVEL READ COMMITTED; {self._end_if_idle}; {self.sql.here(begin)}{_LOOKED_UP}"
        )
        while cursor.nextset():
            pass
        return float(cursor.fetchone()[0])

    def _apply(self, changes: Changes, *, locked: bool = True) -> Committed:
        queues, work = work_of(changes)
        locks = locks_of(self.namespace_id, changes) if locked else ()
        return self._write(work, queues, locked=locked, locks=locks)

    def _queue_id(self, name: str) -> int:
        """The row of a queue, made on first use in a transaction of its own."""
        return self._find_queue(name) or self._write(lambda unit: unit.rows.queue(name))
