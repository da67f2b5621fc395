"""`PostgresQueueStore`: the store port on a PostgreSQL database.

The fast paths (put, claim, ack, and a worker's step of many acks and the next claim) are one statement each, and so one
round trip and one commit; everything else is a transaction in which the engine decides.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from localqueue.errors import QueueStoreError
from localqueue.ids import Mint
from localqueue.stores import fork, rules
from localqueue.stores.address import parse
from localqueue.stores.clock import ServerClock
from localqueue.stores.port import AsyncCalls, Changes, Committed, Compacted, OffLoop
from localqueue.stores.postgres import backup, connection, errors, guest, schema
from localqueue.stores.postgres.connection import Pool
from localqueue.stores.postgres.journal import KeepsJournal
from localqueue.stores.postgres.reads import raw
from localqueue.stores.postgres.schema import DEFAULT_SCHEMA, Statements
from localqueue.stores.shell import SERVER_CALLS_AT_ONCE

if TYPE_CHECKING:
    from localqueue.stores.loops import Loops
    from localqueue.stores.postgres.native import NativeCalls


class PostgresQueueStore(KeepsJournal):
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

    With `read_only` the store is opened to look, on a standby if need be: nothing is made or changed. Safe to share
    between threads and to carry over a fork.
    """

    _on_loops: Loops[NativeCalls]

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
        read_only: bool = False,
    ) -> None:
        super().__init__(namespace=namespace, durability=durability, read_only=read_only)
        if connections < 1:
            raise ValueError(f"connections must be at least 1, not {connections}")
        self.calls_at_once = min(SERVER_CALLS_AT_ONCE, connections)
        self._driver_error = errors.load().Error
        self._url = parse(url).shown
        self._info = connection.conninfo(url, timeout=timeout, pooled=pooled, read_only=read_only)
        self._listen_info: str | None = None
        if listen_url is not None:
            self._listen_info = connection.conninfo(listen_url, timeout=timeout, pooled=False)
        elif not pooled:
            self._listen_info = self._info
        self.sql = Statements(schema)
        self._clock = clock
        self._timeout = timeout
        self._lock_timeouts = connection.lock_timeouts(timeout)
        self._end_if_idle = f"SET LOCAL idle_in_transaction_session_timeout = {connection.idle_timeout(timeout)}"
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
        return Pool(lambda: connection.connect(info, pooled=pooled, timeout=timeout), self._url, self._size, timeout)

    def _open(self) -> None:
        self.namespace_id, self._secret = self._patiently(self._find_or_make)
        self.channel = f"{self.sql.schema}_{self.namespace_id}"
        self.record_channel = f"{self.channel}_records"
        self._start_minting()
        self.queue_names: dict[int, str] = {}
        self._prepare_fast_paths(pooled=self._pooled)
        self.place: tuple[Any, ...] | None = None  # which database on which server, once somebody has asked
        self._start_listening()

    def _start_minting(self) -> None:
        self._server_clock = ServerClock(self._pool.time)
        self.ids = Mint(self._secret, self._server_clock.ns)

    def _find_or_make(self) -> tuple[int, int]:
        """The row of the namespace and its secret."""
        with self._pool.connection() as one:
            if self._pooled:
                schema.require_own_names(one, self._url)
            found = schema.look(one, self.sql, self._namespace)
            if not self._pooled:
                schema.require_session(found, self._url)
            if self.read_only:
                if found.standby:
                    self._listen_info = None  # a standby takes no LISTEN
                there = schema.require_there(found, self.sql, self._namespace, self._url)
                schema.require_privileges(one, self.sql, self._url, read_only=True)
                return there
            schema.require_writable(found, self._url)
            if self.durability == "power":
                schema.require_durability(found, self._url)
            if found.version != schema.latest():
                schema.migrate(one, self.sql.schema, self._url)
            schema.require_privileges(one, self.sql, self._url, read_only=False)
            return found.namespace or schema.namespace(one, self.sql, self._namespace)

    def async_calls(self, off: OffLoop) -> AsyncCalls | None:
        """See `port.CallsOnLoop`; None for a store of one connection, which the longer ways need."""
        self._pool.require_open()
        if self._size == 1:
            return None
        from localqueue.stores.loops import Loops
        from localqueue.stores.postgres.native import NativeCalls

        loops: Loops[NativeCalls] = vars(self).setdefault("_on_loops", Loops())  # in one step: threads may ask at once
        at_once = min(SERVER_CALLS_AT_ONCE, self._size - 1)
        return loops.get(lambda: NativeCalls(self, self._pool, self._ask, self._url, off, at_once))

    @property
    def url(self) -> str:
        return self._url

    def now(self) -> float:
        return self._now_in(lambda statement: self._do(statement, (), again=True))

    def commit_within(self, connection: Any, changes: Changes) -> Committed:
        """Apply changes in the open transaction of the user's `psycopg.Connection` to the same database."""
        self._require_writable()
        return guest.commit_within(self, connection, changes)

    def find_place(self) -> tuple[Any, ...] | None:
        """The database this store is in, as it is known now: a server that was restarted is another one."""
        found = self._one(self.sql.GUEST, ())
        self.place = None if found is None else found[:2]
        return self.place

    # operations

    def heartbeat(self, queue: str, worker_id: str, *, leases: int = 0) -> None:
        self._require_writable()
        self._do(self.sql.HEARTBEAT, (self._queue_id(queue), raw(worker_id), self._given_now(), leases, rules.KNOWN))

    def backup(self, path: str | os.PathLike[str]) -> None:
        self._pool.require_open()
        backup.backup(self, os.fspath(path))

    def _compact(self) -> Compacted:
        """The tables are those of all namespaces."""
        before = self._all(self.sql.SIZES, (self.sql.schema,))
        if foreign := [table for table, _, may in before if not may]:
            raise QueueStoreError(
                f"this user of {self._url!r} may not compact {', '.join(foreign)}: nothing was changed; let the owner "
                "of the tables do it",
                path=self._url,
            )
        self._do(f"VACUUM {', '.join(table for table, *_ in before)}", (), again=True)
        after = self._all(self.sql.SIZES, (self.sql.schema,))
        return Compacted(*(sum(size for _, size, _ in sizes) for sizes in (before, after)))

    # life

    def close(self) -> None:
        """Close the connections. Closing twice is harmless; any other call after it raises `QueueStoreClosedError`."""
        if self._pool.closed:
            return
        fork.forget(self)
        self._pool.close()
        if "_on_loops" in vars(self):
            self._on_loops.close()
        self._ear.close()
        self._record_ear.close()

    # fork: a connection belongs to the process that made it

    def hold_for_fork(self) -> None:
        self._pool.lock.acquire()

    def go_on_after_fork(self) -> None:
        self._pool.lock.release()

    def close_in_child(self) -> None:
        self._pool.abandon()
        if "_on_loops" in vars(self):
            self._on_loops.abandon()
        self._ear.abandon()
        self._record_ear.abandon()

    def reopen_in_child(self) -> None:
        self._pool = self._new_pool()
        self._start_minting()
        self._start_listening()
