"""What `localqueue pipeline` says of a value that is wrong: one line with the value and the way out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue
from localqueue.stores.url import open_store
from tests.cli.command import run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a store that the commands find through the environment, with a message and a dead letter."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCALQUEUE_URL", url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with open_store(url) as store:
        store.enable_journal()
        with PersistentQueue[Any]("jobs", store=store) as queue:
            queue.put({"n": 1})
            queue.put({"n": 2})
            queue.dead_letter(queue.get_message(), error=ValueError("no"))
        yield tmp_path


COUNT = "SELECT queue, count(*) AS n FROM messages GROUP BY queue"


@pytest.mark.timeout(300)  # the first of a run also starts the session
def test_broken_sql_and_schemas_are_named_and_leave_nothing_behind(spark: Any, here: Path) -> None:
    for words, value, way in (
        (("materialise", "jobs", "view", "--sql", "SELEC 1"), "'SELEC 1'", "not a query over messages (seq, at,"),
        (("materialise", "jobs", "view", "--sql", "SELECT no FROM messages"), "'SELECT no", "[`"),
        (
            ("materialise", "jobs", "view", "--sql", "SELECT value FROM messages"),
            "'SELECT value",
            "such as SELECT queue",
        ),
        (("materialise", "jobs", "view", "--sql", COUNT, "--schema", "n wrong type"), "'n wrong type'", "'id long,"),
        (("materialise", "jobs", "view", "--key", "n", "--schema", "n wrongtype"), "'n wrongtype'", "'id long,"),
        (("ingest", "jobs", "rows.csv", "--schema", "a wrong"), "'a wrong'", "'id long,"),
        (("export", "out", "--where", "state ="), "'state ='", "a condition over the columns id, queue"),
        (("triage", "replay", "jobs", "--where", "(("), "'(('", "a condition over the columns"),
        (("report", "--html", "s3a://bucket/page.html"), "'s3a://bucket/page.html'", "without a scheme"),
    ):
        ran = run("pipeline", *words)
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), (words, ran.err)
        assert value in ran.err and way in ran.err, ran.err
        assert "stacktrace" not in ran.err and "pyspark.errors" not in ran.err and "java." not in ran.err
    assert sorted(one.name for one in here.iterdir() if one.is_dir() and any(one.iterdir())) == []


@pytest.mark.timeout(300)  # the first of a run also starts the session
def test_a_path_that_spark_can_not_reach_is_named_with_what_is_missing(spark: Any, here: Path) -> None:
    for path, way in (
        ("gs://bucket/x.json", "add its package to spark.jars.packages"),
        ("hdfs://no.invalid:1/x.json", "its host"),
    ):
        for words in (
            ("export", path),
            ("archive", path),
            ("compact", "--key", "n", "--path", path),
            ("compact", "--key", "n", "--source", path, "--path", "latest"),
            ("materialise", "jobs", path, "--key", "n"),
            ("ingest", "jobs", path),
            ("replay", path, "--to", "other"),
            ("report-live", "--checkpoint", path, "--output", "live", "--available-now"),
        ):
            ran = run("pipeline", *words)
            assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 1), (words, ran.err)
            assert path in ran.err and way in ran.err and "java." not in ran.err, ran.err
