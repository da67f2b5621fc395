"""What jobs tell OpenLineage, by its real client, into a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue
from localqueue.spark import export, ingest
from localqueue.spark.lineage import origin_of, path_of, queue_of
from localqueue.stores.url import open_store


def test_places_have_the_names_that_spark_gives_them_and_no_password() -> None:
    assert path_of({"path": "/data/out"}) == path_of({"path": "file:///data/out"}) == ("file", "/data/out")
    assert path_of({"path": "s3a://bucket/a/b/"}) == ("s3a://bucket", "a/b")
    given = {"url": "postgresql://me:secret@host/db", "queue": "jobs"}
    assert "secret" not in str(queue_of(given))
    assert queue_of({"url": "sqlite:////a.db", "namespace": "team"}) == ("sqlite:////a.db", "team.journal")
    assert origin_of({"source": "sqlite:////a.db", "queue": "jobs"}) == ("sqlite:////a.db", "default.jobs")
    assert origin_of({"source": "/data/in.csv", "queue": "jobs"}) == ("file", "/data/in.csv")


def test_a_job_tells_what_it_reads_and_writes_and_how_it_ended(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, url = tmp_path / "events", f"sqlite:///{tmp_path}/store.db"
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(events))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    with open_store(url) as store:
        PersistentQueue[Any]("jobs", store=store).put_many([1, 2, 3])
    (tmp_path / "in.json").write_text('{"n": 1}\n{"n": 2}\n')
    ingest(spark, tmp_path / "in.json", url=url, queue="in")
    with pytest.raises(ValueError, match="no-such"):
        export(spark, url=url, queue="jobs", path=tmp_path / "out", where="no-such = 'column'")
    told = [json.loads(line) for line in events.read_text().splitlines()]
    assert [(one["eventType"], one["job"]["name"].split(".")[1]) for one in told] == [
        ("START", "ingest"), ("COMPLETE", "ingest"), ("START", "export"), ("FAIL", "export"),
    ]  # fmt: skip
    done, failed = told[1], told[3]
    assert [one["name"] for one in done["inputs"]] == [str(tmp_path / "in.json")]
    assert [(one["name"], one["outputFacets"]["outputStatistics"]["rowCount"]) for one in done["outputs"]] == [
        ("default.in", 2)
    ]
    assert told[0]["run"]["runId"] == done["run"]["runId"] != failed["run"]["runId"]
    assert "no-such" in failed["run"]["facets"]["errorMessage"]["message"]
