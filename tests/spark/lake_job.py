"""Jobs into tables of Iceberg and Delta: `python -m tests.spark.lake_job FOLDER`, on the PySpark that has jars.

Prints one line of JSON about what it found. The test beside it says what that must be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from localqueue.spark import archive, compact, export, session
from localqueue.spark.jobs.lake_table import LakeTable
from tests import lake_jars
from tests.spark.lake_streams import consumed, copied, materialised
from tests.spark.test_jobs_archive import Journal

CATALOGS = {
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def main(folder: Path) -> None:
    conf = {
        **CATALOGS,
        "spark.jars": ",".join(lake_jars.jars()),
        "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    spark: Any = session(master="local[2]", conf=conf)
    found = {}
    for format, namespace in (("iceberg", "lake.db"), ("delta", "default")):
        (folder / format).mkdir()
        journal = Journal(folder / format)
        found[format] = {**archived(spark, journal, namespace), **exported(spark, journal, namespace)}
        found[format]["consumed"] = consumed(spark, folder / format, namespace, format)
        views = folder / format / "views"
        views.mkdir()
        found[format]["materialised"] = materialised(spark, views, namespace, _said)
    found["iceberg"]["copied"] = copied(spark, folder / "iceberg" / "views")
    print(json.dumps(found), flush=True)
    spark.stop()


def archived(spark: Any, journal: Journal, namespace: str) -> dict[str, Any]:
    table = f"{namespace}.journal"
    given: dict[str, Any] = {"url": journal.url, "table": table}

    def seqs() -> list[int]:
        return sorted(row["seq"] for row in spark.table(table).select("seq").collect())

    found: dict[str, Any] = {}
    journal.put('{"k":"a","n":1}', '{"k":"b","n":2}', headers='{"trace":"x"}')
    first = archive(spark, **given)
    found["first"] = [first.rows, first.first, first.last, first.path, first.format]
    found["nothing new"] = archive(spark, **given).rows

    journal.put('{"k":"a","n":3}')
    found["fails before its commit"] = [_said(lambda: _write_badly(spark, table)), seqs()]
    late, later = LakeTable(spark, table), LakeTable(spark, table)
    second = archive(spark, **given)
    found["second"] = [second.rows, second.first, second.last, seqs()]
    # As writers do that began before that commit: one has the same entries, one would even leave out some.
    rows = spark.table(table).where("seq = 3").persist()
    rows.count()
    found["overlapping"] = [
        _said(lambda: late.extend(rows, "seq", 2, 3, writer="localqueue archive default *")),
        _said(lambda: later.extend(rows, "seq", 1, 2, writer="localqueue archive default *")),
        seqs(),
    ]
    found["pruned"] = [archive(spark, **given, prune=True).pruned, seqs()]
    row = spark.table(table).where("seq = 1").first()
    found["row"] = [row["value"], row["headers"], row["date"].isoformat() == row["at"].strftime("%Y-%m-%d")]
    found["refused"] = _said(lambda: archive(spark, **given, queue="jobs"))
    return found


def exported(spark: Any, journal: Journal, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    journal.put("4")
    out: dict[str, Any] = {"url": journal.url, "table": f"{namespace}.out", "queue": "jobs"}
    found["exported"] = [
        export(spark, **out, where="value like '{%'").rows,
        _said(lambda: export(spark, **out)),
        export(spark, **out, mode="append").rows,
        spark.table(out["table"]).count(),
        export(spark, **out, mode="overwrite").rows,
        spark.table(out["table"]).count(),
    ]
    found["no archive"] = _said(lambda: archive(spark, url=journal.url, table=out["table"]))
    if namespace == "default":  # the rest goes the same ways
        return found
    latest = compact(spark, spark.table(f"{namespace}.journal"), key="k", table=f"{namespace}.latest")
    kept = spark.table(f"{namespace}.latest").orderBy("key").collect()
    found["compacted"] = [latest.keys, [row["value"] for row in kept]]
    taken = [archive(spark, url=journal.url, table=f"{namespace}.taken", view="messages").rows for _ in range(2)]
    found["snapshots"] = [*taken, spark.table(f"{namespace}.taken").select("taken_at").distinct().count()]
    return found


def _write_badly(spark: Any, table: str) -> None:
    from pyspark.sql import functions as f

    rows = spark.table(table).withColumn("seq", f.col("seq") + 2)
    bad = rows.withColumn("type", f.when(f.col("seq") > 3, f.raise_error(f.lit("worn out"))).otherwise(f.col("type")))
    LakeTable(spark, table).extend(bad, "seq", 2, 4, writer="localqueue archive default *")


def _said(job: Callable[[], Any]) -> str:
    try:
        return f"nothing: {job()}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
