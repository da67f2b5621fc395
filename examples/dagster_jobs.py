"""A code location of Dagster: when orders have piled up, Spark exports them and keeps an archive.

    python examples/dagster_jobs.py

In a real Dagster, `dagster dev -f examples/dagster_jobs.py` with LOCALQUEUE_URL in its environment.
"""

from __future__ import annotations

import os
import tempfile

from dagster import DagsterInstance, Definitions, RunRequest, build_sensor_context, job, materialize

from localqueue import PersistentQueue
from localqueue.dagster import backlog_sensor, pipeline_asset, pipeline_op
from localqueue.stores.url import open_store

FOLDER = os.environ.get("SHOP_FOLDER") or tempfile.mkdtemp()
URL = os.environ.get("LOCALQUEUE_URL", f"sqlite:///{FOLDER}/shop.db")

export = pipeline_op("export", arguments={"url": URL, "queue": "orders", "path": f"{FOLDER}/orders", "mode": "append"})
archive = pipeline_asset("archive", name="journal", arguments={"url": URL, "path": f"{FOLDER}/journal"})


@job
def export_orders():
    export()


waiting = backlog_sensor(
    "orders_waiting",
    target=export_orders,
    queue="orders",
    url=URL,
    ready=100,
    age=600,
    missing_ok=True,
    minimum_interval_seconds=60,
)
defs = Definitions(assets=[archive], jobs=[export_orders], sensors=[waiting])


if __name__ == "__main__":
    with DagsterInstance.ephemeral() as instance:
        print(waiting(build_sensor_context(instance=instance)))
        with open_store(URL) as store:
            store.enable_journal()
            PersistentQueue("orders", store=store).put_many([{"order_id": number} for number in range(120)])
        asked = waiting(build_sensor_context(instance=instance))
        assert isinstance(asked, RunRequest), asked
        done = export_orders.execute_in_process(instance=instance, tags=asked.tags)
        print(done.output_for_node("export"))
        made = materialize([archive], instance=instance)
        print(made.asset_materializations_for_node("journal")[0].metadata["rows"])
        raise SystemExit(not (done.success and made.success))
