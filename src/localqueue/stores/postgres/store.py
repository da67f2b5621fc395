"""`PostgresQueueStore`: the store port on a PostgreSQL database.

The hot paths (put, claim, ack, and a worker's step of many acks and the next claim) are one statement each, and so one
round trip and one commit; everything else is a transaction of several statements in a `Tx`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from localqueue.errors import IdTaken
from localqueue.ids import IdRange, Mint
from localqueue.stores import fork
from localqueue.stores.observing import Observed
from localqueue.stores.port import (
    Changes,
    Committed,
    Lease,
    Payload,
    RecordWrite,
)
from localqueue.stores.postgres import backing_up, connecting, driver, joining, migrations, operate
from localqueue.stores.postgres import lease as leasing
from localqueue.stores.postgres.bulk import COPY_FROM, copy_batch
from localqueue.stores.postgres.hot import HotPaths
from localqueue.stores.postgres.journal import KeepsJournal
from localqueue.stores.postgres.listening import ListensToQueues
from localqueue.stores.postgres.pool import Pool, roll_back
from localqueue.stores.postgres.rows import raw, raw_payload
from localqueue.stores.postgres.statements import DEFAULT_SCHEMA, Statements
from localqueue.stores.postgres.tokens import queue_token
from localqueue.stores.postgres.tx import LockNeeded, Tx

T = TypeVar("T")


class PostgresQueueStore(HotPaths, KeepsJournal, ListensToQueues, Observed):
    """Queue store in a PostgreSQL database (14 or newer), shared by any number of processes and hosts.

    `url` is `postgresql://user:password@host:5432/database`. The tables live in a schema of their own, `schema`, and
    are made and brought up to date when a store is opened. Times are the server's. `durability="process"` takes the
    server as it is configured, `"power"` refuses one that confirms a commit before it is on disk. `timeout` bounds the
    wait for a connection and for a lock; a server that is silent for a few seconds longer, and is not at work on what
    it was asked, counts as gone. At most `connections` are open at a time, and one more that listens.

    Behind a pooler in transaction mode, such as PgBouncer, say `pooled=True`: then nothing is left behind in a session.
    The one thing that does not work through such a pooler is LISTEN; give the server's own address as `listen_url`, or
    those who wait look at the store ten times a second instead of being woken. Nor can a server be asked there whether
    it is at work: a call that takes longer than `timeout` fails, be it a purge of millions of messages.

    Safe to share between threads and to carry over a fork.
    """

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "default",
        durability: str = "process",
        clock: Callable[[], float] | None = None,
        timeout: float = 15.0,
        schema: str = DEFAULT_SCHEMA,
        pooled: bool = False,
        listen_url: str | None = None,
        connections: int = 10,
    ) -> None:
        if durability not in ("process", "power"):
            raise ValueError(f"durability must be 'process' or 'power', not {durability!r}")
        if not namespace:
            raise ValueError("namespace cannot be empty")
        if connections < 1:
            raise ValueError(f"connections must be at least 1, not {connections}")
        super().__init__()
        self._driver_error = driver.load().Error
        self._url = driver.without_password(url)
        self._info = connecting.conninfo(url, timeout=timeout, pooled=pooled)
        self._listen_info: str | None = None
        if listen_url is not None:
            self._listen_info = connecting.conninfo(listen_url, timeout=timeout, pooled=False)
        elif not pooled:
            self._listen_info = self._info
        self.sql = Statements(schema)
        self.durability = durability
        self._namespace = namespace
        self._clock = clock
        self._timeout = timeout
        self._lock_timeout = connecting.lock_timeout(timeout)
        self._end_if_idle = f"SET LOCAL idle_in_transaction_session_timeout = {connecting.idle_timeout(timeout)}"
        self._pooled = pooled
        self._size = connections
        self._pool = self._new_pool()
        try:
            self._open()
        except BaseException:
            self._pool.close()
            raise
        fork.track(self)

    def _new_pool(self) -> Pool:
        info, pooled, timeout = self._info, self._pooled, self._timeout
        return Pool(lambda: connecting.connect(info, pooled=pooled, timeout=timeout), self._url, self._size, timeout)

    def _open(self) -> None:
        def work() -> tuple[int, int]:
            with self._pool.connection() as connection:
                found = connecting.look(connection, self.sql, self._namespace)
                connecting.require_writable(found, self._url)
                if not self._pooled:
                    connecting.require_session(found, self._url)
                if self.durability == "power":
                    connecting.require_durability(found, self._url)
                if found.version != migrations.latest():
                    migrations.migrate(connection, self.sql.schema, self._url)
                return found.namespace or connecting.namespace(connection, self.sql, self._namespace)

        self.namespace_id, secret = self._patiently(work)
        self.channel = f"{self.sql.schema}_{self.namespace_id}"
        self.ids = Mint(secret)
        self.queue_ids: dict[str, int] = {}
        self._prepare_hot_paths(pooled=self._pooled)
        self.place: tuple[Any, ...] | None = None  # which database on which server, once somebody has asked
        self._start_listening()

    @property
    def namespace(self) -> str:
        return self._namespace

    @property
    def url(self) -> str:
        """Where the store is, without any password."""
        return self._url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r}, namespace={self._namespace!r})"

    def now(self) -> float:
        if self._clock is not None:
            return self._clock()
        found = self._one("SELECT extract(epoch FROM clock_timestamp())::float8", ())
        assert found is not None
        return float(found[0])

    def mint(self, count: int = 1) -> list[str]:
        return self.ids.take(count)

    def commit_within(self, connection: Any, changes: Changes) -> Committed:
        """Apply changes in the open transaction of the user's `psycopg.Connection` to the same database."""
        return joining.commit_within(self, connection, changes)

    def find_place(self) -> tuple[Any, ...] | None:
        """The database this store is in, as it is known now: a server that was restarted is another one."""
        self.place = self._one(joining.PLACE, ())
        return self.place

    def put_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None, *, records: Sequence[RecordWrite] = ()
    ) -> tuple[Sequence[str], float]:
        row = self._queue_id(queue)
        mark = queue_token(queue)
        pairs = [raw_payload(payload) for payload in payloads]
        while True:
            first = self.ids.reserve(len(payloads))
            keys = range(first, first + len(payloads))
            try:
                if len(pairs) < COPY_FROM and not records:
                    values = (self._given_now(), row, codec, list(keys), [p[0] for p in pairs], [p[1] for p in pairs])
                    at = self._insert(self.sql.PUT_BATCH, (*values, self.channel, mark))
                else:
                    at = self._patiently(lambda: copy_batch(self, row, keys, pairs, codec, mark, records))  # noqa: B023
                break
            except IdTaken:
                continue
        self._wake.touched((mark,))
        return IdRange(self.ids, keys), at

    def renew(self, leases: Sequence[Lease], *, timeout: float) -> list[float | None]:
        self._pool.require_open()
        names = {one.queue for one in leases}
        queue_ids = {name: row for name in names if (row := self._find_queue(name)) is not None}
        values = leasing.renew_values(self, queue_ids, leases, timeout, self._given_now())
        renewed: dict[tuple[int | None, int], float] = {}
        if values[2]:
            rows = self._do(self.sql.RENEW_LEASES, values, again=True).fetchall()
            renewed = {(key, attempts): until for key, attempts, until in rows}
            self._wake.touched(map(queue_token, names))
        return [renewed.get((self.ids.key_of(one.id), one.token)) if one.queue in queue_ids else None for one in leases]

    # transactions of several statements

    def _write(self, work: Callable[[Tx], T], queues: Sequence[str] = ()) -> T:
        """Run work in a transaction that holds these queues, then wake whoever waits for what it changed."""
        seen = self._watched.seen
        needed: set[int] = set()

        def attempt() -> tuple[T, Tx]:
            while True:
                known = needed | {row for name in queues if (row := self.queue_ids.get(name)) is not None}
                with self._pool.connection() as connection:
                    now = self._begin(connection, known)
                    tx = Tx(self, connection, now, known, observed=seen is not None)
                    try:
                        for name in queues:
                            tx.queue_id(name)
                        result = work(tx)
                    except LockNeeded as lock:
                        needed.add(lock.queue)
                        roll_back(connection)
                        continue
                    tx.commit()
                    return result, tx

        result, tx = self._patiently(attempt)
        self.queue_ids.update(tx.new_queues)
        self._wake.touched(tx.touched)
        if seen is not None:
            seen += tx.transitions
        return result

    def _begin(self, connection: Any, queues: set[int]) -> float:
        """Begin a transaction that holds these queues; the time in it.

        One round trip without a pipeline: behind one the server would not end a transaction that idles. Only numbers
        are written into the text.
        """
        now = self._given_now()
        given = "NULL" if now is None else repr(float(now))
        locked = ",".join(map(str, sorted(queues)))
        cursor = connection.execute(
            f"BEGIN ISOLATION LEVEL READ COMMITTED; {self._end_if_idle}; "
            + self.sql.here(f"SELECT localqueue.lq_begin({given}, ARRAY[{locked}]::int[], '{self._lock_timeout}')")
        )
        while cursor.nextset():
            pass
        return float(cursor.fetchone()[0])

    def _queue_id(self, name: str) -> int:
        """The row of a queue, made on first use in a transaction of its own."""
        return self._find_queue(name) or self._write(lambda tx: tx.queue_id(name))

    # operations

    def subscribe(self, topic: str, subscriber: str) -> bool:
        return self._write(lambda tx: operate.set_subscription(tx, topic, subscriber, True), [topic])

    def unsubscribe(self, topic: str, subscriber: str) -> bool:
        return self._write(lambda tx: operate.set_subscription(tx, topic, subscriber, False), [topic])

    def requeue(self, queue: str, ids: Sequence[str] | None = None, *, delay: float = 0.0) -> int:
        return self._write(lambda tx: operate.requeue(tx, queue, ids, delay), [queue])

    def prune(self, queue: str, *, state: str, older_than: float, dry_run: bool = False) -> int:
        if dry_run:
            row = self._find_queue(queue)
            return 0 if row is None else self._prunable(row, state, older_than)
        return self._write(lambda tx: operate.prune(tx, queue, state, older_than), [queue])

    def purge(self, queue: str) -> int:
        return self._write(lambda tx: operate.purge(tx, queue), [queue])

    def cancel_run(self, run_id: str) -> int:
        return self._write(lambda tx: operate.cancel_run(tx, run_id))

    def pause(self, queue: str, *, worker: str | None = None) -> None:
        self._write(lambda tx: operate.set_paused(tx, queue, worker, True), [queue])

    def resume(self, queue: str, *, worker: str | None = None) -> None:
        self._write(lambda tx: operate.set_paused(tx, queue, worker, False), [queue])

    def heartbeat(self, queue: str, worker_id: str, *, leases: int = 0) -> None:
        values = (self._queue_id(queue), raw(worker_id), self._given_now(), leases)
        self._do(self.sql.here(operate.HEARTBEAT), values)

    def backup(self, path: str | os.PathLike[str]) -> None:
        self._pool.require_open()
        backing_up.backup(self, os.fspath(path))

    # life

    def close(self) -> None:
        """Close the connections. Closing twice is harmless; any other call after it raises `QueueStoreClosedError`."""
        if self._pool.closed:
            return
        fork.forget(self)
        self._pool.close()
        self._stop_listening()
        self._wake.stir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # fork: a connection belongs to the process that made it

    def hold_for_fork(self) -> None:
        self._pool.lock.acquire()

    def go_on_after_fork(self) -> None:
        self._pool.lock.release()

    def close_in_child(self) -> None:
        self._pool.abandon()
        self._forget_listener()

    def reopen_in_child(self) -> None:
        self._pool = self._new_pool()
        self._start_listening()
