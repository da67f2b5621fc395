"""Talking to the server with libpq itself: waiting for it, but not for ever, and the statements of the fast paths.

When the network swallows everything nobody says that anything is wrong: libpq would wait for an answer until the system
gives the connection up, which may be never. So every wait is for so many seconds of silence. Then the server is asked,
on another connection, whether it is still at work on our statement, which may be a long one. If it is not, or can not
be asked, the connection is cut, and the call fails as it does with a connection that was lost.

A cursor of the driver finds out for every call what kinds of values it got and how to send them. A `Quick` statement
knows both beforehand, which saves as much time as the server needs for a small statement. Its values are in
PostgreSQL's binary form: numbers in network order, text and bytea as they are, None as NULL.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain, islice, repeat
from typing import Any

from localqueue.stores.address import parse
from localqueue.stores.postgres import errors
from localqueue.stores.postgres.schema import load_statement

#: A statement may wait as long as `timeout` for a lock; only what comes on top of that is silence.
_BEYOND_LOCKS = 3.0
_ASKING = 3.0
_LONGEST = 1_000_000.0

_BAD = 1  # libpq's state of a connection that is gone
_READ = 1
_EVENTS = {_READ: select.POLLIN, 2: select.POLLOUT, 3: select.POLLIN | select.POLLOUT}  # of the driver's Wait.R, W, RW


def patience_of(timeout: float) -> float:
    """How many seconds of silence are too many for a store with that `timeout`."""
    return min(timeout + _BEYOND_LOCKS, _LONGEST)


@cache
def connection_class() -> Any:
    """The driver's connection, with a wait of ours in all that is done with it."""
    psycopg = errors.load()
    from psycopg import generators

    class Connection(psycopg.Connection):  # type: ignore[misc, name-defined]
        patience = _LONGEST
        ask_at: str | None = None  # where to ask whether the server is still at work; nowhere behind a pooler
        idle_since = 0.0

        def __init__(self, pgconn: Any) -> None:
            super().__init__(pgconn)
            self.incoming = select.poll()
            self.incoming.register(pgconn.socket, select.POLLIN)
            self.prepared: set[bytes] = set()
            self.loaders: dict[bytes, Any] = {}

        def wait(self, gen: Any, *_: Any, **__: Any) -> Any:
            pgconn = self.pgconn
            try:
                wanted = next(gen)
                while True:
                    # A socket that libpq has closed is not looked at: the driver finds out when it reads.
                    found = select.POLLIN if pgconn.status == _BAD else self._wait_for(wanted)
                    # An error or the other end's going away shows when it is read.
                    ready = (1 if found & ~select.POLLOUT else 0) | (2 if found & select.POLLOUT else 0)
                    wanted = gen.send(ready & wanted or wanted)
            except StopIteration as end:
                return end.value
            except BaseException:
                with suppress(Exception):  # what it does at its end fails too, and nobody else would be told
                    gen.close()
                raise

        def _wait_for(self, wanted: int) -> int:
            """Until there is something on the socket; raises `OperationalError` when the server is silent."""
            poll = self.incoming
            if wanted != _READ:
                poll = select.poll()
                poll.register(self.pgconn.socket, _EVENTS[wanted])
            while True:
                found = poll.poll(self.patience * 1000)
                if found:
                    return int(found[0][1])
                self.doubt()

        def doubt(self) -> None:
            """After a silence: raises `OperationalError` if the server is not at work on what it was asked."""
            if not self._at_work():
                self.cut()
                raise psycopg.OperationalError(f"no answer within {self.patience:.1f} s")

        def answer(self) -> Any:
            """The last result of what was sent with libpq itself. Only a large value is left to the driver, whose way
            is a tenth of what a small statement costs."""
            pgconn, found = self.pgconn, None
            if pgconn.flush():
                return self.wait(generators.execute(pgconn))[-1]
            while True:
                while pgconn.is_busy():
                    self._wait_for(_READ)
                    pgconn.consume_input()
                result = pgconn.get_result()
                if result is None:
                    return found
                found = result

        def answers_within(self, seconds: float) -> bool:
            usual = self.patience, self.ask_at
            self.patience, self.ask_at = seconds, None
            try:
                self.execute("SELECT 1")
            finally:
                self.patience, self.ask_at = usual
            return True

        def undo(self) -> None:
            """Roll the open transaction back. Not by the driver's means, which throw away all prepared statements."""
            self.pgconn.send_query(b"ROLLBACK")
            self.answer()

        def _at_work(self) -> bool:
            if self.ask_at is None:
                return False
            with suppress(psycopg.Error), connect(self.ask_at, patience=_ASKING, connect_timeout=int(_ASKING)) as other:
                return other.execute(load_statement("at_work"), (self.info.backend_pid,)).fetchone() is not None
            return False

        def cut(self) -> None:
            """Have everything that is still done with the connection fail at once, the goodbye included."""
            with suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)

    return Connection


def connect(info: str, *, patience: float, ask_at: str | None = None, **options: Any) -> Any:
    """A connection whose statements are transactions of their own unless one is begun."""
    kind, psycopg = connection_class(), errors.load()
    try:
        connection = kind.connect(info, autocommit=True, cursor_factory=psycopg.RawCursor, **options)
    except psycopg.Error as error:
        parse(info).cleanse(error)
        raise
    connection.adapters.register_dumper(Packed, packed_dumper())
    connection.patience = patience
    connection.ask_at = ask_at
    return connection


int2 = struct.Struct(">h").pack
int4 = struct.Struct(">i").pack
int8 = struct.Struct(">q").pack
float8 = struct.Struct(">d").pack
as_float8 = struct.Struct(">d").unpack

_NULL = int4(-1)
TRUE, FALSE = b"\x01", b"\x00"

_NOT_PREPARED = "26000"
_COMMAND_OK, _TUPLES_OK = 1, 2
_BINARY = 1


def float8_or_none(value: float | None) -> bytes | None:
    return None if value is None else float8(value)


def int4_or_none(value: int | None) -> bytes | None:
    return None if value is None else int4(value)


_NUMBERS = {"bool": 16, "bytea": 17, "int8": 20, "int2": 21, "int4": 23, "text": 25, "float8": 701}  # of types
_FIXED = {kind: struct.Struct(f">i{code}") for kind, code in (("bool", "?"), ("int2", "h"), ("int4", "i"),
                                                              ("int8", "q"), ("float8", "d"))}  # fmt: skip


def _cells(kind: str, values: Sequence[Any]) -> Iterator[bytes]:
    """The values in the form in which arrays and COPY have them, each behind its length, made as they are asked for: so
    that the server can begin with the first of many."""
    fixed = _FIXED.get(kind)
    if fixed is not None:
        pack, size = fixed.pack, fixed.size - 4
        return (_NULL if value is None else pack(size, value) for value in values)
    if kind == "text":
        values = [None if value is None else value.encode() for value in values]
    return (_NULL if value is None else int4(len(value)) + value for value in values)


def _same(values: Sequence[Any]) -> bool:
    """Whether there is one value in all rows, as in many columns of a batch."""
    return values.count(values[0]) == len(values)


class Packed(bytes):
    """An array as the server takes it, which saves the driver from looking at each value."""


_EMPTY = {kind: Packed(struct.pack(">iii", 0, 0, number)) for kind, number in _NUMBERS.items()}


def array(kind: str, values: Sequence[Any]) -> Packed:
    if not values:
        return _EMPTY[kind]
    start = struct.pack(">iiiii", 1, None in values, _NUMBERS[kind], len(values), 1)
    try:
        if _same(values):
            return Packed(start + next(_cells(kind, values)) * len(values))
        return Packed(start + b"".join(_cells(kind, values)))
    except struct.error as error:
        raise _unstorable(error) from error


def _unstorable(error: struct.error) -> ValueError:
    return ValueError(f"PostgreSQL can not store one of these values: {error}")


def copied(columns: Sequence[tuple[str, str, Sequence[Any]]]) -> tuple[str, Iterator[bytes]]:
    """What COPY takes for columns (name, type, values): their names, and the rows in its binary form.

    Columns that are NULL in all rows are left out.
    """
    used = [(name, kind, values, _same(values)) for name, kind, values in columns]
    used = [column for column in used if not (column[3] and column[2][0] is None)]
    used.sort(key=lambda column: not column[3])
    try:
        fixed = [next(_cells(kind, values)) for _, kind, values, same in used if same]
    except struct.error as error:
        raise _unstorable(error) from error
    start = struct.pack(">h", len(used)) + b"".join(fixed)
    rows = zip(
        repeat(start, len(columns[0][2])),
        *(_cells(kind, values) for _, kind, values, same in used if not same),
        strict=True,
    )
    return ", ".join(name for name, *_ in used), _pieces(rows)


def _pieces(rows: Iterator[tuple[bytes, ...]]) -> Iterator[bytes]:
    yield b"PGCOPY\n\xff\r\n\x00" + bytes(8)
    try:
        while piece := b"".join(chain.from_iterable(islice(rows, 1000))):
            yield piece
    except struct.error as error:
        raise _unstorable(error) from error
    yield b"\xff\xff"


@cache
def packed_dumper() -> Any:
    class PackedDumper(errors.load().adapt.Dumper):  # type: ignore[misc]
        format = errors.load().pq.Format.BINARY

        def dump(self, obj: Packed) -> Packed:
            return obj

    return PackedDumper


class Quick:
    """One statement, prepared on each connection on first use unless a pooler is in between."""

    def __init__(self, name: str, statement: str, *, pooled: bool) -> None:
        self._name = b"lq_" + name.encode()
        self._statement = statement.encode()
        self._pooled = pooled
        self._formats = [_BINARY] * 32

    def run(self, connection: Any, values: Sequence[bytes | None]) -> Any:
        """Send the statement and wait for its result."""
        try:
            return self._run(connection, values)
        except Exception as error:
            if not is_unprepared(error):
                raise
            connection.prepared.clear()  # the driver forgets all prepared statements after some commands
            return self._run(connection, values)

    def _run(self, connection: Any, values: Sequence[bytes | None]) -> Any:
        while not self.send(connection, values):
            checked(connection, connection.answer())
            self.note_prepared(connection)
        return checked(connection, connection.answer())

    def send(self, connection: Any, values: Sequence[bytes | None]) -> bool:
        """Send the statement; False when it had to be sent to be prepared, and is to be sent again after that."""
        formats = self._formats[: len(values)]
        if self._pooled:
            connection.pgconn.send_query_params(self._statement, values, None, formats, _BINARY)
        elif self._name in connection.prepared:
            connection.pgconn.send_query_prepared(self._name, values, formats, _BINARY)
        else:
            connection.pgconn.send_prepare(self._name, self._statement)
            return False
        return True

    def note_prepared(self, connection: Any) -> None:
        """The server has answered that it is."""
        connection.prepared.add(self._name)

    def rows(self, connection: Any, values: Sequence[bytes | None]) -> list[tuple[Any, ...]]:
        """The rows of the result."""
        return self.rows_of(connection, self.run(connection, values))

    def rows_of(self, connection: Any, result: Any) -> list[tuple[Any, ...]]:
        """The rows of a result, with the driver's own conversion."""
        loader = connection.loaders.get(self._name)
        known = loader is not None
        if not known:
            loader = connection.loaders[self._name] = errors.load().adapt.Transformer(connection)
        loader.set_pgresult(result, set_loaders=not known)
        rows: list[tuple[Any, ...]] = loader.load_rows(0, result.ntuples, tuple)
        loader.set_pgresult(None, set_loaders=False)
        return rows


#: A question to the server: a quick statement, its values, whether it may be run twice, and whether rows are wanted.
Asked = tuple[Quick, Sequence[bytes | None], bool, bool]


def asking(statement: Quick, values: Sequence[bytes | None], *, again: bool = False, rows: bool = False) -> Asked:
    return statement, values, again, rows


def is_unprepared(error: BaseException) -> bool:
    return errors.sqlstate(error) == _NOT_PREPARED


def checked(connection: Any, result: Any) -> Any:
    """A result that is none of an error; that is raised."""
    if result is not None and result.status in (_TUPLES_OK, _COMMAND_OK):
        return result
    psycopg, pgconn = errors.load(), connection.pgconn
    if result is None or pgconn.status == _BAD:
        raise psycopg.OperationalError(pgconn.error_message.decode("utf-8", "replace") or "the connection is lost")
    raise psycopg.errors.error_from_result(result)
