"""The physical limit: a plain table and one index, by hand on the sqlite3 module.

WAL, synchronous=NORMAL, one transaction an operation, and no promise beyond that: no lease
tokens, no queue names, no deduplication, no capacity. It pays for the same JSON as everyone else,
unless told not to (`with_json=False`: one prepared byte string goes in and comes out).
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = tuple[int, bytes]

SCHEMA = """
CREATE TABLE IF NOT EXISTS message (
    id INTEGER PRIMARY KEY, state INTEGER NOT NULL, leased_until REAL, payload BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS message_state ON message (state, id);
"""
INSERT = "INSERT INTO message (state, payload) VALUES (0, ?)"
LEASE = """
UPDATE message SET state = 1, leased_until = ?
WHERE id = (SELECT id FROM message WHERE state = 0 ORDER BY id LIMIT 1)
RETURNING id, payload
"""
LEASE_MANY = """
UPDATE message SET state = 1, leased_until = ?
WHERE id IN (SELECT id FROM message WHERE state = 0 ORDER BY id LIMIT ?)
RETURNING id, payload
"""
DELETE = "DELETE FROM message WHERE id = ?"
COUNT = "SELECT count(*) FROM message WHERE state = 0"

PREPARED = json.dumps({"n": 1, "payload": "x" * 108}).encode()


def _encode(item: Any) -> bytes:
    return json.dumps(item).encode()


def _prepared(item: Any) -> bytes:
    return PREPARED


class Adapter:
    def __init__(self, path: str, with_json: bool = True) -> None:
        self.encode: Callable[[Any], bytes] = _encode if with_json else _prepared
        self.decode: Callable[[bytes], Any] = json.loads if with_json else bytes
        file = Path(path) / "raw.sqlite3"
        self.connection = sqlite3.connect(file, isolation_level=None, timeout=30)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self.connection.executescript(SCHEMA)
        self.execute = self.connection.execute

    def put(self, item: dict[str, Any]) -> None:
        execute = self.execute
        payload = self.encode(item)
        execute("BEGIN IMMEDIATE")
        execute(INSERT, (payload,))
        execute("COMMIT")

    def put_many(self, items: list[dict[str, Any]]) -> None:
        rows = [(self.encode(item),) for item in items]
        self.execute("BEGIN IMMEDIATE")
        self.connection.executemany(INSERT, rows)
        self.execute("COMMIT")

    def try_lease(self) -> Row | None:
        execute = self.execute
        execute("BEGIN IMMEDIATE")
        row: Row | None = execute(LEASE, (time.time() + 60,)).fetchone()
        execute("COMMIT")
        return row

    def lease(self) -> tuple[int, Any]:
        row = self.try_lease()
        assert row is not None
        return row[0], self.decode(row[1])

    def ack(self, handle: tuple[int, Any]) -> None:
        execute = self.execute
        execute("BEGIN IMMEDIATE")
        execute(DELETE, (handle[0],))
        execute("COMMIT")

    def lease_many(self, n: int) -> list[tuple[int, Any]]:
        self.execute("BEGIN IMMEDIATE")
        rows = self.execute(LEASE_MANY, (time.time() + 60, n)).fetchall()
        self.execute("COMMIT")
        return [(key, self.decode(payload)) for key, payload in rows]

    def ack_many(self, handles: list[tuple[int, Any]]) -> None:
        self.execute("BEGIN IMMEDIATE")
        self.connection.executemany(DELETE, [(key,) for key, _ in handles])
        self.execute("COMMIT")

    def qsize(self) -> int:
        count: int = self.execute(COUNT).fetchone()[0]
        return count

    def value(self, handle: Row) -> Any:
        return self.decode(handle[1])

    def close(self) -> None:
        self.connection.close()
