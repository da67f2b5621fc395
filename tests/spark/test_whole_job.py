"""The same job on executors that are processes of their own, and through Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.whole_job import ROWS
from tests.stores import new_place


def run(kind: str, folder: Path) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.spark.whole_job", kind, new_place("sqlite", folder).url, str(folder)],
        env={**os.environ, "SPARK_TESTING": "1"},  # Spark Connect then takes a free port
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-6000:]
    found: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.spark
@pytest.mark.timeout(320)
@pytest.mark.parametrize("kind", ["cluster", "connect"])
def test_a_whole_job_runs(kind: str, tmp_path: Path) -> None:
    found = run(kind, tmp_path)
    assert list(found["read"].values()) == [ROWS, ROWS, ROWS - 1]
    assert set(found["variant"].values()) == {sum(range(ROWS))}
    assert found["table"] == [ROWS, ROWS]
    assert (found["left"], found["copied"], found["processed"]) == (0, ROWS, ROWS)
    if kind == "cluster":
        assert found["retried"] == {"atomic": [ROWS, ROWS, 0], "direct": [ROWS, ROWS, 0]}
    else:
        assert "'nn > 1' is not a condition over the columns id" in found["wrong rule"]
        assert "\n" not in found["wrong rule"]
