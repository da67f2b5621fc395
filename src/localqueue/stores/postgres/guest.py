"""Changes inside the transaction of a psycopg connection that belongs to the user.

They become visible when the user commits and never existed when the user rolls back. So nothing here is remembered in
the store: a queue made in that transaction may not come to be. Nobody is woken before the commit, because NOTIFY is
part of the transaction.

The transaction is open for as long as the user likes, and consumers do not wait for it: see `guest_rows.py`. Those who
put with the same key, or into the room of the same queue, do (`locks.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from localqueue.errors import QueueError, QueueStoreLockedError
from localqueue.stores.engine.timers import settle_all
from localqueue.stores.port import Changes, Committed
from localqueue.stores.postgres import errors
from localqueue.stores.postgres.guest_rows import GuestRows, TimersFirst
from localqueue.stores.postgres.libpq import Packed, array, packed_dumper
from localqueue.stores.postgres.locks import Locks, guest_locks_of
from localqueue.stores.postgres.writer import work_of

if TYPE_CHECKING:
    from localqueue.stores.postgres.store import PostgresQueueStore

_IDLE, _IN_ERROR = 0, 3  # of libpq's states of a transaction
_RESTORE = (
    "SELECT pg_catalog.set_config('lock_timeout', $1, true), pg_catalog.set_config('localqueue.now', '', true), "
    "pg_catalog.set_config('search_path', $2, true)"
)


def commit_within(store: PostgresQueueStore, connection: Any, changes: Changes) -> Committed:
    """Apply changes in the user's transaction, or leave that as it was."""
    store._pool.require_open()
    psycopg = errors.load()
    if not isinstance(connection, psycopg.Connection):
        raise TypeError(f"connection= takes a psycopg.Connection to {store.url}, not {connection!r}")
    if changes.settle or changes.edges or changes.lease is not None:
        raise ValueError("a transaction of yours takes messages and records; settle and lease outside of it")
    _require_transaction(store, connection)
    borrowed = _Borrowed(psycopg, connection)
    began = connection.pgconn.transaction_status == _IDLE  # then psycopg begins one with our first statement
    try:
        *place, isolation, lock_timeout, search_path = borrowed.execute(store.sql.GUEST).fetchone()
        if isolation != "read committed":
            raise QueueError(
                f"the transaction on connection= has the isolation level {isolation!r} and would not see what others "
                "put meanwhile; use READ COMMITTED, which is the default"
            )
        _require_same_database(store, tuple(place))
        return _apply(store, borrowed, changes, (lock_timeout, search_path))
    except BaseException as error:
        if began and not connection.closed:
            connection.rollback()
        if isinstance(error, psycopg.Error):
            raise _translate(error, store) from error
        raise


class _Borrowed:
    """The user's connection with cursors of our own kind, whatever its row and cursor factories are."""

    def __init__(self, psycopg: Any, connection: Any) -> None:
        self._cursor = psycopg.RawCursor
        self._rows = psycopg.rows.tuple_row
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[Any] = (), *, binary: bool = False) -> Any:
        return self.cursor().execute(statement, parameters, binary=binary, prepare=False)

    def cursor(self) -> Any:
        cursor = self._cursor(self._connection, row_factory=self._rows)
        cursor.adapters.register_dumper(Packed, packed_dumper())
        return cursor

    @property
    def closed(self) -> bool:
        return bool(self._connection.closed)

    def pipeline(self) -> AbstractContextManager[None]:
        """None: an error in it would end the savepoint of a user's pipeline too."""
        return nullcontext()


def _require_transaction(store: PostgresQueueStore, connection: Any) -> None:
    if connection.closed:
        raise ValueError(f"connection= can not be used: it is closed; connect to {store.url} again")
    status = connection.pgconn.transaction_status
    if status == _IN_ERROR:
        raise QueueError("the transaction on connection= has failed already: roll back and begin again")
    if status == _IDLE and connection.autocommit:
        raise QueueError(
            f"no transaction is open on the connection to {store.url} and it is in autocommit mode: put inside "
            "'with connection.transaction():'"
        )


def _require_same_database(store: PostgresQueueStore, theirs: tuple[Any, ...]) -> None:
    """By what no two databases share: their number on the server, and when that server was started."""
    if theirs != store.place and theirs != store.find_place():
        raise ValueError(
            f"connection= is to another database than the queue, which is at {store.url}; only a connection to the "
            "same database can commit both together"
        )


def _apply(store: PostgresQueueStore, borrowed: _Borrowed, changes: Changes, settings: Sequence[str]) -> Committed:
    @contextmanager
    def savepoint(locks: Locks, _: set[int]) -> Iterator[tuple[Any, float]]:
        borrowed.execute("SAVEPOINT localqueue")
        try:
            numbers = array("int4", [lock for lock, _ in locks]), array("bool", [shared for _, shared in locks])
            begin = (store._given_now(), *numbers, store._lock_timeouts[0])
            now, _ = borrowed.execute(store.sql.BEGIN_GUEST, begin, binary=True).fetchone()
            yield borrowed, now
            borrowed.execute(_RESTORE, settings)
        except BaseException:
            if not borrowed.closed:
                borrowed.execute("ROLLBACK TO SAVEPOINT localqueue")
                borrowed.execute("RELEASE SAVEPOINT localqueue")
            raise
        borrowed.execute("RELEASE SAVEPOINT localqueue")

    settled = Counter[int]()

    def rows_on(connection: Any, now: float, _: set[int], guarded: bool) -> GuestRows:
        return GuestRows(store, connection, now, settled, guarded=guarded)

    _, work = work_of(changes)
    locks = guest_locks_of(store.namespace_id, changes)
    while True:
        try:
            committed: Committed = store.decide(savepoint, rows_on, work, locks=locks, commit=False).result
            return committed
        except TimersFirst as first:
            settled[first.queue] += 1
            store._write(partial(settle_all, queue=first.queue), [first.name])


def _translate(error: Exception, store: PostgresQueueStore) -> Exception:
    if not errors.is_retryable(error):
        return errors.translate(error, store.url)
    return QueueStoreLockedError(
        f"the transaction on connection= and another one wait for each other at {store.url}; roll back and begin again",
        path=store.url,
    )
