"""Compacted topics and tables that follow a queue."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from localqueue.spark.jobs import view_table
from localqueue.spark.jobs.archive import archive
from localqueue.spark.jobs.compact import compact
from localqueue.spark.jobs.files import folder_at
from localqueue.spark.jobs.materialise import MaterialiseResult, materialise, read_view
from localqueue.stores.port import Changes, NewMessage
from localqueue.stores.url import open_store


class Topic:
    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'jobs.db'}"
        with open_store(self.url) as store:
            store.enable_journal()

    def put(self, *pairs: tuple[str | None, Any], queue: str = "users") -> None:
        with open_store(self.url) as store:
            new = [
                NewMessage(id=one, queue=queue, payload=json.dumps(value), ordering_key=key, priority=1)
                for one, (key, value) in zip(store.mint(len(pairs)), pairs, strict=True)
            ]
            store.commit(Changes(enqueue=new))


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    return Topic(tmp_path)


def test_a_topic_is_compacted_to_the_latest_value_of_each_key(spark: Any, topic: Topic, tmp_path: Path) -> None:
    topic.put(("a", {"v": 1}), ("b", {"v": 1}), ("a", {"v": 2}), (None, {"v": 9}), ("b", None), ("c", {"v": 3}))
    topic.put(("a", {"v": 99}), queue="other")
    path = tmp_path / "table"
    result = compact(spark, topic.url, topic="users", key="ordering_key", path=path)
    assert result.keys == 2
    assert str(result) == f"wrote the latest value of 2 keys to file://{path}"
    assert {(row["key"], row["value"]) for row in spark.read.parquet(str(path)).collect()} == {
        ("a", '{"v": 2}'),
        ("c", '{"v": 3}'),
    }

    archive(spark, url=topic.url, path=tmp_path / "archive")
    kept = compact(spark, tmp_path / "archive", topic="users", key="ordering_key", url=topic.url, queue="latest",
                   tombstones=False)  # fmt: skip
    assert kept.keys == 3
    with open_store(topic.url) as store:
        found = {one.ordering_key: (one.payload, one.priority) for one in store.scan("latest")}
    assert found == {"a": ('{"v": 2}', 1), "b": ("null", 1), "c": ('{"v": 3}', 1)}

    rows = spark.createDataFrame(
        [("1", '{"u":{"id":5},"n":1}'), ("2", '{"u":{"id":5},"n":2}')], "id string, value string"
    )
    compact(spark, rows, key="u.id", path=path, mode="overwrite")
    assert [(row["key"], row["id"]) for row in spark.read.parquet(str(path)).collect()] == [("5", "2")]

    for given, said in (
        ({"key": "ordering_key"}, "give either path"),
        ({"key": "a[0]", "path": path}, "a field of the payload"),
        ({"key": "ordering_key", "path": path}, "not empty"),
        ({"key": "ordering_key", "path": path, "format": "orc"}, "format must be one of"),
    ):
        with pytest.raises(ValueError, match=said):
            compact(spark, topic.url, **given)
    with pytest.raises(ValueError, match="no column seq or id"):
        compact(spark, rows.drop("id"), key="u.id", path=tmp_path / "x")


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_view_by_key_follows_its_queue(spark: Any, topic: Topic, tmp_path: Path, format: str) -> None:
    path = tmp_path / "view"

    def run() -> Any:
        result = materialise(
            spark, url=topic.url, queue="users", path=path, key="ordering_key", schema="v int, name string",
            format=format, max_entries=4,
        )  # fmt: skip
        assert isinstance(result, MaterialiseResult)
        return result

    def rows() -> dict[str, Any]:
        return {row["key"]: (row["v"], row["name"]) for row in read_view(spark, path).collect()}

    topic.put(("a", {"v": 1}), ("b", {"v": 1}), ("a", {"v": 2, "name": "x"}), ("c", {"v": 3}), ("b", {"v": 4}))
    first = run()
    assert first.batches >= 2
    assert rows() == {"a": (2, "x"), "b": (4, None), "c": (3, None)}
    topic.put(("b", None), ("d", {"v": 5}))
    run()
    assert rows() == {"a": (2, "x"), "c": (3, None), "d": (5, None)}
    assert run().batches == 0

    # Without its checkpoint the query begins anew: it comes to the same table.
    shutil.rmtree(path / "_checkpoint")
    run()
    assert rows() == {"a": (2, "x"), "c": (3, None), "d": (5, None)}
    with pytest.raises(ValueError, match="is a view with key 'ordering_key' and not 'v'"):
        materialise(spark, url=topic.url, queue="users", path=path, key="v", schema="v int, name string", format=format)


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_view_by_sql_has_the_aggregate_of_all_messages(spark: Any, topic: Topic, tmp_path: Path, format: str) -> None:
    path = tmp_path / "view"
    sql = "SELECT status, count(*) AS n FROM messages GROUP BY status"
    given = {"url": topic.url, "queue": "users", "path": path, "sql": sql, "schema": "status string", "format": format}
    topic.put(("a", {"status": "new"}), ("b", {"status": "new"}))
    materialise(spark, **given)
    topic.put(("a", {"status": "old"}), ("b", {"status": "new"}))
    materialise(spark, **given)
    assert {row["status"]: row["n"] for row in read_view(spark, path).collect()} == {"new": 3, "old": 1}
    if format == "delta":
        return
    with pytest.raises(ValueError, match="sql 'SELECT nothing FROM messages' is not a query over messages"):
        materialise(spark, **{**given, "path": tmp_path / "x", "sql": "SELECT nothing FROM messages"})
    with pytest.raises(ValueError, match="either key"):
        materialise(spark, **{**given, "sql": None})
    with pytest.raises(ValueError, match="is not a view"):
        read_view(spark, tmp_path / "nowhere")
    with pytest.raises(ValueError, match="not empty"):
        materialise(spark, **{**given, "path": tmp_path})


def test_a_batch_that_is_run_again_changes_a_parquet_view_once(spark: Any, tmp_path: Path) -> None:
    folder = folder_at(spark, tmp_path / "view")
    schema = "key string, seq long, v int, gone boolean"
    one = spark.createDataFrame([("a", 1, 1, False), ("b", 2, 1, False)], schema)
    two = spark.createDataFrame([("a", 3, 2, False), ("b", 4, None, True)], schema)
    assert view_table.merge_keys(one, folder, "q", 0)
    assert not view_table.merge_keys(two, folder, "q", 0)
    assert view_table.merge_keys(two, folder, "q", 1)
    parts = view_table.commits_in(folder)[0].parts
    rows = view_table.read_parts(spark, folder, two.drop("gone").schema, list(parts.values())).collect()
    assert [tuple(row) for row in rows] == [("a", 3, 2)]


def _prune(topic: Topic) -> None:
    with open_store(topic.url) as store:
        store.prune_events(older_than=0.0)


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_view_of_a_pruned_journal_begins_with_its_archive(
    spark: Any, topic: Topic, tmp_path: Path, format: str
) -> None:
    given: dict[str, Any] = {"url": topic.url, "queue": "users", "format": format}
    by_key = {**given, "path": tmp_path / "by-key", "key": "ordering_key", "schema": "v int"}
    topic.put(("a", {"v": 1}), ("b", {"v": 1}), ("a", {"v": 2}))
    topic.put(("z", {"v": 1}), queue="other")
    archive(spark, url=topic.url, path=tmp_path / "archive", prune=True)
    topic.put(("c", {"v": 3}), ("b", None))

    with pytest.raises(ValueError, match=r"entries 1 to 4 were pruned from the journal .*: give the archive"):
        materialise(spark, **by_key)
    assert not (tmp_path / "by-key").exists()
    materialise(spark, **by_key, archive=tmp_path / "archive")

    def rows() -> dict[str, Any]:
        found = read_view(spark, tmp_path / "by-key").drop("seq", "at")
        return {row["key"]: tuple(row)[1:] for row in found.collect()}

    assert rows() == {"a": (2,), "c": (3,)}
    topic.put(("d", {"v": 4}))
    materialise(spark, **by_key)  # its past is in its own folder now
    assert rows() == {"a": (2,), "c": (3,), "d": (4,)}

    # A wider schema is taken up; what was there has NULL in the new field, and a new build has its value.
    wider = {**by_key, "schema": "v int, name string"}
    topic.put(("a", {"v": 9, "name": "x"}))
    materialise(spark, **wider)
    assert rows() == {"a": (9, "x"), "c": (3, None), "d": (4, None)}
    with pytest.raises(ValueError, match=r"is a view with schema .*: give another path, or have it built anew"):
        materialise(spark, **{**by_key, "schema": "v string"})
    with pytest.raises(ValueError, match="entries 1 to 4 were pruned"):
        materialise(spark, **{**by_key, "schema": "v string"}, rebuild=True)
    assert rows() == {"a": (9, "x"), "c": (3, None), "d": (4, None)}
    materialise(spark, **{**by_key, "schema": "v string"}, rebuild=True, archive=tmp_path / "archive")
    assert rows() == {"a": ("9",), "c": ("3",), "d": ("4",)}

    if format == "delta":
        return
    counting = {**given, "path": tmp_path / "counted", "sql": "SELECT count(*) AS n FROM messages"}
    materialise(spark, **counting, archive=tmp_path / "archive")
    topic.put(("e", {"v": 1}))
    materialise(spark, **counting)
    assert [row["n"] for row in read_view(spark, tmp_path / "counted").collect()] == [8]

    with pytest.raises(ValueError, match="entries 1 to 4 were pruned"):
        compact(spark, topic.url, key="ordering_key", topic="users", path=tmp_path / "latest")
    compact(spark, topic.url, key="ordering_key", topic="users", path=tmp_path / "latest", archive=tmp_path / "archive")
    assert {row["key"] for row in spark.read.parquet(str(tmp_path / "latest")).collect()} == {"a", "c", "d", "e"}
    kept = compact(spark, topic.url, key="ordering_key", path=tmp_path / "rest", fail_on_data_loss=False)
    assert kept.keys == 4  # c, d, a and e; b is gone

    _prune(topic)
    topic.put(("f", {"v": 1}))
    with pytest.raises(ValueError, match=r"entries 5 to 9 are neither in the journal .* nor in the archive"):
        compact(spark, topic.url, key="ordering_key", path=tmp_path / "x", archive=tmp_path / "archive")
