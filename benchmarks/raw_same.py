"""The statements of our own SQLite store, by hand on the sqlite3 module.

The same schema, the same statements in the same transactions and the same pragmas as a put, a
lease and an ack of a plain message; what is left out is our Python around them. The distance to
`raw_sqlite.py` is the price of the schema, the distance to `ours.py` the price of the code. Its
worker is a thread that a put wakes through a semaphore, with the one connection of both: the least that a
wake-up, a put and a lease can take.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.schema import run_script

QUEUE = 1
ANOTHER_ROW = ", (?, ?, 0, ?, ?, ?, ?, ?)"
Handle = tuple[int, int, Any]


class Adapter:
    def __init__(self, path: str) -> None:
        file = Path(path) / "raw.sqlite3"
        self.connection = sqlite3.connect(file, isolation_level=None, timeout=30, check_same_thread=False)
        self.execute = self.connection.execute
        for pragma in (
            "journal_mode = WAL",
            "synchronous = NORMAL",
            "wal_autocheckpoint = 10000",
            "temp_store = MEMORY",
        ):
            self.execute(f"PRAGMA {pragma}")
        self.execute("BEGIN IMMEDIATE")
        if not self.execute("SELECT 1 FROM sqlite_master").fetchone():
            run_script(self.connection, sql.SCHEMA)
            self.execute("INSERT INTO lq_queues (namespace, name) VALUES (1, 'bench')")
            self.execute(
                "INSERT INTO lq_line (queue, part, rank, position, key, count, until) VALUES (1, 0, 0, 0, 0, 0, 9e999)"
            )
            self.execute("INSERT INTO lq_line (queue, part, rank, position, key, count) VALUES (1, 3, 0, 0, 0, 0)")
        self.execute("COMMIT")

    def put(self, item: dict[str, Any]) -> None:
        execute = self.execute
        payload = json.dumps(item)
        key = time.time_ns()
        execute(sql.PUT_ONE, (key, QUEUE, time.time(), payload, None))

    def put_many(self, items: list[dict[str, Any]]) -> None:
        payloads = [json.dumps(item) for item in items]
        first = time.time_ns()
        self.execute("BEGIN IMMEDIATE")
        now = time.time()
        for start in range(0, len(payloads), 100):
            part = payloads[start : start + 100]
            values = [v for i, p in enumerate(part, first + start) for v in (i, QUEUE, 0, now, p, None, None)]
            self.execute(sql.INSERT_PLAIN + ANOTHER_ROW * (len(part) - 1), values)
        self.execute(sql.ENTER_LINE_MANY, (first, first + len(payloads) - 1, QUEUE, now))
        self.execute(sql.COUNT_ARRIVALS, (len(payloads), QUEUE))
        self.execute("COMMIT")

    def try_lease(self) -> Handle | None:
        now = time.time()
        claimed = self.execute(sql.CLAIM_ONE, (QUEUE, now, now + 600, None, None)).fetchall()
        if not claimed:
            return None
        key, token = claimed[0]
        row = self.execute(sql.CLAIMED_MESSAGE, (key,)).fetchone()
        return key, token, json.loads(row[0])

    def lease(self) -> Handle:
        handle = self.try_lease()
        assert handle is not None
        return handle

    def ack(self, handle: Handle) -> None:
        self.execute(sql.ACK_ONE, (handle[0], QUEUE, handle[1]))

    def lease_many(self, n: int) -> list[Handle]:
        execute = self.execute
        execute("BEGIN IMMEDIATE")
        now = time.time()
        rows = execute(sql.NEXT_IN_LINE, (QUEUE, n)).fetchall()
        execute(sql.LEASE_UP_TO, (now + 600, now, None, None, QUEUE, *rows[-1][:3]))
        execute(sql.LEAVE_LINE_UP_TO, (QUEUE, *rows[-1][:3]))
        execute(sql.COUNT_DEPARTURES, (len(rows), now + 600, QUEUE))
        execute("COMMIT")
        return [(row[2], row[3] + 1, json.loads(row[4])) for row in rows]

    def ack_many(self, handles: list[Handle]) -> None:
        execute = self.execute
        execute("BEGIN IMMEDIATE")
        keys = json.dumps([key for key, _, _ in handles])
        execute(sql.DELETE_ACKED, (keys, QUEUE, 1)).fetchall()  # all on their first attempt
        execute("COMMIT")

    def value(self, handle: Handle) -> Any:
        return handle[2]

    def start_worker(self, handler: Callable[[Any], object]) -> None:
        bell = threading.Semaphore(0)

        def loop() -> None:
            while bell.acquire():
                handle = self.try_lease()
                if handle is None:
                    break
                handler(handle[2])
                self.ack(handle)

        def put_and_ring(item: dict[str, Any]) -> None:
            Adapter.put(self, item)
            bell.release()

        self.put = put_and_ring  # type: ignore[method-assign]
        self.bell = bell
        self.worker = threading.Thread(target=loop)
        self.worker.start()

    def stop_worker(self) -> None:
        self.bell.release()
        self.worker.join()

    def close(self) -> None:
        self.connection.close()
