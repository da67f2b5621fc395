"""Archives, exports and views where tables live that many share: on an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from localqueue.spark.jobs import parquet_archive
from localqueue.spark.jobs.archive import archive, read_archive
from localqueue.spark.jobs.export import export
from localqueue.spark.jobs.files import folder_at
from localqueue.spark.jobs.ingest import ingest
from localqueue.spark.jobs.materialise import materialise, read_view
from tests import s3_jars
from tests.broker_servers import S3
from tests.servers import shared
from tests.spark.test_jobs_archive import Journal, Killed


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


@pytest.fixture
def bucket(spark: Any) -> str:
    """A bucket of an S3 server, as Spark spells it."""
    if not s3_jars.jars():
        pytest.skip("Spark's driver for S3 is not there: run ./script/servers, which fetches it")
    server = shared(S3)
    for key, value in server.spark_conf().items():
        spark._jsc.hadoopConfiguration().set(f"fs.s3a.{key}", value)
    name = f"bucket-{uuid4()}"
    server.make_bucket(name)
    return f"s3a://{name}"


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_archives_views_and_exports_on_s3_are_committed_by_one_request(
    spark: Any, journal: Journal, bucket: str, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{bucket}/lake/archive"
    journal.put('{"k":"a","n":1}', '{"k":"b","n":2}')
    assert archive(spark, url=journal.url, path=path, format=format).rows == 2
    journal.put('{"k":"a","n":3}')
    with monkeypatch.context() as patch:  # killed when all is written and nothing committed
        if format == "parquet":
            patch.setattr(type(folder_at(spark, path)), "write", _killed)
        else:
            patch.setattr("deltalake.DeltaTable.create_write_transaction", _killed)
        with pytest.raises(Killed):
            archive(spark, url=journal.url, path=path, format=format)
    assert sorted(row["seq"] for row in read_archive(spark, path).collect()) == [1, 2]
    assert archive(spark, url=journal.url, path=path, format=format, compact_after=1, prune=True).pruned == 3
    assert archive(spark, url=journal.url, path=path, format=format).rows == 0
    rows = read_archive(spark, path).orderBy("seq").collect()
    assert [(row["seq"], row["value"]) for row in rows] == [
        (1, '{"k":"a","n":1}'), (2, '{"k":"b","n":2}'), (3, '{"k":"a","n":3}'),
    ]  # fmt: skip
    if format == "delta":
        out = f"{bucket}/out"
        assert export(spark, url=journal.url, path=out, queue="jobs", format="delta").rows == 3
        with pytest.raises(ValueError, match="is a Delta table: give another path, or a mode"):
            export(spark, url=journal.url, path=out, queue="jobs")
        return
    assert len(parquet_archive.spans_in(folder_at(spark, path))) == 1
    view = f"{bucket}/view"
    materialise(spark, url=journal.url, queue="jobs", path=view, key="k", schema="k string, n int", archive=path)
    assert sorted((row["k"], row["n"]) for row in read_view(spark, view).collect()) == [("a", 3), ("b", 2)]


def _killed(*args: Any, **named: Any) -> None:
    raise Killed


def test_only_one_writer_makes_an_object_and_what_s3_refuses_is_told_in_one_line(
    spark: Any, journal: Journal, bucket: str
) -> None:
    one, other = folder_at(spark, f"{bucket}/a"), folder_at(spark, f"{bucket}/a")
    one.write("x/note", "é")
    with pytest.raises(FileExistsError, match="note is there already"):
        other.write("x/note", "2")
    assert other.read("x/note") == "é"
    other.replace("x/note", "2")
    assert one.read("x/note") == "2"
    journal.put("1")
    with pytest.raises(ValueError, match=r"no-such/a can not be reached: there is no such bucket") as told:
        archive(spark, url=journal.url, path="s3a://no-such/a")
    assert "\n" not in str(told.value)
    with pytest.raises(ValueError, match=r"no-such/\*.json can not be reached: there is no such bucket"):
        ingest(spark, "s3a://no-such/*.json", url=journal.url, queue="jobs")
    with pytest.raises(ValueError, match="no driver for that scheme"):
        archive(spark, url=journal.url, path="gs://bucket/a")
