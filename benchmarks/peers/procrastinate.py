"""Procrastinate on psycopg: puts through its synchronous connector, its worker with defaults (one job at a time)."""

from __future__ import annotations

from typing import Any

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector
from psycopg_pool import ConnectionPool


class Adapter:
    def __init__(self, url: str) -> None:
        self.tally: Any = None
        self.app = App(connector=SyncPsycopgConnector(conninfo=url))

        @self.app.task(name="bench")
        def work(item: dict[str, Any]) -> None:
            self.tally()

        self.task = work
        self.app.open()
        if not self._installed(url):
            self.app.schema_manager.apply_schema()
        self.worker_connector = PsycopgConnector(conninfo=url)

    @staticmethod
    def _installed(url: str) -> bool:
        with ConnectionPool(url, min_size=1) as pool, pool.connection() as connection:
            return connection.execute("SELECT to_regclass('procrastinate_jobs')").fetchone() != (None,)

    def put(self, item: dict[str, Any]) -> None:
        self.task.defer(item=item)

    def put_many(self, items: list[dict[str, Any]]) -> None:
        self.task.batch_defer(*({"item": item} for item in items))

    def work_with(self, tally: Any) -> None:
        self.tally = tally
        with self.app.replace_connector(self.worker_connector) as app:
            app.run_worker(wait=False, install_signal_handlers=False)

    def close(self) -> None:
        self.app.close()
