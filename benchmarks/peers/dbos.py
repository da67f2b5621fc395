"""DBOS: workflows put on a queue by its client, and run by a process that is launched for the worker's turn.

The queue has no limits of concurrency, and its polling interval is the default. The handler is a workflow without
steps.
"""

from __future__ import annotations

from typing import Any

from dbos import DBOS, DBOSClient, DBOSConfig

TALLY: Any = None


@DBOS.workflow(name="bench")
def bench(item: dict[str, Any]) -> None:
    TALLY()


class Adapter:
    def __init__(self, url: str) -> None:
        self.config = DBOSConfig(name="bench", system_database_url=url, log_level="WARNING")
        self._launch()
        DBOS.register_queue("bench")
        DBOS.destroy()
        self.client = DBOSClient(system_database_url=url)

    def _launch(self) -> None:
        DBOS(config=self.config)
        DBOS.launch()

    def put(self, item: dict[str, Any]) -> None:
        self.client.enqueue({"workflow_name": "bench", "queue_name": "bench"}, item)

    def work_with(self, tally: Any) -> None:
        global TALLY
        TALLY = tally
        self._launch()
        tally.done.wait(300)
        DBOS.destroy(workflow_completion_timeout_sec=10)

    def close(self) -> None:
        self.client.destroy()
