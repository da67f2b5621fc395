"""What jobs tell OpenLineage, by its real client, into a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue
from localqueue.spark import export, ingest, tell_lineage
from localqueue.spark.lineage import origin_of, path_of, queue_of
from localqueue.spark.lineage_parent import LISTENER, Run, run_of_application, with_a_run
from localqueue.stores.url import open_store
from tests import openlineage_jar


def test_places_have_the_names_that_spark_gives_them_and_no_password() -> None:
    assert path_of({"path": "/data/out"}) == path_of({"path": "file:///data/out"}) == ("file", "/data/out")
    assert path_of({"path": "s3a://bucket/a/b/"}) == ("s3a://bucket", "a/b")
    given = {"url": "postgresql://me:secret@host/db", "queue": "jobs"}
    assert "secret" not in str(queue_of(given))
    assert queue_of({"url": "sqlite:////a.db", "namespace": "team"}) == ("sqlite:////a.db", "team.journal")
    assert origin_of({"source": "sqlite:////a.db", "queue": "jobs"}) == ("sqlite:////a.db", "default.jobs")
    assert origin_of({"source": "/data/in.csv", "queue": "jobs"}) == ("file", "/data/in.csv")
    assert queue_of({"url": "sqlite:///a.db", "queue": "jobs"}) == (
        f"sqlite:///{Path('a.db').absolute()}",
        "default.jobs",
    )


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


class Session:
    """As much of a session as tells its settings."""

    def __init__(self, **settings: str) -> None:
        self.conf = {f"spark.{name.replace('__', '.')}": text for name, text in settings.items()}


def test_a_session_with_the_listener_names_the_run_of_its_application() -> None:
    made = with_a_run({"spark.extraListeners": f"a.B,{LISTENER}"})
    assert len(made["spark.openlineage.applicationRunId"]) == 36
    assert with_a_run(made) == made
    assert with_a_run({"spark.extraListeners": "a.B"}) == {"spark.extraListeners": "a.B"}


@pytest.mark.parametrize(
    ("name", "listed"),
    [("nightly Lake", "nightly_lake"), ("camelCaseETLJob 2", "camel_case_etl_job_2"), (" -Ünï9X- ", "uni9_x")],
)
def test_an_application_has_the_name_that_the_listener_gives_it(name: str, listed: str) -> None:
    spark: Any = Session(openlineage__applicationRunId="r", app__name=name)
    assert run_of_application(spark) == Run("default", listed, "r")
    spark = Session(openlineage__applicationRunId="r", openlineage__appName=name, openlineage__namespace="shop")
    assert run_of_application(spark) == Run("shop", listed, "r")
    assert run_of_application(Session(app__name=name)) is None  # type: ignore[arg-type]


def events_in(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def names(datasets: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["namespace"], one["name"]) for one in datasets]


def test_any_block_is_told_of_and_its_failure_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark: Any = Session()
    with tell_lineage(spark, "untold", reads=["/data"]):
        pass  # nothing is set up
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(tmp_path / "events"))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    queue = {"url": "postgresql://me:secret@host/db", "queue": "jobs"}
    with pytest.raises(ZeroDivisionError), tell_lineage(spark, "sums", reads=["/a", queue], writes=["s3a://b/c"]):
        raise ZeroDivisionError
    began, ended = events_in(tmp_path / "events")
    assert (began["eventType"], ended["eventType"], ended["job"]["name"]) == ("START", "FAIL", "sums")
    assert names(ended["inputs"])[0] == ("file", "/a") and names(ended["inputs"])[1][1] == "default.jobs"
    assert names(ended["outputs"]) == [("s3a://b", "c")]
    assert "secret" not in (tmp_path / "events").read_text() and "parent" not in ended["run"]["facets"]
    with pytest.raises(ValueError, match="is no dataset"), tell_lineage(spark, "sums", reads=[{"queue": "jobs"}]):
        pass


@pytest.mark.spark
@pytest.mark.timeout(320)
def test_the_listener_of_openlineage_works_with_source_and_sink_and_both_make_one_graph(tmp_path: Path) -> None:
    if openlineage_jar.jar() is None:
        pytest.skip("OpenLineage's listener is not installed: run ./script/servers, which fetches it")
    events, url = tmp_path / "events", f"sqlite:///{tmp_path}/store.db"
    with open_store(url) as store:
        PersistentQueue[Any]("orders", store=store).put_many([{"n": n} for n in range(5)])
    transport = {"TYPE": "file", "LOCATION": str(events), "LOG_FILE_PATH": str(events), "APPEND": "true"}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.spark.lineage_job", url, str(tmp_path)],
        env={**os.environ, **{f"OPENLINEAGE__TRANSPORT__{name}": value for name, value in transport.items()}},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-6000:]
    assert "Exception" not in ended.stderr, ended.stderr
    told = events_in(events)
    runs: dict[str, list[dict[str, Any]]] = {}
    for event in told:
        runs.setdefault(event["run"]["runId"], []).append(event)
    assert {run[-1]["eventType"] for run in runs.values()} == {"COMPLETE"}

    (application,) = [run for run in runs.values() if run[0]["job"]["name"] == "nightly_lake"]
    above = application[0]["run"]["runId"], "shop", "nightly_lake"
    for run in runs.values():
        if run is not application:
            parent = run[0]["run"]["facets"]["parent"]
            assert (parent["run"]["runId"], *map(parent["job"].get, ("namespace", "name"))) == above, run[0]["job"]

    moved = {
        run[-1]["job"]["name"].removeprefix("nightly_lake."): (names(run[-1]["inputs"]), names(run[-1]["outputs"]))
        for run in runs.values()
    }
    lake, consumed, table, copy = (
        ("file", f"{tmp_path}/{name}") for name in ("lake", "consumed", "warehouse/back", "copy")
    )
    assert moved["orders to lake"] == ([(url, "default.orders")], [lake])
    assert moved["append_data_localqueue.localqueue"] == ([lake], [])
    insert = f"execute_insert_into_hadoop_fs_relation_command.{tmp_path.name}"
    assert moved[f"{insert}_lake"] == ([], [lake])
    assert moved[f"{insert}_consumed"] == ([], [consumed])
    assert moved[f"{insert}_copy"] == ([table], [copy])
