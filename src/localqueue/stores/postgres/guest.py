"""Changes inside the transaction of a psycopg connection that belongs to the user.

They become visible when the user commits and never existed when the user rolls back. So nothing here is remembered in
the store: a queue made in that transaction may not come to be. Nobody is woken before the commit, because NOTIFY is
part of the transaction. Plain puts take no lock; what has to be decided about a queue (capacity, dedupe, ordering keys)
locks it until the user commits, as it must.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from localqueue.errors import QueueError, QueueStoreLockedError
from localqueue.stores.port import Changes, Committed
from localqueue.stores.postgres import errors
from localqueue.stores.postgres.fast import is_put
from localqueue.stores.postgres.libpq import Packed, packed_dumper
from localqueue.stores.postgres.writer import work_of

if TYPE_CHECKING:
    from localqueue.stores.postgres.store import PostgresQueueStore

_IDLE, _IN_ERROR = 0, 3  # of libpq's states of a transaction
_SETTINGS = "SELECT current_setting('lock_timeout'), current_setting('transaction_isolation')"
_RESTORE = "SELECT set_config('lock_timeout', $1, true), set_config('localqueue.now', '', true)"


def commit_within(store: PostgresQueueStore, connection: Any, changes: Changes) -> Committed:
    """Apply changes in the user's transaction, or leave that as it was."""
    store._pool.require_open()
    psycopg = errors.load()
    if not isinstance(connection, psycopg.Connection):
        raise TypeError(f"connection= takes a psycopg.Connection to {store.url}, not {connection!r}")
    _require_transaction(store, connection)
    borrowed = _Borrowed(psycopg, connection)
    began = connection.pgconn.transaction_status == _IDLE  # then psycopg begins one with our first statement
    try:
        lock_timeout, isolation = borrowed.execute(_SETTINGS).fetchone()
        if isolation != "read committed":
            raise QueueError(
                f"the transaction on connection= has the isolation level {isolation!r} and would not see what others "
                "put meanwhile; use READ COMMITTED, which is the default"
            )
        _require_same_database(store, borrowed)
        return _apply(store, borrowed, changes, lock_timeout)
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


def _require_same_database(store: PostgresQueueStore, borrowed: _Borrowed) -> None:
    """By what no two databases share: their number on the server, and when that server was started."""
    theirs = borrowed.execute(store.sql.PLACE).fetchone()
    if theirs != store.place and theirs != store.find_place():
        raise ValueError(
            f"connection= is to another database than the queue, which is at {store.url}; only a connection to the "
            "same database can commit both together"
        )


def _apply(store: PostgresQueueStore, borrowed: _Borrowed, changes: Changes, lock_timeout: str) -> Committed:
    @contextmanager
    def savepoint(held: set[int]) -> Iterator[tuple[Any, float]]:
        borrowed.execute("SAVEPOINT localqueue")
        try:
            begin = (store._given_now(), sorted(held), store._lock_timeout)
            (now,) = borrowed.execute(store.sql.BEGIN, begin, binary=True).fetchone()
            yield borrowed, now
            borrowed.execute(_RESTORE, (lock_timeout,))
        except BaseException:
            if not borrowed.closed:
                borrowed.execute("ROLLBACK TO SAVEPOINT localqueue")
                borrowed.execute("RELEASE SAVEPOINT localqueue")
            raise
        borrowed.execute("RELEASE SAVEPOINT localqueue")

    queues, work = work_of(changes)
    committed: Committed = store.decide(savepoint, work, queues, locked=not is_put(changes), commit=False).result
    return committed


def _translate(error: Exception, store: PostgresQueueStore) -> Exception:
    if not errors.is_retryable(error):
        return errors.translate(error, store.url)
    return QueueStoreLockedError(
        f"the transaction on connection= and another one wait for each other at {store.url}; roll back and begin again",
        path=store.url,
    )
