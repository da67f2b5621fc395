"""Waking those who wait: NOTIFY, the connection that hears it, and what a blocked caller looks at.

A queue, a run or a record is told of by a few characters that stand for its name. Two names with the same token
cost a look at the store and nothing else.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from typing import Any
from zlib import crc32

from localqueue._named_tuple import NamedTuple
from localqueue.message import RunStats
from localqueue.stores import rules
from localqueue.stores.listener import Ear, Listener
from localqueue.stores.port import RecordWrite, Waiter
from localqueue.stores.postgres.connection import connect
from localqueue.stores.postgres.reads import Reads, raw, raw_or_none
from localqueue.stores.wake import StoreWaiter, Wake, change_of, told_records

_ANSWER_WITHIN = 5.0


@lru_cache(maxsize=4096)
def queue_token(queue: str) -> str:
    """As `lq_step` makes it of the name in a row."""
    return sha256(queue.encode()).hexdigest()[:8]


@lru_cache(maxsize=4096)
def run_token(run_id: str) -> str:
    return f"r{sha256(run_id.encode()).hexdigest()[:8]}"


def record_token(kind: str, key: str) -> str:
    return f"k{crc32(key.encode(), crc32(kind.encode())):x}"


def record_tokens(writes: Sequence[RecordWrite]) -> set[str]:
    """Of the records that those are told of who wait for them."""
    return {record_token(*name) for name in told_records(writes)}


class Changed(NamedTuple):
    """The tokens of what a transaction changed: queues and runs, and records that are told of."""

    things: set[str]
    records: set[str]


def said(tokens: set[str]) -> str:
    """What is told to other processes: what was changed, or nothing in particular when that would be long."""
    return ",".join(sorted(tokens)) if len(tokens) <= 100 else ""


class PostgresListener(Listener):
    """The one connection of a process that listens for all its stores on a database."""

    def __init__(self, info: str) -> None:
        super().__init__()
        self._info = info
        self._connection: Any = None
        self._channels: set[str] = set()
        self._wakeup, self._nudge = os.pipe()
        os.set_blocking(self._nudge, False)
        os.set_blocking(self._wakeup, False)

    def connect(self) -> None:
        self._connection = connect(self._info, pooled=False, timeout=_ANSWER_WITHIN)
        self._channels = set()

    def subscribe(self, channels: Iterable[str]) -> None:
        wanted = set(channels)
        for channel in self._channels - wanted:
            self._connection.execute(f'UNLISTEN "{channel}"')
        for channel in wanted - self._channels:
            self._connection.execute(f'LISTEN "{channel}"')
        self._channels = wanted

    def hear(self, timeout: float) -> list[tuple[str, list[str] | None]]:
        heard = self._take()
        if not heard:
            poll = select.poll()
            poll.register(self._connection.fileno(), select.POLLIN)
            poll.register(self._wakeup, select.POLLIN)
            poll.poll(timeout * 1000)
            with suppress(BlockingIOError):
                os.read(self._wakeup, 1024)
            heard = self._take()
        return heard

    def _take(self) -> list[tuple[str, list[str] | None]]:
        """What has arrived by now."""
        connection = self._connection.pgconn
        connection.consume_input()
        heard: list[tuple[str, list[str] | None]] = []
        while (notice := connection.notifies()) is not None:
            said = notice.extra.decode()
            heard.append((notice.relname.decode(), said.split(",") if said else None))
        return heard

    def probe(self) -> None:
        """The server answers on this connection and still has our channels."""
        connection = self._connection.pgconn
        connection.send_query(b"SELECT count(*) FROM pg_listening_channels()")
        poll = select.poll()
        poll.register(connection.socket, select.POLLIN)
        while connection.is_busy():
            if not poll.poll(_ANSWER_WITHIN * 1000):
                raise ConnectionError(f"no answer within {_ANSWER_WITHIN} s")
            connection.consume_input()
        answer = connection.get_result()
        while connection.get_result() is not None:
            pass
        found = 0 if answer is None else int(answer.get_value(0, 0) or b"0")
        if found != len(self._channels):
            raise ConnectionError(
                "the session listens to nothing: is there a pooler in between? Give the server's own address as "
                "listen_url="
            )

    def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def nudge(self) -> None:
        with suppress(BlockingIOError, OSError):
            os.write(self._nudge, b"x")

    def release(self) -> None:
        super().release()
        if self._stopped.is_set():
            self._close_pipe()

    def abandon(self) -> None:
        connection = self._connection
        if connection is not None and not connection.closed:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, connection.fileno())
            os.close(nowhere)
            connection.close()
        self._close_pipe()

    def _close_pipe(self) -> None:
        for end in (self._wakeup, self._nudge):
            if end >= 0:
                os.close(end)
        self._wakeup = self._nudge = -1


class Notifies(Reads):
    """Waiters for a store. The connection that listens is made with the first of them and shared by all stores of
    the process on the same database; without an address to listen at, those who wait look often."""

    channel: str
    record_channel: str
    _listen_info: str | None
    _wake: Wake
    _record_wake: Wake

    def _start_listening(self) -> None:
        info = self._listen_info

        def join() -> PostgresListener | None:
            return None if info is None else PostgresListener.share(("postgres", info), lambda: PostgresListener(info))

        self._ear = Ear(self.channel, join)
        self._wake = self._ear.wake
        # Apart, so that a worker which waits for messages does not hear of every outcome.
        self._record_ear = Ear(self.record_channel, join)
        self._record_wake = self._record_ear.wake

    def notices(self, changed: Changed) -> list[tuple[str, str]]:
        """The channels on which other processes are told of it, and what is said there."""
        channels = (self.channel, self.record_channel)
        return [(channel, said(tokens)) for channel, tokens in zip(channels, changed, strict=True) if tokens]

    def _wake_for(self, changed: Changed) -> None:
        """Wake those of this process who wait for it."""
        self._wake.touched(changed.things)
        self._record_wake.touched(changed.records)

    def listen(self, queues: Sequence[str], *, worker: str | None = None) -> Waiter:
        by = raw_or_none(worker)

        def check() -> tuple[bool, float]:
            known = [row for name in queues if (row := self._find_queue(name)) is not None]
            found = self._one(self.sql.LOOK, (self._given_now(), known, by))
            assert found is not None
            return found[0], rules.NEVER if found[1] is None else found[1]

        return StoreWaiter(self._ear.open(), tuple(map(queue_token, queues)), check)

    def listen_capacity(self, limits: Mapping[str, int]) -> Waiter:
        def check() -> tuple[bool, float]:
            known = {row: maxsize for name, maxsize in limits.items() if (row := self._find_queue(name)) is not None}
            self._want_to_know(list(known))
            loads = [(maxsize, *self._load(row, up_to=maxsize)) for row, maxsize in known.items()]
            expiries = [expiry for *_, expiry in loads if expiry is not None]
            return all(load < maxsize for maxsize, load, _ in loads), min(expiries, default=rules.NEVER)

        return StoreWaiter(self._ear.open(), tuple(map(queue_token, limits)), check)

    def listen_run(self, run_id: str) -> Waiter:
        def look() -> RunStats | None:
            queues = self._all(self.sql.QUEUES_OF_RUN, (self.namespace_id, raw(run_id)))
            self._want_to_know([row[0] for row in queues])
            return self.run(run_id)

        wake = self._ear.open()
        return StoreWaiter(wake, (run_token(run_id), *map(queue_token, self.queues())), change_of(look))

    def listen_records(self, kind: str, keys: Sequence[str]) -> Waiter:
        names = list(dict.fromkeys(keys))
        looked_at = (self.namespace_id, raw(kind), [raw(name) for name in names])
        wake = self._record_ear.open()
        tokens = tuple(record_token(kind, name) for name in names)
        return StoreWaiter(wake, tokens, change_of(lambda: self._all(self.sql.RECORD_VERSIONS, looked_at)))

    def _want_to_know(self, queues: list[int]) -> None:
        """Have leases in these queues be told of, for a while. One that was opened to look leaves no mark."""
        if queues and not self.read_only:
            self._do(self.sql.WANT_ROOM, (self._given_now(), queues), again=True)
