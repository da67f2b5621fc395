"""Whether a queue has work: by its ready messages, or by how long the oldest of them has been ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue, SQLiteQueueStore
from localqueue.backlog import Backlog, Threshold, UnknownQueue, backlog
from localqueue.errors import QueueStoreMissingError
from localqueue.spark.jobs.job_call import JOBS, JobCall


@pytest.mark.parametrize(
    ("ready", "age", "threshold", "work"),
    [
        (0, None, Threshold(), False),
        (1, 0.0, Threshold(), True),
        (9, 50.0, Threshold(ready=10), False),
        (10, 0.0, Threshold(ready=10), True),
        (1, 59.0, Threshold(age=60), False),
        (1, 60.0, Threshold(age=60), True),
        (1, 61.0, Threshold(ready=10, age=60), True),
        (0, None, Threshold(age=0), False),
    ],
)
def test_a_backlog_is_work_by_number_or_by_age(ready: int, age: float | None, threshold: Threshold, work: bool) -> None:
    assert Backlog(queue="orders", ready=ready, age=age).reaches(threshold) is work


@pytest.mark.parametrize("wrong", [{"ready": 0}, {"ready": 1.5}, {"age": -1}, {"age": float("nan")}, {"age": "60"}])
def test_a_threshold_that_can_not_be_meant_is_refused_with_its_value(wrong: dict[str, Any]) -> None:
    (value,) = wrong.values()
    with pytest.raises(ValueError, match=repr(value)):
        Threshold(**wrong)


def test_it_counts_ready_messages_and_a_drained_queue_is_still_known(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with SQLiteQueueStore(tmp_path / "shop.db") as store:
        queue = PersistentQueue[int]("orders", store=store)
        queue.put_many([1, 2])
        queue.put(3, delay=3600)
        found = backlog("orders", url=url)
        assert found.ready == 2
        assert found.age is not None
        for _ in range(2):
            queue.ack(queue.get_message())
        assert (backlog("orders", url=url).ready, backlog("orders", url=url).age) == (0, None)


def test_a_wrong_queue_is_an_error_that_names_those_that_are_there(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("LOCALQUEUE_URL", f"sqlite:///{tmp_path}/shop.db")
    with SQLiteQueueStore(tmp_path / "shop.db") as store:
        PersistentQueue[int]("orders", store=store).put(1)
    with pytest.raises(UnknownQueue, match=r"no queue 'oders' .* there is 'orders'"):
        backlog("oders")
    assert backlog("oders", missing_ok=True) == Backlog(queue="oders")


def test_looking_at_a_store_that_is_not_there_makes_none(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/deep/shop.db"
    with pytest.raises(QueueStoreMissingError):
        backlog("orders", url=url)
    assert backlog("orders", url=url, missing_ok=True).ready == 0
    assert list(tmp_path.iterdir()) == []


def test_a_job_is_refused_by_name_before_spark_is_needed() -> None:
    with pytest.raises(ValueError, match=r"no job 'archiv'; there are archive, "):
        JobCall(job="archiv")
    with pytest.raises(TypeError, match=r"job 'archive': .*'paht'"):
        JobCall(job="archive", arguments={"paht": "journal"})
    with pytest.raises(TypeError, match=r"job 'process': .*'quue'"):
        JobCall(job="process", arguments={"queue": "orders", "handler": "json:dumps", "max_tries": 2, "quue": "orders"})
    with pytest.raises(ValueError, match="never ends"):
        JobCall(job="materialise", arguments={"available_now": False})
    assert [JobCall(job=name).job for name in JOBS] == list(JOBS)
