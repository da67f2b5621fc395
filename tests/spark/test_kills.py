"""Exactly once into a table and into a queue, whoever is killed when.

One kill and one way here, for time; `python -m tests.spark.kills` runs as many as you like.
"""

from __future__ import annotations

import os

import pytest

from tests.spark.kills import campaign

KILLS = int(os.environ.get("LOCALQUEUE_SPARK_KILLS", "1"))


@pytest.mark.spark
@pytest.mark.crash
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("direction", "kind"), [("table", "sqlite")])
def test_a_killed_job_that_is_started_again_loses_and_doubles_nothing(direction: str, kind: str) -> None:
    found = campaign(direction, kind, KILLS, seed=7)
    assert (found["rows"], found["different"], found["left"]) == (found["put"], found["put"], 0)
