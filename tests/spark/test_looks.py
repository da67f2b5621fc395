"""Reads of Spark make nothing: where there is no store they say so, and beside a file they leave no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localqueue.spark.root_cause import root_cause
from localqueue.stores.sqlite import SQLiteQueueStore

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_read_where_there_is_no_store_says_so_and_makes_none(spark: Any, tmp_path: Path) -> None:
    reader = spark.read.format("localqueue").option("url", f"sqlite:///{tmp_path}/none.db")
    with pytest.raises(Exception, match="there is no store at") as raised:
        reader.load().collect()
    assert "none.db" in root_cause(raised.value)
    assert names(tmp_path) == []


def test_a_stream_that_subscribes_where_there_is_no_store_says_so_and_makes_none(spark: Any, tmp_path: Path) -> None:
    stream = spark.readStream.format("localqueue").option("url", f"sqlite:///{tmp_path}/none.db").load()
    writing = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match="there is no store at"):
        writing.trigger(availableNow=True).start().awaitTermination()
    assert names(tmp_path) == ["checkpoint"]


@pytest.mark.parametrize("engine", ["auto", "python"])
def test_a_read_of_a_closed_file_leaves_it_as_it_is(spark: Any, tmp_path: Path, engine: str) -> None:
    path = tmp_path / "jobs.db"
    with SQLiteQueueStore(path) as store:
        store.put_batch("jobs", ["1", "2", "3"], None)
    before = path.read_bytes()
    reader = spark.read.format("localqueue").option("url", f"sqlite:///{path}").option("engine", engine)
    assert sorted(row["value"] for row in reader.load().select("value").collect()) == ["1", "2", "3"]
    assert names(tmp_path) == ["jobs.db"]
    assert path.read_bytes() == before
