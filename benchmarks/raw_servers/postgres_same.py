"""The statements of our own PostgreSQL store, by hand on psycopg.

The same schema and statements in the same transactions as a put, a lease and an ack of a plain message, and as a
worker's step; what is left out is our Python around them. The distance to `postgres.py` is the price of the schema, the
distance to `ours.py` the price of the code.
"""

from __future__ import annotations

import json
import time
from typing import Any

import psycopg
from psycopg.types.numeric import Int8

from localqueue.stores.postgres.schema import DEFAULT_SCHEMA, Statements, migrate

CHANNEL, TOKEN = "localqueue_bench", "bench"
COPY = (
    "COPY localqueue.lq_messages (key, queue, state, created_at, available_at, payload, is_text) "
    "FROM STDIN (FORMAT binary)"
)
COPY_TYPES = ["int8", "int4", "int2", "float8", "float8", "bytea", "bool"]

Handle = tuple[int, int, Any]


class Adapter:
    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor)
        migrate(self.connection, DEFAULT_SCHEMA, url)
        self.connection.prepare_threshold = 0
        self.sql = Statements(DEFAULT_SCHEMA)
        queue = self.connection.execute(
            "INSERT INTO localqueue.lq_queues (namespace, name) VALUES (1, 'bench') RETURNING id"
        ).fetchone()
        assert queue is not None
        self.queue = queue[0]
        self.acked: list[Handle] = []

    def put(self, item: dict[str, Any]) -> None:
        values = (None, Int8(time.time_ns()), self.queue, json.dumps(item).encode(), True, None, CHANNEL, TOKEN)
        self.connection.execute(self.sql.PUT_ONE, values).fetchone()

    def put_many(self, items: list[dict[str, Any]]) -> None:
        first, now = time.time_ns(), time.time()
        with self.connection.transaction(), self.connection.cursor() as cursor:
            with cursor.copy(COPY) as copy:
                copy.set_types(COPY_TYPES)
                for key, item in enumerate(items, first):
                    copy.write_row((key, self.queue, 0, now, now, json.dumps(item).encode(), True))
            cursor.execute("SELECT pg_notify($1, $2)", (CHANNEL, TOKEN))

    def _claim(self, n: int) -> tuple[Any, ...]:
        return (None, self.queue, n, 600.0, None, None, False, True, 1, None, b"", CHANNEL, TOKEN)

    def lease(self) -> Handle:
        row = self.connection.execute(self.sql.CLAIM, self._claim(1)).fetchone()
        assert row is not None
        return row[0], row[6], json.loads(row[2])

    def ack(self, handle: Handle) -> None:
        self.connection.execute(self.sql.ACK_ONE, (handle[0], self.queue, handle[1], None))

    def lease_many(self, n: int) -> list[Handle]:
        """A worker's step: what was acked last, and the next claim, in one transaction."""
        keys, tokens = [handle[0] for handle in self.acked], [handle[1] for handle in self.acked]
        rows = self.connection.execute(self.sql.STEP, (keys, tokens, [], [], [], [], [], *self._claim(n))).fetchall()
        self.acked = []
        return [(row[0], row[6], json.loads(row[2])) for row in rows]

    def ack_many(self, handles: list[Handle]) -> None:
        self.acked = handles

    def close(self) -> None:
        self.connection.close()
