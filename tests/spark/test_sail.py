"""Sail in the place of Spark: no Java, and a PySpark of its own beside the one of the other tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from localqueue.spark import sail, session
from tests.spark.sail_job import ROWS

PLACE = Path(sys.prefix) / "sail"
SOURCE = Path(sail.__file__).parents[2]


def test_the_reads_the_writes_and_the_jobs_that_are_no_streams_work_without_java(tmp_path: Path) -> None:
    path = os.pathsep.join(map(str, (PLACE, SOURCE)))
    ended = subprocess.run(
        [sys.executable, "-m", "tests.spark.sail_job", f"sqlite:///{tmp_path}/store.db", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path, "JAVA_HOME": ""},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-6000:]
    found = json.loads(ended.stdout.strip().splitlines()[-1])
    assert found["java"] == ""
    assert found["read"] == [ROWS, ROWS - 1, ROWS * (ROWS - 1) // 2, ROWS, ROWS - 1]
    assert found["written"] == ROWS // 3
    assert (found["ingested"], found["ingested again"]) == ([50, 50], [0, 50])
    assert found["landed"] == [[1, 1, 0], [1, 1, 1]]
    assert "'nn > 0' is not a condition over the columns n" in found["wrong rule"]
    assert found["exported"] == [ROWS] * 3
    assert found["archived"] == ROWS + ROWS // 3 + 50 + 8  # leases and dead letters too
    assert found["replayed"] == [ROWS, ROWS]
    assert found["report"] == 3 * ROWS + ROWS // 3 + 50 + 4
    assert found["triage"] == "ValueError: order <n> has no address"
    assert (found["compacted"], found["processed"]) == (10, 50)
    assert [text.split()[0] for text in found["refused"]] == ["materialise", "stream_report"]
    assert (tmp_path / "report.html").exists()
    assert not (tmp_path / "view").exists()
    assert not (tmp_path / "live").exists()


def test_where_sail_can_not_be_started_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    with pytest.raises(sail.NoSail, match=r"localqueue\[sail\]"):
        session(master="sail")
