"""The statements of our own SQLite store, by hand on the sqlite3 module.

The same schema, the same statements in the same transactions and the same pragmas as a put, a
lease and an ack of a plain message; what is left out is our Python around them. The distance to
`raw_sqlite.py` is the price of the schema, the distance to `ours.py` the price of the code.
"""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

from localqueue.stores.sqlite import statements as sql

QUEUE = 1
Handle = tuple[int, int, Any]


class Adapter:
    def __init__(self, path: str) -> None:
        file = Path(path) / "raw.sqlite3"
        self.connection = sqlite3.connect(file, isolation_level=None, timeout=30)
        self.execute = self.connection.execute
        for pragma in (
            "journal_mode = WAL",
            "synchronous = NORMAL",
            "wal_autocheckpoint = 4000",
            "temp_store = MEMORY",
        ):
            self.execute(f"PRAGMA {pragma}")
        self.execute("BEGIN IMMEDIATE")
        if not self.execute("SELECT 1 FROM sqlite_master").fetchone():
            for statement in sql.SCHEMA.split(";\n"):
                self.execute(statement)
            self.execute("INSERT INTO queues (namespace, name) VALUES (1, 'bench')")
        self.execute("COMMIT")

    def put(self, item: dict[str, Any]) -> None:
        execute = self.execute
        payload = json.dumps(item)
        key = time.time_ns()
        execute("BEGIN IMMEDIATE")
        now = time.time()
        execute(sql.INSERT_PLAIN, (key, QUEUE, 0, now, now, payload, None, None))
        execute(sql.COUNT_PUT, (1, QUEUE))
        execute("COMMIT")

    def put_many(self, items: list[dict[str, Any]]) -> None:
        payloads = [json.dumps(item) for item in items]
        first = time.time_ns()
        self.execute("BEGIN IMMEDIATE")
        now = time.time()
        rows = [(first + i, QUEUE, 0, now, now, payload, None, None) for i, payload in enumerate(payloads)]
        self.connection.executemany(sql.INSERT_PLAIN, rows)
        self.execute(sql.COUNT_PUT, (len(rows), QUEUE))
        self.execute("COMMIT")

    def try_lease(self) -> Handle | None:
        execute = self.execute
        execute("BEGIN IMMEDIATE")
        now = time.time()
        counted = execute(sql.COUNT_LEASE, (now + 600, QUEUE, now))
        row = None
        if counted.rowcount:
            row = execute(sql.CLAIM_ONE, (now + 600, now, None, QUEUE)).fetchone()
        execute("COMMIT")
        return None if row is None else (row[0], row[4], json.loads(row[1]))

    def lease(self) -> Handle:
        handle = self.try_lease()
        assert handle is not None
        return handle

    def ack(self, handle: Handle) -> None:
        execute = self.execute
        execute("BEGIN IMMEDIATE")
        execute(sql.DELETE_LEASED, (handle[0], QUEUE, handle[1])).fetchall()
        execute(sql.COUNT_ACK, (1, QUEUE))
        execute("COMMIT")

    def lease_many(self, n: int) -> list[Handle]:
        execute = self.execute
        execute("BEGIN IMMEDIATE")
        now = time.time()
        rows = execute(sql.CLAIM_MANY, (now + 600, now, None, QUEUE, n)).fetchall()
        execute(sql.COUNT_STATES, (-len(rows), 0, len(rows), 0, 0, 0, 0, 0, now + 600, QUEUE))
        execute("COMMIT")
        return [(row[0], row[4], json.loads(row[1])) for row in rows]

    def ack_many(self, handles: list[Handle]) -> None:
        execute = self.execute
        execute("BEGIN IMMEDIATE")
        keys = json.dumps([key for key, _, _ in handles])
        execute(sql.DELETE_LEASED_MANY, (keys, QUEUE, 1)).fetchall()  # all on their first attempt
        execute(sql.COUNT_ACK, (len(handles), QUEUE))
        execute("COMMIT")

    def value(self, handle: Handle) -> Any:
        return handle[2]

    def close(self) -> None:
        self.connection.close()
