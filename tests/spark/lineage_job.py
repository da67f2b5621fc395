"""A session with OpenLineage's own listener, which reads a queue, writes one and consumes one:
`python -m tests.spark.lineage_job URL FOLDER`. The environment says where its events go.
"""

from __future__ import annotations

import sys
from typing import Any

from localqueue.spark import session, tell_lineage
from localqueue.spark.lineage_parent import LISTENER
from tests import openlineage_jar

#: Short jobs: compiling them well costs more than running them badly.
QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.host": "127.0.0.1",
}


def main(url: str, folder: str) -> None:
    conf = {
        **QUICK,
        "spark.jars": str(openlineage_jar.jar()),
        "spark.extraListeners": LISTENER,
        "spark.openlineage.namespace": "shop",
        "spark.local.dir": f"{folder}/local",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    spark = session("nightly Lake", master="local[1]", conf=conf, brief=True)

    def add(batch: Any, number: int) -> None:
        batch.write.mode("append").parquet(f"{folder}/consumed")

    try:
        orders = {"url": url, "queue": "orders"}
        with tell_lineage(spark, "orders to lake", reads=[orders], writes=[f"{folder}/lake"]):
            source = spark.read.format("localqueue").options(**orders, numPartitions="1").schema("n long").load()
            source.write.parquet(f"{folder}/lake")
        lake = spark.read.schema("n long").parquet(f"{folder}/lake")
        lake.write.format("localqueue").options(url=url, queue="back").mode("append").save()
        stream = spark.readStream.format("localqueue").options(**orders, mode="consume", consumer="etl")
        (
            stream.schema("n long").load().writeStream.foreachBatch(add)
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True).start().awaitTermination()
        )  # fmt: skip
        spark.sql(f"CREATE TABLE back USING localqueue OPTIONS (url '{url}', queue 'back', schema 'n long')")
        spark.table("back").write.parquet(f"{folder}/copy")
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
