"""Tables of a catalog, in Iceberg and Delta, written by Spark with their jars; and what is said where these are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import localqueue
from localqueue.spark.jobs.archive import archive
from localqueue.spark.jobs.compact import compact
from localqueue.spark.jobs.export import export
from localqueue.spark.jobs.lake_table import LakeTable
from localqueue.spark.jobs.materialise import materialise
from tests import lake_jars
from tests.spark.test_jobs_archive import Journal

#: The PySpark that the jars are for, beside the one of the other tests.
PLACE = Path(sys.prefix) / "lake"
SOURCE = Path(localqueue.__file__).parents[1]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `lake_job` has found, by format."""
    if not lake_jars.jars():
        pytest.skip("the jars of Iceberg and Delta are not there: run ./script/servers, which fetches them")
    # Other tests of this process may have chosen a Java that is too new for an older Spark, which finds its own.
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.spark.lake_job", str(tmp_path_factory.mktemp("lake"))],
        env={**kept, "PYTHONPATH": os.pathsep.join(map(str, (PLACE, SOURCE)))},
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-6000:]
    return dict(json.loads(ended.stdout.strip().splitlines()[-1]))


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_queue_is_consumed_into_a_table_and_each_message_is_there_once(lake: dict[str, Any]) -> None:
    for format, found in lake.items():
        consumed = found["consumed"]
        # Messages in the queue, rows of the table, and how many of these are different.
        assert consumed["drained"] == [[20, 20, 10], [0, 50, 50]]
        assert consumed["one batch"] == [10, 60, 60]  # acked when the query asks for more
        repeated, there = consumed["without its commit"]
        assert there == [0, 60, 60]
        if format == "iceberg":
            assert repeated == [10]  # read again, and passed over by the table; Delta does not even read it
            assert consumed["after a commit"] == [[5], [0, 75, 75]]
            assert found["copied"] == ["null", "null"]  # what the journal had behind its archive, in another queue


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_view_in_a_table_of_a_catalog_follows_its_queue(lake: dict[str, Any]) -> None:
    for format, all_found in lake.items():
        namespace, found = "lake.db" if format == "iceberg" else "default", all_found["materialised"]
        assert found["view"] == [f"{namespace}.latest_things", format, True, [["a", 3], ["b", 2]]]
        latest = [["a", 6, "x"], ["b", 4, None], ["c", 5, None]]
        assert found["went on"] == [2, latest]
        assert found["repeated"] == [1, latest]
        assert found["counted"] == [["a", 3], ["b", 2], ["c", 1]]
        other_queue, no_view, checkpoint, made = found["refused"]
        assert other_queue.endswith("is a view with queue 'things' and not 'jobs': give another table")
        assert no_view.endswith("journal is not a view, it has no property localqueue.view: give another table")
        assert checkpoint.endswith(f"is the checkpoint of the view {namespace}.n: read that by spark.table")
        assert not made
        if format == "iceberg":
            assert "entries 1 to 6 were pruned from the journal" in found["pruned"]
            assert found["rebuilt"] == [["a", 6], ["b", 4]]
            assert found["replayed"] == 3
            assert "is not an archive, it has no property localqueue.archive" in found["no archive"]
            assert found["removed"] == [1, [["b", 4]]]
            assert "lake.db.latest_things is not there any more" in found["dropped"]


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_each_entry_is_once_in_a_table_of_iceberg_or_delta_however_often_it_is_archived(lake: dict[str, Any]) -> None:
    for format, found in lake.items():
        namespace = "lake.db" if format == "iceberg" else "default"
        assert found["first"] == [2, 1, 2, f"{namespace}.journal", format]
        assert found["nothing new"] == 0
        failure, left = found["fails before its commit"]
        assert "worn out" in failure and left == [1, 2]
        assert found["second"] == [1, 3, 3, [1, 2, 3]]
        same, fewer, there = found["overlapping"]
        meanwhile = f"CommittedElsewhere: somebody else has committed to {namespace}.journal meanwhile: run this again"
        # Delta knows that it has these, and writes nothing; Iceberg refuses.
        assert (same, fewer) == ((meanwhile, meanwhile) if format == "iceberg" else ("nothing: 1", "nothing: 1"))
        assert there == [1, 2, 3]
        assert found["pruned"] == [3, [1, 2, 3]]
        assert found["row"] == ['{"k":"a","n":1}', {"trace": "x"}, True]
        assert found["refused"].endswith("with queue None and not 'jobs': give another table")
        once, refused, added, both, replaced, now = found["exported"]
        assert (once, added, both, replaced, now) == (3, 4, 7, 4, 4)
        assert refused == f"ValueError: table {namespace}.out is there already: give another one, or a mode"
        assert "has no property localqueue.archive, so it is no archive" in found["no archive"]
        if format == "iceberg":
            assert found["compacted"] == [2, ['{"k":"a","n":3}', '{"k":"b","n":2}']]
            assert found["snapshots"] == [4, 4, 2]


def test_a_table_that_spark_can_not_reach_is_refused_with_the_way_there(spark: Any, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.put("1")
    given: dict[str, Any] = {"url": journal.url}
    spark.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    try:
        for job, table, format, said in (
            (
                archive,
                "lake.db.t",
                None,
                r"Spark has no jar of iceberg: .*spark-runtime-4\.1_2\.13:1\.12\.0.*give a path",
            ),
            (export, "db.t", None, r"'spark_catalog' is neither of Iceberg nor of Delta: .*give format"),
            (export, "nocat.db.t", "iceberg", r"there is no catalog 'nocat': set spark\.sql\.catalog\.nocat="),
            (export, "t", "delta", r"Spark has no jar of delta: .*delta-spark_4\.2_2\.13:4\.4\.0"),
            (export, "no name", "delta", r"'no name' is not the name of a table"),
            (export, "nodb.t", "delta", r"its namespace is not there|Spark has no jar of delta"),
            (export, "t", "csv", r"format must be one of iceberg, delta, not 'csv'"),
        ):
            with pytest.raises(ValueError, match=said) as told:
                job(spark, **given, table=table, format=format)
            assert "\n" not in str(told.value)
    finally:
        spark.conf.unset("spark.sql.catalog.lake")
    for wrong in ({}, {"path": tmp_path / "a", "table": "lake.db.t"}):
        with pytest.raises(ValueError, match="give either path, for a folder, or table"):
            archive(spark, **given, **wrong)
        with pytest.raises(ValueError, match="give either path or table"):
            compact(spark, journal.url, key="k", **wrong)
        with pytest.raises(ValueError, match="give either path, for a folder, or table"):
            materialise(spark, **given, queue="jobs", key="k", **wrong)
    with pytest.raises(ValueError, match=r"'lake\.db\.t' has no folder in which .*: give checkpoint"):
        materialise(spark, **given, queue="jobs", key="k", table="lake.db.t", format="iceberg")
    with pytest.raises(ValueError, match=r"there is no catalog 'nocat'"):
        materialise(
            spark, **given, queue="jobs", key="k", table="nocat.db.t", format="iceberg", checkpoint=tmp_path / "cp"
        )
    assert not (tmp_path / "cp").exists()


def test_a_jar_that_is_built_for_another_spark_is_named(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise RuntimeError("java.lang.IncompatibleClassChangeError: class org.apache.iceberg.spark.source.SparkView")

    monkeypatch.setattr(type(spark.catalog), "tableExists", refuse)
    with pytest.raises(ValueError, match=r"the jar of iceberg is not for this Spark: none .* works with Spark 4\.3"):
        LakeTable(spark, "lake.db.t", "iceberg")
