"""The fallback for tables: Python's own drivers, a page of rows at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from localqueue.spark.options import Options
from localqueue.spark.place import PATIENCE
from localqueue.spark.source.connections import conninfo, unreachable
from localqueue.spark.source.tables import KINDS, ONE_MOMENT, OWN_NAMES

_PAGE = 4000
_BYTEA = 17
_ARROW = {"whole": pa.int64(), "real": pa.float64(), "text": pa.string(), "bytes": pa.binary()}


class _Cursors:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._connection.execute(statement).fetchall()
        return found


class _SQLite(_Cursors):
    def batches(self, statement: str, raw: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from _pages(self._connection.execute(statement), raw, {})


class _Postgres(_Cursors):
    def batches(self, statement: str, raw: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with self._connection.cursor(name="localqueue", binary=True) as cursor:
            cursor.execute(statement)
            kinds = {column.name: pa.binary() for column in cursor.description if column.type_code == _BYTEA}
            yield from _pages(cursor, raw, kinds)


@contextmanager
def sqlite(uri: str) -> Iterator[_SQLite]:
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=PATIENCE)) as connection:
        connection.execute("BEGIN")
        yield _SQLite(connection)


@contextmanager
def postgres(options: Options) -> Iterator[_Postgres]:
    import psycopg

    try:
        connection = psycopg.connect(conninfo(options))
    except psycopg.Error as error:
        raise unreachable(options, error) from None
    with closing(connection):
        connection.execute(ONE_MOMENT)
        connection.execute(OWN_NAMES)
        yield _Postgres(connection)


def _pages(cursor: Any, raw: Sequence[str], kinds: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    types = [kinds.get(name, _ARROW[KINDS[name]]) for name in raw]
    while page := cursor.fetchmany(_PAGE):
        columns = zip(zip(*page, strict=True), types, strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(values, kind) for values, kind in columns], names=list(raw))
