"""The long way: a transaction in which the engine decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from localqueue.stores.engine.commit import apply
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import Changes, Committed
from localqueue.stores.postgres import errors
from localqueue.stores.postgres.connection import roll_back
from localqueue.stores.postgres.notify import Notifies
from localqueue.stores.postgres.rows import Anew, PostgresRows, id_taken

T = TypeVar("T")

_LOOKED_UP = "".join(
    f", set_config('{setting}', 'off', true)"
    for setting in ("enable_hashjoin", "enable_mergejoin", "enable_seqscan", "enable_bitmapscan", "jit")
)


def queues_of(changes: Changes) -> tuple[list[str], list[str]]:
    """The queues a commit makes, always in the same order, so that two that make the same never wait in a circle; and
    the others that it names."""
    made = {message.queue for message in changes.enqueue} | set(changes.topics)
    made.update(limit.overflow_queue for limit in changes.limits.values() if limit.overflow_queue is not None)
    others = {one.queue for one in changes.settle} | ({changes.lease.queue} if changes.lease is not None else set())
    return sorted(made), sorted(others - made)


class Writer(Notifies):
    """Runs such transactions, and tells those who wait of what they changed."""

    _end_if_idle: str
    _lock_timeout: str

    def _write(self, work: Callable[[Unit], T], queues: Sequence[str] = (), *, locked: bool = True) -> T:
        """Run work in a transaction that holds these queues, then wake whoever waits for what it changed.

        Not `locked` is for work that decides nothing about them.
        """
        self._require_writable()
        seen = self._watched.seen
        needed: set[int] = set()
        guarded = True

        def attempt() -> tuple[T, Any, set[str], PostgresRows]:
            nonlocal guarded
            while True:
                held = needed | {row for name in queues if locked and (row := self.queue_ids.get(name)) is not None}
                with self._pool.connection() as connection:
                    now = self._begin(connection, held)
                    rows = PostgresRows(self, connection, now, held if locked else None, guarded=guarded)
                    unit = Unit(rows, now, observed=seen is not None)
                    try:
                        result = work(unit)
                        transitions = unit.finish()
                        tokens = rows.tokens(unit)
                        rows.finish(tokens, commit=True)
                        return result, transitions, tokens, rows
                    except Anew as anew:
                        needed.update(anew.queues)
                        roll_back(connection)
                    except self._driver_error as error:
                        # By the driver, which then forgets what it has prepared: of a pipeline that failed it believes
                        # more than the server has.
                        with suppress(self._driver_error):
                            connection.rollback()
                        if guarded and errors.is_dedupe_key_taken(error):
                            guarded = False
                            continue
                        if taken := id_taken(error):
                            raise taken from error
                        raise

        result, transitions, tokens, rows = self._patiently(attempt)
        self.queue_ids.update(rows.new_queues)
        self.queue_names.update(rows.new_names)
        self._wake.touched(tokens)
        if seen is not None:
            seen += transitions
        return result

    def _begin(self, connection: Any, queues: set[int]) -> float:
        """Begin a transaction that holds these queues; the time in it.

        One round trip without a pipeline: behind one the server would not end a transaction that idles. Only numbers
        are written into the text. Plans are not left to statistics: rows are looked up one by one, by index.
        """
        now = self._given_now()
        given = "NULL" if now is None else repr(float(now))
        locked = ",".join(map(str, sorted(queues)))
        cursor = connection.execute(
            f"BEGIN ISOLATION LEVEL READ COMMITTED; {self._end_if_idle}; "
            + self.sql.here(f"SELECT localqueue.lq_begin({given}, ARRAY[{locked}]::int[], '{self._lock_timeout}')")
            + _LOOKED_UP
        )
        while cursor.nextset():
            pass
        return float(cursor.fetchone()[0])

    def _apply(self, changes: Changes, *, locked: bool = True) -> Committed:
        made, others = queues_of(changes)

        def work(unit: Unit) -> Committed:
            for name in made:
                unit.rows.queue(name)
            return apply(unit, changes)

        return self._write(work, [*made, *others], locked=locked)

    def _queue_id(self, name: str) -> int:
        """The row of a queue, made on first use in a transaction of its own."""
        return self._find_queue(name) or self._write(lambda unit: unit.rows.queue(name))
