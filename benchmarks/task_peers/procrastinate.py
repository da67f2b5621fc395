"""Procrastinate with a task of two arguments: synchronous defers, its worker; it keeps jobs but no results."""

from __future__ import annotations

from typing import Any

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector


class Adapter:
    def __init__(self, url: str, *, results: bool, concurrency: int) -> None:
        self.tally: Any = None
        self.concurrency = concurrency
        self.app = App(connector=SyncPsycopgConnector(conninfo=url))

        @self.app.task(name="measure_text")
        def measure_text(number: int, text: str) -> int:
            self.tally()
            return number + len(text)

        self.task = measure_text
        self.app.open()
        self.app.schema_manager.apply_schema()
        self.worker_connector = PsycopgConnector(conninfo=url)

    def put(self, item: dict[str, Any]) -> None:
        self.task.defer(number=item["n"], text=item["path"])

    def work_with(self, tally: Any) -> None:
        self.tally = tally
        with self.app.replace_connector(self.worker_connector) as app:
            app.run_worker(wait=False, install_signal_handlers=False, concurrency=self.concurrency)

    def forget(self) -> None:
        pass

    def close(self) -> None:
        self.app.close()
