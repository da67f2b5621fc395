"""The statements of the hot paths, run on libpq itself.

A cursor of the driver finds out for every call what kinds of values it got and how to send them. Here both are known
beforehand, which saves as much time as the server needs for a small statement. Values are sent in PostgreSQL's binary
form: numbers in network order, text and bytea as they are, None as NULL.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from localqueue.stores.postgres import driver
from localqueue.stores.postgres.patience import answer
from localqueue.stores.postgres.pool import Link

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
_BAD = 1  # libpq's state of a connection that is gone


def float8_or_none(value: float | None) -> bytes | None:
    return None if value is None else float8(value)


def int4_or_none(value: int | None) -> bytes | None:
    return None if value is None else int4(value)


_INT4, _INT8, _BYTEA = 23, 20, 17  # numbers of types


def _array(kind: int, count: int, items: bytes, *, nulls: bool = False) -> bytes:
    if not count:
        return struct.pack(">iii", 0, 0, kind)
    return struct.pack(">iiiii", 1, nulls, kind, count, 1) + items


def int4_array(values: Sequence[int]) -> bytes:
    return _array(_INT4, len(values), b"".join([int4(4) + int4(value) for value in values]))


def int8_array(values: Sequence[int | None]) -> bytes:
    items = [_NULL if value is None else int4(8) + int8(value) for value in values]
    return _array(_INT8, len(values), b"".join(items), nulls=None in values)


def bytea_array(values: Sequence[bytes | None]) -> bytes:
    items = [_NULL if value is None else int4(len(value)) + value for value in values]
    return _array(_BYTEA, len(values), b"".join(items), nulls=None in values)


class Quick:
    """One statement, prepared on each connection on first use unless a pooler is in between."""

    def __init__(self, name: str, statement: str, *, pooled: bool) -> None:
        self._name = b"lq_" + name.encode()
        self._statement = statement.encode()
        self._pooled = pooled
        self._formats = [_BINARY] * 32

    def run(self, link: Link, values: Sequence[bytes | None]) -> Any:
        """Send the statement and wait for its result."""
        try:
            return self._run(link, values)
        except Exception as error:
            if driver.sqlstate(error) != _NOT_PREPARED:
                raise
            link.prepared.clear()  # the driver forgets all prepared statements after some commands
            return self._run(link, values)

    def _run(self, link: Link, values: Sequence[bytes | None]) -> Any:
        pgconn, name = link.pgconn, self._name
        formats = self._formats[: len(values)]
        if self._pooled:
            pgconn.send_query_params(self._statement, values, None, formats, _BINARY)
        else:
            if name not in link.prepared:
                pgconn.send_prepare(name, self._statement)
                _checked(link, answer(link.connection, link.poll))
                link.prepared.add(name)
            pgconn.send_query_prepared(name, values, formats, _BINARY)
        return _checked(link, answer(link.connection, link.poll))

    def rows(self, link: Link, values: Sequence[bytes | None]) -> list[tuple[Any, ...]]:
        """The rows of the result, with the driver's own conversion."""
        result = self.run(link, values)
        loader = link.loaders.get(self._name)
        if loader is None:
            loader = link.loaders[self._name] = driver.load().adapt.Transformer(link.connection)
            loader.set_pgresult(result)
        else:
            loader.set_pgresult(result, set_loaders=False)
        rows: list[tuple[Any, ...]] = loader.load_rows(0, result.ntuples, tuple)
        loader.set_pgresult(None, set_loaders=False)
        return rows


def _checked(link: Link, result: Any) -> Any:
    if result is not None and result.status in (_TUPLES_OK, _COMMAND_OK):
        return result
    psycopg = driver.load()
    if result is None or link.pgconn.status == _BAD:
        raise psycopg.OperationalError(link.pgconn.error_message.decode("utf-8", "replace") or "the connection is lost")
    raise psycopg.errors.error_from_result(result)
