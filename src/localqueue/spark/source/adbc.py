"""The fast path: ADBC drivers, which make Arrow of a result without any Python object in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from localqueue.spark.options import Options
from localqueue.spark.place import PATIENCE
from localqueue.spark.source.connections import conninfo, unreachable
from localqueue.spark.source.tables import KINDS, ONE_MOMENT, OWN_NAMES

_ROWS = 8192
_BYTES = 4 << 20
_SAMPLE = {"whole": "-1", "real": "0.0", "text": "''", "bytes": "x''"}


class _Adbc:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(statement)
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

    def _read(self, statement: str, **options: int) -> Iterator[pa.RecordBatch]:
        with closing(self._connection.cursor()) as cursor:
            cursor.adbc_statement.set_options(**options)
            cursor.execute(statement)
            with cursor.fetch_record_batch() as reader:
                yield from reader


class _SQLite(_Adbc):
    def batches(self, statement: str, raw: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The driver takes the types of columns from the first rows, so one that has them all goes before them."""
        sample = ", ".join(_SAMPLE[KINDS[name]] for name in raw)
        found = self._read(f"SELECT {sample} UNION ALL {statement}", **{"adbc.sqlite.query.batch_rows": _ROWS})
        first = next(found)
        if first.column(0)[0].as_py() != -1:
            raise RuntimeError("SQLite did not give the sample row first: use engine 'python'")
        yield first.slice(1).rename_columns(list(raw))
        for batch in found:
            yield batch.rename_columns(list(raw))


class _Postgres(_Adbc):
    def batches(self, statement: str, raw: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._read(statement, **{"adbc.postgresql.batch_size_hint_bytes": _BYTES})


@contextmanager
def sqlite(uri: str) -> Iterator[_SQLite]:
    from adbc_driver_sqlite import dbapi

    with closing(dbapi.connect(uri)) as connection:  # in a transaction from its first read on
        with closing(connection.cursor()) as cursor:
            cursor.execute(f"PRAGMA busy_timeout = {round(PATIENCE * 1000)}")
        yield _SQLite(connection)


@contextmanager
def postgres(options: Options) -> Iterator[_Postgres]:
    from adbc_driver_manager import Error
    from adbc_driver_postgresql import dbapi

    try:
        connection = dbapi.connect(conninfo(options))
    except Error as error:
        raise unreachable(options, error) from None
    with closing(connection):
        with closing(connection.cursor()) as cursor:
            cursor.execute(ONE_MOMENT)
            cursor.execute(OWN_NAMES)
        yield _Postgres(connection)
