"""The database that PGMQ is installed in: the connections to it, what its version offers, and its queues.

Connections, retries, errors and forks are those of the PostgreSQL store. Nothing is installed or made by looking.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from localqueue.brokers.pgmq.table import DEAD, Table, channel_of
from localqueue.errors import QueueStoreMissingError
from localqueue.stores import fork
from localqueue.stores.address import parse
from localqueue.stores.listener import Ear
from localqueue.stores.postgres import connection, errors
from localqueue.stores.postgres.connection import Pool
from localqueue.stores.postgres.libpq import Quick, array
from localqueue.stores.postgres.notify import PostgresListener

_log = logging.getLogger("localqueue")

T = TypeVar("T")

_NO_TABLE, _NO_SCHEMA, _NO_FUNCTION, _NOT_ALLOWED = "42P01", "3F000", "42883", "42501"

#: Taken by all who make queues or the trigger, so that they do not do it at the same time.
_LOCK = "SELECT pg_advisory_xact_lock(1819373157, 1)"

_OFFER = """
SELECT to_regclass('pgmq.meta') IS NOT NULL,
       to_regprocedure('pgmq.send_batch(text, jsonb[], jsonb[], timestamp with time zone)') IS NOT NULL,
       EXISTS (SELECT FROM pg_attribute
               WHERE attrelid = to_regclass('pgmq.message_record') AND attname = 'last_read_at')
"""

#: Which of some queues there are, and whether inserts into the first are told of, by PGMQ itself or by us.
_FOUND = """
SELECT ARRAY(SELECT queue_name::text FROM pgmq.meta WHERE queue_name = ANY($1::text[])),
       EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass($2::text)
               AND tgname IN ('trigger_notify_queue_insert_listeners', 'localqueue_notify_insert'))
"""

#: PGMQ's own trigger runs for each row and writes a row each time, which a batch pays for; with a
#: throttle it says nothing of the last messages of a burst. This one speaks once a statement, on the same channel.
_TELLER = """
CREATE OR REPLACE FUNCTION pgmq.localqueue_notify_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_notify('pgmq.' || TG_TABLE_NAME || '.' || TG_OP, '');
    RETURN NULL;
END
$$
"""
_HAS_TELLER = "SELECT to_regprocedure('pgmq.localqueue_notify_insert()') IS NOT NULL"
_TRIGGER = (
    'CREATE TRIGGER localqueue_notify_insert AFTER INSERT ON pgmq."q_{}" '
    "FOR EACH STATEMENT EXECUTE FUNCTION pgmq.localqueue_notify_insert()"
)


class Offer(NamedTuple):
    """What the installed PGMQ has: headers and delays to the microsecond since 1.5, later the time of the last read."""

    headers: bool
    last_read: bool


class Server:
    """The parts of a `PGMQBroker` that know PostgreSQL. `url` is its address as it may be shown."""

    def __init__(self, url: str, *, timeout: float, pooled: bool, listen_url: str | None, connections: int) -> None:
        if isinstance(connections, bool) or not isinstance(connections, int) or connections < 1:
            raise ValueError(f"connections must be a whole number from 1 on, not {connections!r}")
        if not isinstance(timeout, int | float) or not 0 < timeout <= 1_000_000:
            raise ValueError(f"timeout must be a number of seconds greater than zero, not {timeout!r}")
        self.url = parse(url).shown
        self._info = connection.conninfo(_as_postgresql(url), timeout=timeout, pooled=pooled)
        self._listen_info: str | None = None if pooled else self._info
        if listen_url is not None:
            self._listen_info = connection.conninfo(_as_postgresql(listen_url), timeout=timeout, pooled=False)
        self._timeout = timeout
        self._pooled = pooled
        self._size = connections
        self._names = itertools.count()
        self._offer: Offer | None = None
        self._tables: dict[str, Table] = {}
        self._ears: dict[str, Ear] = {}
        self._pool = self._new_pool()
        fork.track(self)

    def _new_pool(self) -> Pool:
        connect = partial(connection.connect, self._info, pooled=self._pooled, timeout=self._timeout)
        return Pool(connect, self.url, self._size, self._timeout)

    def prepare(self, statement: str) -> Quick:
        return Quick(f"pgmq_{next(self._names)}", statement, pooled=self._pooled)

    def offer(self) -> Offer:
        """What is installed; `QueueStoreMissingError` where nothing is."""
        if self._offer is None:
            self._offer = self.look()
        return self._offer

    def look(self) -> Offer:
        """The same, by asking now."""
        installed, headers, last_read = self._pool.at_once(
            lambda one, _: one.execute(_OFFER).fetchone(), (), again=True
        )
        if not installed:
            raise self._not_installed()
        return Offer(headers, last_read)

    def _not_installed(self) -> QueueStoreMissingError:
        return QueueStoreMissingError(
            f"there is no PGMQ in the database at {self.url!r}: run CREATE EXTENSION pgmq there, or, where extensions "
            "can not be installed, the file pgmq.sql of a release of PGMQ",
            path=self.url,
        )

    def missing(self, queue: str) -> QueueStoreMissingError:
        return QueueStoreMissingError(
            f"there is no queue {queue!r} at {self.url!r}: ensure() makes it, or pgmq.create()", path=self.url
        )

    def table(self, queue: str) -> Table:
        found = self._tables.get(queue)
        if found is None:
            offer = self.offer()
            found = Table(queue, self.prepare, has_headers=offer.headers, has_last_read=offer.last_read)
            self._tables[queue] = found
        return found

    def rows(
        self, queue: str, statement: Quick, values: Sequence[bytes | None], *, again: bool = False
    ) -> list[tuple[Any, ...]]:
        """The rows of one statement on a queue, which is a transaction of its own."""

        def work(one: Any, values: Sequence[bytes | None]) -> list[tuple[Any, ...]]:
            try:
                return statement.rows(one, values)
            except errors.load().Error as error:
                if (found := self._absence(error, queue)) is not None:
                    raise found from error
                raise

        return self._pool.at_once(work, values, again=again)

    def together(self, queue: str, work: Callable[[Any], T]) -> T:
        """Work of several statements in one transaction."""

        def transaction(one: Any, _: Sequence[Any]) -> T:
            try:
                one.execute("BEGIN")
                done = work(one)
                one.execute("COMMIT")
                return done
            except BaseException as error:
                if not errors.is_broken(error):
                    one.undo()
                if (found := self._absence(error, queue)) is not None:
                    raise found from error
                raise

        return self._pool.at_once(transaction, ())

    def _absence(self, error: BaseException, queue: str) -> QueueStoreMissingError | None:
        state = errors.sqlstate(error)
        if state in (_NO_SCHEMA, _NO_FUNCTION):
            self._offer = None
            self._tables.clear()
            return self._not_installed()
        return self.missing(queue) if state == _NO_TABLE else None

    # queues

    def make(self, queue: str, *, dead_only: bool = False) -> None:
        """The queue and the one of its dead letters, where they are not there, and that inserts are told of."""
        self.offer()
        names = [queue + DEAD] if dead_only else [queue, queue + DEAD]
        found, told = self._found(names)
        missing = [name for name in names if name not in found]
        if missing:
            self.together(queue, lambda one: _create(one, missing))
        if not told and not dead_only:
            self._have_told(queue)

    def _found(self, names: list[str]) -> tuple[list[str], bool]:
        values = (array("text", names), f'pgmq."q_{names[0]}"')
        found: tuple[list[str], bool] = self._pool.at_once(
            lambda one, values: one.execute(_FOUND, values, binary=True).fetchone(), values, again=True
        )
        return found

    def _have_told(self, queue: str) -> None:
        def work(one: Any) -> None:
            one.execute(_LOCK)
            if self._told_in(one, queue):
                return
            if not one.execute(_HAS_TELLER).fetchone()[0]:
                one.execute(_TELLER)
            one.execute(_TRIGGER.format(queue))

        try:
            self.together(queue, work)
        except Exception as error:
            if errors.sqlstate(error.__cause__ or error) != _NOT_ALLOWED:
                raise
            _log.warning(
                "inserts into queue %r at %r are not told of, because this user may not make a trigger: those who wait "
                "look once a second; let the owner of the queue call ensure()",
                queue,
                self.url,
            )

    @staticmethod
    def _told_in(one: Any, queue: str) -> bool:
        values = (array("text", [queue]), f'pgmq."q_{queue}"')
        return bool(one.execute(_FOUND, values, binary=True).fetchone()[1])

    def drop(self, queue: str) -> None:
        self.offer()
        names = [queue, queue + DEAD]

        def work(one: Any) -> None:
            one.execute(_LOCK)
            found, _ = one.execute(_FOUND, (array("text", names), None), binary=True).fetchone()
            for name in found:
                one.execute("SELECT pgmq.drop_queue($1::text)", (name,))

        self.together(queue, work)

    # waits and the end

    def ear(self, queue: str) -> Ear:
        """What hears of inserts into a queue, over the one connection of this process that listens."""
        info = self._listen_info

        def join() -> PostgresListener | None:
            return None if info is None else PostgresListener.share(("postgres", info), lambda: PostgresListener(info))

        with self._pool.lock:
            self._pool.require_open()
            if queue not in self._ears:
                self._ears[queue] = Ear(channel_of(queue), join)
            return self._ears[queue]

    def close(self) -> None:
        fork.forget(self)
        self._pool.close()
        with self._pool.lock:
            ears, self._ears = list(self._ears.values()), {}
        for ear in ears:
            ear.close()

    def hold_for_fork(self) -> None:
        self._pool.lock.acquire()

    def go_on_after_fork(self) -> None:
        self._pool.lock.release()

    def close_in_child(self) -> None:
        self._pool.abandon()
        for ear in self._ears.values():
            ear.abandon()

    def reopen_in_child(self) -> None:
        self._ears = {}
        self._pool = self._new_pool()


def _create(one: Any, names: Sequence[str]) -> None:
    one.execute(_LOCK)
    for name in names:
        one.execute("SELECT pgmq.create($1::text)", (name,))


def _as_postgresql(url: str) -> str:
    """The address as the driver knows it."""
    scheme, colon, rest = url.partition("://")
    return f"postgresql://{rest}" if colon and scheme.lower() == "pgmq" else url
