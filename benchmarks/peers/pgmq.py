"""pgmq: the SQL of the extension, installed by its own installer, and its psycopg client with its default pool.

Its default pool opens a transaction around each call, three round trips; with `autocommit` it is given a pool that does
not. It has no worker: `work` is a loop that reads and deletes 50 at a time.
"""

from __future__ import annotations

from typing import Any

import psycopg
from pgmq import PGMQueue
from pgmq.install import get_embedded_install_sql, install_pgmq_sql
from psycopg_pool import ConnectionPool

QUEUE = "bench"


class Adapter:
    def __init__(self, url: str, *, autocommit: bool = False) -> None:
        with psycopg.connect(url) as connection:
            there = connection.execute("SELECT to_regnamespace('pgmq')").fetchone()
        if there == (None,):
            install_pgmq_sql(get_embedded_install_sql(), dsn=url)
        self.pool = ConnectionPool(url, min_size=1, kwargs={"autocommit": True}, open=True) if autocommit else None
        self.queue = PGMQueue(conn_string=url, vt=600, init_extension=False, pool=self.pool)
        self.queue.create_queue(QUEUE)

    def put(self, item: dict[str, Any]) -> None:
        self.queue.send(QUEUE, item)

    def put_many(self, items: list[dict[str, Any]]) -> None:
        self.queue.send_batch(QUEUE, items)

    def lease(self) -> Any:
        return self.queue.read(QUEUE)

    def lease_many(self, n: int) -> list[Any]:
        return self.queue.read_batch(QUEUE, batch_size=n)

    def ack(self, message: Any) -> None:
        self.queue.delete(QUEUE, message.msg_id)

    def ack_many(self, messages: list[Any]) -> None:
        self.queue.delete_batch(QUEUE, [message.msg_id for message in messages])

    def work(self, n: int) -> None:
        for _ in range(0, n, 50):
            self.ack_many(self.lease_many(50))

    def close(self) -> None:
        self.queue.close()
        if self.pool is not None:
            self.pool.close()
