"""A DAG of Airflow: when orders have piled up, Spark exports them.

    export AIRFLOW_HOME=/tmp/airflow AIRFLOW__CORE__DAGS_FOLDER=$PWD/dags SHOP_FOLDER=/tmp/shop
    mkdir -p dags /tmp/shop && cp examples/airflow_dag.py dags
    airflow db migrate && airflow dags reserialize
    python dags/airflow_dag.py    # puts 120 orders
    airflow dags test orders

In a real Airflow this file is in the folder of DAGs, and LOCALQUEUE_URL names the store on its workers.
"""

from __future__ import annotations

import os

from airflow.sdk import DAG

from localqueue import PersistentQueue
from localqueue.airflow import BacklogSensor, PipelineOperator
from localqueue.stores.url import open_store

FOLDER = os.environ.get("SHOP_FOLDER", "/tmp/shop")
URL = os.environ.get("LOCALQUEUE_URL", f"sqlite:///{FOLDER}/shop.db")

with DAG("orders", schedule=None, catchup=False) as dag:
    waiting = BacklogSensor(
        task_id="waiting", queue_name="orders", url=URL, ready=100, age=600, mode="reschedule", poke_interval=60
    )
    export = PipelineOperator(
        task_id="export", job="export", arguments={"url": URL, "queue": "orders", "path": f"{FOLDER}/{{{{ run_id }}}}"}
    )
    waiting >> export


if __name__ == "__main__":
    with open_store(URL) as store:
        PersistentQueue("orders", store=store).put_many([{"order_id": number} for number in range(120)])
