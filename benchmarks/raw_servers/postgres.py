"""A queue by hand on psycopg: one table, one statement and one commit an operation.

The least that a leased queue on PostgreSQL is: the identity column is the order, a column says until when a row is
leased, `SKIP LOCKED` keeps consumers apart. No priorities, delays, keys, counts or wake-ups; with `notify` a put also
tells, and a consumer listens, for the bare way from one process to another.
"""

from __future__ import annotations

import json
import select
import threading
from collections.abc import Callable
from typing import Any

import psycopg

SCHEMA = """
CREATE TABLE IF NOT EXISTS raw_queue (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payload text NOT NULL,
    attempts int NOT NULL DEFAULT 0,
    leased_until timestamptz
)
"""
PUT = "INSERT INTO raw_queue (payload) VALUES (%s) RETURNING id"
PUT_AND_NOTIFY = (
    "WITH made AS (INSERT INTO raw_queue (payload) VALUES (%s) RETURNING id) SELECT pg_notify('raw', '') FROM made"
)
LEASE = """
UPDATE raw_queue SET leased_until = now() + interval '10 minutes', attempts = attempts + 1
WHERE id = ANY(ARRAY(
    SELECT id FROM raw_queue WHERE leased_until IS NULL OR leased_until < now()
    ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED))
RETURNING id, attempts, payload
"""
ACK = "DELETE FROM raw_queue WHERE id = %s AND attempts = %s"
ACK_MANY = "DELETE FROM raw_queue WHERE id = ANY(%s)"

Handle = tuple[int, int, str]


class Adapter:
    def __init__(self, url: str, *, notify: bool = False) -> None:
        self.url = url
        self.connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self.connection.execute(SCHEMA)
        self.put_statement = PUT_AND_NOTIFY if notify else PUT

    def put(self, item: dict[str, Any]) -> None:
        self.connection.execute(self.put_statement, (json.dumps(item),)).fetchone()

    def put_many(self, items: list[dict[str, Any]]) -> None:
        with self.connection.cursor() as cursor, cursor.copy("COPY raw_queue (payload) FROM STDIN") as copy:
            for item in items:
                copy.write_row((json.dumps(item),))

    def lease_many(self, n: int) -> list[Handle]:
        rows = self.connection.execute(LEASE, (n,)).fetchall()
        return [(key, attempts, json.loads(payload)) for key, attempts, payload in rows]

    def lease(self) -> Handle:
        return self.lease_many(1)[0]

    def ack(self, handle: Handle) -> None:
        self.connection.execute(ACK, handle[:2])

    def ack_many(self, handles: list[Handle]) -> None:
        self.connection.execute(ACK_MANY, ([handle[0] for handle in handles],))

    def work_some(self, n: int) -> int:
        for _ in range(0, n, 50):
            self.ack_many(self.lease_many(50))
        return n

    def start_worker(self, handler: Callable[[Any], object]) -> None:
        """LISTEN and claim, on one connection."""
        self.stopping = threading.Event()
        listening = threading.Event()

        def loop() -> None:
            with psycopg.connect(self.url, autocommit=True, prepare_threshold=0) as connection:
                connection.execute("LISTEN raw")
                listening.set()
                while not self.stopping.is_set():
                    while (row := connection.execute(LEASE, (1,)).fetchone()) is not None:
                        handler(json.loads(row[2]))
                        connection.execute(ACK, row[:2])
                    if select.select([connection.pgconn.socket], [], [], 0.2)[0]:
                        connection.pgconn.consume_input()
                    while connection.pgconn.notifies() is not None:
                        pass

        self.worker = threading.Thread(target=loop)
        self.worker.start()
        listening.wait(10)

    def stop_worker(self) -> None:
        self.stopping.set()
        self.worker.join()

    def close(self) -> None:
        self.connection.close()
