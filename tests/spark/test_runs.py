"""The view `runs`: runs of every kind, their steps, and the tables that a report makes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import datasource as spark_filters

from localqueue.errors import PayloadError, QueueStoreMissingError
from localqueue.spark.datasource import LocalQueueDataSource
from localqueue.spark.options import parse
from localqueue.spark.source import runs as source
from localqueue.spark.source.values import micros
from localqueue.stores.port import Changes, RecordWrite
from localqueue.workflows import Run, list_runs
from tests.spark.contents import options_of, read
from tests.spark.runs import fill, workflows
from tests.stores import Place, new_place

STORES = [
    "sqlite",
    "lmdb",
    *(pytest.param(kind, marks=pytest.mark.server) for kind in ("postgres", "redis", "mongodb")),
]


def filled(kind: str, folder: Path) -> Place:
    place = new_place(kind, folder)
    with place.open() as store:
        fill(store)
    return place


def table(place: Place, *filters: spark_filters.Filter, **options: str) -> list[dict[str, Any]]:
    """The rows of the view, by run, step and item."""
    rows: list[dict[str, Any]] = read(options_of(place, view="runs", **options), filters=filters)[0].to_pylist()
    return sorted(rows, key=lambda row: (row["run_id"], row["step"] or "", -1 if row["item"] is None else row["item"]))


def moment(at: float | None) -> datetime | None:
    whole = micros(at)
    return None if whole is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=whole)


@pytest.mark.parametrize("kind", STORES)
def test_every_recorded_step_of_every_run_is_a_row_and_so_is_a_run_without_any(kind: str, tmp_path: Path) -> None:
    place = filled(kind, tmp_path)
    rows = table(place)
    assert [(row["run_id"], row["step"], row["kind"], row["item"], row["step_state"]) for row in rows] == [
        ("bad", "charge", "step", None, "failed"),
        ("forked", "charge", "step", None, "succeeded"),
        ("forked", "pack", "map", None, "succeeded"),
        ("forked", "pack", "item", 0, "succeeded"),
        ("forked", "pack", "item", 1, "succeeded"),
        ("good", "charge", "step", None, "succeeded"),
        ("good", "pack", "map", None, "succeeded"),
        ("good", "pack", "item", 0, "succeeded"),
        ("good", "pack", "item", 1, "succeeded"),
        ("good", "ship", "child", None, "succeeded"),
        ("good later", None, None, None, None),
        ("good.ship", "hand_over", "step", None, "succeeded"),
        ("hello", "greet", "flow", None, "succeeded"),
        ("hello", "say", "call", 1, "succeeded"),
        ("hello", "wait for name", "call", 0, "succeeded"),
        ("plain", None, None, None, None),
    ]
    runs = {row["run_id"]: row for row in rows}
    assert {one: (row["workflow"], row["version"], row["queue"], row["run_state"]) for one, row in runs.items()} == {
        "bad": ("order", 2, "order", "failed"),
        "forked": ("order", 2, "order", "running"),
        "good": ("order", 2, "order", "succeeded"),
        "good later": ("order", 2, "order", "running"),
        "good.ship": ("shipping", 1, "shipping", "succeeded"),
        "hello": ("greeting", 1, "greeting", "succeeded"),
        "plain": (None, None, None, None),
    }
    assert runs["bad"]["error"] == {"type": "ValueError", "module": "builtins", "message": "card declined"}
    assert (runs["bad"]["state"], runs["bad"]["dead"], runs["plain"]["state"]) == ("stalled", 1, "running")
    assert (runs["good"]["child"], runs["good.ship"]["parent"]) == ("good.ship", "good")

    with place.open(read_only=True) as store:
        known = Run.find(store, "good").status()
    assert (runs["good"]["created_at"], runs["good"]["run_finished_at"]) == (
        moment(known.created_at),
        moment(known.finished_at),
    )
    charged = next(row for row in rows if row["run_id"] == "good" and row["step"] == "charge")
    said = known.step("charge")
    assert (charged["attempts"], charged["worker"], charged["seconds"]) == (2, said.worker, said.seconds)
    assert (charged["started_at"], charged["finished_at"]) == (moment(said.started_at), moment(said.finished_at))
    taken_over = next(row for row in rows if row["run_id"] == "forked" and row["step"] == "charge")
    assert (taken_over["started_at"], taken_over["seconds"]) == (charged["started_at"], charged["seconds"])
    assert taken_over["started_at"] < taken_over["created_at"]

    # Whatever is read less of is read the same.
    assert table(place, numPartitions="3") == rows
    named = spark_filters.In(("run_id",), ("good", "plain", "nobody", "a\0b"))
    assert table(place, named) == [row for row in rows if row["run_id"] in ("good", "plain")]
    orders = spark_filters.EqualTo(("workflow",), "order")
    assert table(place, orders, numPartitions="2") == [row for row in rows if row["workflow"] == "order"]


def test_pages_end_anywhere_and_ids_may_begin_with_other_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = new_place("sqlite", tmp_path)
    ids = ["a", "a\x01", "a\x1e", "a b", "a.b", "ab", "é", "z"]
    with place.open() as store:
        _, order, _ = workflows()
        for run_id in ids:
            order.start(store, {"fail": False}, run_id=run_id)
        order.worker(store).run_until_empty()  # as far as it gets without a worker that ships
    whole = table(place)
    assert {row["run_id"] for row in whole if row["step"] == "charge"} == set(ids)
    for size in (1, 2, 3):
        monkeypatch.setattr(source, "_RUNS", size)
        monkeypatch.setattr(source, "_FEW", size)
        monkeypatch.setattr(source, "_MANY", size)
        assert table(place) == whole
        assert table(place, spark_filters.EqualTo(("workflow",), "order")) == [
            row for row in whole if row["workflow"] == "order"
        ]
        for parts in (2, 5, 40):
            assert table(place, numPartitions=str(parts)) == whole


def test_filters_on_runs_and_workflows_are_taken_and_others_are_left_to_spark(tmp_path: Path) -> None:
    place = filled("sqlite", tmp_path)
    taken = (
        spark_filters.IsNotNull(("workflow",)),
        spark_filters.IsNotNull(("run_id",)),
        spark_filters.In(("workflow",), ("shipping", "greeting", None)),
    )
    left = (
        spark_filters.Not(spark_filters.EqualTo(("workflow",), "shipping")),
        spark_filters.Not(spark_filters.EqualTo(("state",), "running")),
        spark_filters.EqualTo(("run_state",), "failed"),
        spark_filters.EqualTo(("queue",), "order"),
        spark_filters.IsNull(("workflow",)),
    )
    rows, rest = read(options_of(place, view="runs", columns="run_id,workflow"), filters=(*taken, *left))
    assert {row["run_id"] for row in rows.to_pylist()} == {"good.ship", "hello"}
    assert tuple(rest) == left
    assert table(place, spark_filters.EqualTo(("run_id",), None)) == []


def test_to_read_runs_makes_nothing_and_names_a_record_that_can_not_be_read(tmp_path: Path) -> None:
    place = new_place("sqlite", tmp_path)
    with pytest.raises(QueueStoreMissingError):
        table(place)
    assert list(tmp_path.iterdir()) == []
    with place.open() as store:
        store.commit(Changes(records=[RecordWrite("workflow.run", "torn", b"{")]))
    with pytest.raises(PayloadError, match=r"the record workflow\.run 'torn' can not be read"):
        table(place)


def test_messages_are_counted_only_when_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from localqueue import SQLiteQueueStore

    place = filled("sqlite", tmp_path)
    asked: list[str] = []
    count = SQLiteQueueStore.run
    monkeypatch.setattr(SQLiteQueueStore, "run", lambda self, run_id: (asked.append(run_id), count(self, run_id))[1])
    reader = LocalQueueDataSource(options_of(place, view="runs", columns="run_id,step,seconds"))
    found = reader.reader(reader.schema())
    assert sum(batch.num_rows for part in found.partitions() for batch in found.read(part)) == 16
    assert asked == ["plain"]


def test_tables_tell_how_runs_and_their_steps_went(spark: Any, tmp_path: Path) -> None:
    from localqueue.spark.jobs.run_analytics import run_tables, workflow_runs

    place = filled("sqlite", tmp_path)
    runs = spark.read.format("localqueue").options(**options_of(place, view="runs")).load()
    (bad,) = runs.where("workflow = 'order' AND step_state = 'failed'").collect()
    assert (bad["run_id"], bad["error"]["message"], bad["paused"], bad["item"]) == ("bad", "card declined", False, None)

    found = run_tables(workflow_runs(spark, parse(options_of(place))))
    made = {name: table.to_pylist() for name, table in found.items()}
    order, *_ = made["workflows"]
    assert (order["workflow"], order["version"], order["runs"]) == ("order", 2, 4)
    assert (order["succeeded"], order["failed"], order["running"], order["paused"]) == (1, 1, 2, 0)
    with place.open(read_only=True) as store:
        times = [(one.finished_at or 0.0) - one.created_at for one in list_runs(store, workflow="order") if one.ended]
    assert (order["max"], order["p50"]) == pytest.approx((max(times), sum(times) / 2), abs=1e-5)
    steps = {(row["workflow"], row["step"], row["kind"]): row for row in made["workflow_steps"]}
    charge = steps["order", "charge", "step"]
    assert (charge["runs"], charge["times"], charge["failures"], charge["retries"]) == (2, 2, 1, 2)
    assert (steps["order", "pack", "item"]["runs"], steps["order", "pack", "item"]["times"]) == (1, 2)
    assert steps["greeting", "say", "call"]["p95"] > 0
    slow = made["slowest_steps"]
    assert [row["seconds"] for row in slow] == sorted((row["seconds"] for row in slow), reverse=True)
    assert {row["kind"] for row in slow} == {"step", "item", "call"}
    assert run_tables(runs.where("workflow = 'other'")) == {}
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0
