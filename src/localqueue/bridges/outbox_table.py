"""Sending on the rows of an outbox table that an application fills in its own transactions, as Debezium would.

The table has the columns of Debezium's outbox event router: `id`, `aggregatetype`, `aggregateid`, `type` and `payload`.
A row goes to the queue `outbox.event.<aggregatetype>`, with its payload as the body, its `aggregateid` as the key, and
`id` and `type` as headers; it is deleted when it has arrived.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from localqueue.bridges.counts import BridgeCounts
from localqueue.brokers.port import Broker, Outgoing
from localqueue.brokers.senders import Parcel, Sender, sender_to
from localqueue.brokers.store import as_broker
from localqueue.errors import QueueError, QueueStoreClosedError, QueueStoreError
from localqueue.policies._limits import require_integer, require_seconds
from localqueue.stores.address import parse
from localqueue.stores.address import shown as shown_address
from localqueue.stores.kept_error import shown
from localqueue.stores.port import QueueStore
from localqueue.stores.url import backend_of, path_of
from localqueue.workers.signals import StopFlag

log = logging.getLogger("localqueue.bridges")

COLUMNS = ("id", "aggregatetype", "aggregateid", "type", "payload")
ROUTE = "outbox.event.{aggregatetype}"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0


class Event(NamedTuple):
    """A row of the table."""

    id: Any
    aggregatetype: str
    aggregateid: str
    type: str
    payload: Any


class OutboxTable:
    """Drains an outbox table of a SQLite or PostgreSQL database into a store or broker.

    `database` is the address of the database, `target` a store, a broker, or the address of one. `route` makes the name
    of a queue of the `aggregatetype`. Rows are sent in the order of the column `order_by`; without it no order is
    promised, because the convention has no column for it. Into a store a row comes exactly once, into a broker at least
    once. On PostgreSQL any number of these may run side by side, each with rows of its own.
    """

    def __init__(
        self,
        database: str,
        target: Broker | QueueStore | str,
        *,
        table: str = "outboxevent",
        route: str = ROUTE,
        order_by: str | None = None,
        batch: int = 100,
        interval: float = 1.0,
    ) -> None:
        if require_integer("batch", batch) < 1:
            raise ValueError(f"batch must be at least 1, not {batch}")
        if not require_seconds("interval", interval) > 0:
            raise ValueError(f"interval must be greater than zero, not {interval!r}")
        try:
            route.format(aggregatetype="x")
        except (KeyError, IndexError, ValueError):
            raise ValueError(f"route {route!r} can have {{aggregatetype}} in it and no other field") from None
        self._rows: _Rows = _rows_of(database, table, order_by)
        self._route = route
        self._batch = batch
        self._interval = interval
        self._owned = isinstance(target, str)
        self._target = as_broker(target)
        self._senders: dict[str, Sender] = {}
        self._counts = BridgeCounts()
        self._stopping = StopFlag()

    @property
    def counts(self) -> BridgeCounts:
        """What was done so far."""
        return self._counts

    def run(self) -> BridgeCounts:
        """Send rows on until `stop()`, looking for new ones every `interval` seconds."""
        while not self._stopping.is_set():
            if not self._send_batch():
                self._stopping.wait(self._interval)
        return self._counts

    def run_until_empty(self) -> BridgeCounts:
        """Send on what is in the table."""
        while not self._stopping.is_set() and self._send_batch():
            pass
        return self._counts

    def stop(self) -> None:
        """Finish the batch under way. May be called from any thread."""
        self._stopping.set()

    def close(self) -> None:
        """Stop, and close a target that was opened by its address."""
        self.stop()
        for sender in self._senders.values():
            sender.close()
        if self._owned:
            self._target.close()

    def _send_batch(self) -> bool:
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            try:
                with self._rows.taken(self._batch) as events:
                    self._send(events)
                return bool(events)
            except QueueStoreClosedError:
                raise
            except QueueError as error:
                if not isinstance(error, QueueStoreError):
                    raise
                log.warning("outbox table %s: trying again: %s", self._rows.name, shown(error))
            self._counts += BridgeCounts(retries=1)
            self._stopping.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return False

    def _send(self, events: Sequence[Event]) -> None:
        by_queue: dict[str, list[Parcel]] = {}
        for event in events:
            queue = self._route.format(aggregatetype=event.aggregatetype)
            by_queue.setdefault(queue, []).append(_parcel(event))
        for queue, parcels in by_queue.items():
            if queue not in self._senders:
                self._senders[queue] = sender_to(self._target, queue, source=self._rows.name)
            sent = self._senders[queue].send(parcels)
            size = sum(len(one.message.body) for one in parcels)
            self._counts += BridgeCounts(len(parcels), sent.moved, sent.duplicates, bytes=size)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _parcel(event: Event) -> Parcel:
    payload = event.payload
    if isinstance(payload, memoryview | bytearray):
        payload = bytes(payload)
    if not isinstance(payload, bytes):
        text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
        payload = text.encode()
    headers = {"id": str(event.id), "type": str(event.type), "aggregateid": str(event.aggregateid)}
    return Parcel(str(event.id), Outgoing(payload, headers, str(event.id), str(event.aggregateid)))


class _Rows(Protocol):
    """The rows of one table. Those that are taken are gone at the end of the block, unless it fails."""

    name: str

    def taken(self, limit: int) -> AbstractContextManager[list[Event]]: ...


class _SQLiteRows:
    def __init__(self, database: str, table: str, order: str) -> None:
        import sqlite3

        self._module = sqlite3
        self._path = path_of(database)
        self._table, self._order = table, order
        self.name = f"{database}#{table}"

    @contextmanager
    def taken(self, limit: int) -> Iterator[list[Event]]:
        try:
            with closing(self._module.connect(f"file:{self._path}?mode=rw", uri=True, timeout=15)) as connection:
                columns = ", ".join(COLUMNS)
                found = connection.execute(
                    f"SELECT {columns} FROM {self._table}{self._order} LIMIT ?", (limit,)
                ).fetchall()
                events = [Event(*row) for row in found]
                yield events
                connection.executemany(f"DELETE FROM {self._table} WHERE id = ?", [(one.id,) for one in events])
                connection.commit()
        except self._module.OperationalError as error:
            _refuse_missing(error, self.name)
            raise QueueStoreError(f"the outbox table {self.name} can not be read: {error}") from error


class _PostgresRows:
    def __init__(self, database: str, table: str, order: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise RuntimeError(
                'PostgreSQL support requires the optional dependency; install with `pip install "localqueue[postgres]"`'
            ) from error
        self._module = psycopg
        self._address = parse(database)
        self._table, self._order = table, order
        self.name = f"{self._address.shown}#{table}"

    @contextmanager
    def taken(self, limit: int) -> Iterator[list[Event]]:
        columns = ", ".join(COLUMNS)
        select = f"SELECT {columns} FROM {self._table}{self._order} LIMIT %s FOR UPDATE SKIP LOCKED"
        try:
            with self._module.connect(self._address.url, connect_timeout=10) as connection:
                events = [Event(*row) for row in connection.execute(select, (limit,)).fetchall()]
                yield events
                delete = f"DELETE FROM {self._table} WHERE id = ANY(%s)"
                connection.execute(delete, ([one.id for one in events],))
        except self._module.Error as error:
            _refuse_missing(error, self.name)
            said = self._address.mask(" ".join(str(error).split()))
            raise QueueStoreError(f"the outbox table {self.name} can not be read: {said}") from None


def _rows_of(database: str, table: str, order_by: str | None) -> _Rows:
    for part in (*table.split("."), *(() if order_by is None else (order_by,))):
        if not _NAME.fullmatch(part):
            raise ValueError(f"{part!r} is no name of a table or column; letters, digits and _ are")
    order = "" if order_by is None else f" ORDER BY {order_by}"
    backend = backend_of(database)
    if backend == "sqlite":
        return _SQLiteRows(database, table, order)
    if backend == "pg":
        return _PostgresRows(database, table, order)
    raise ValueError(f"an outbox table is in SQLite or PostgreSQL, not at {shown_address(database)!r}")


def _refuse_missing(error: Exception, name: str) -> None:
    said = str(error)
    if "no such table" in said or "does not exist" in said or "no such column" in said or "unable to open" in said:
        raise ValueError(
            f"there is no outbox table {name} with the columns {', '.join(COLUMNS)}: {' '.join(said.split())}"
        ) from error
