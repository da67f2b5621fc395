"""A real cluster: a master, two workers and two applications in processes of their own, and a PostgreSQL for them all.

The machines know nothing of the checkout. What they run was shipped to them as docs/spark-cluster.md says.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.spark.cluster import NODE_PATH
from tests.spark.running_cluster import RunningCluster, held, let_go
from tests.stores import Place, new_place

# All in one process, so that the cluster is started once.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.xdist_group("cluster")]

ROWS = 400
PACKAGE = Path(sysconfig.get_path("purelib"), "localqueue", "__init__.py").relative_to(sys.prefix)


@pytest.fixture(scope="module")
def running() -> Iterator[RunningCluster]:
    with TemporaryDirectory(prefix="localqueue-cluster-") as folder, ExitStack() as stack:
        yield RunningCluster(Path(folder), stack)


@pytest.fixture
def cluster(running: RunningCluster) -> RunningCluster:
    running.wait_until_whole()
    return running


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place("postgres", tmp_path)


def source(place: Place) -> dict[str, str]:
    return {"url": place.url, "namespace": place.namespace, "queue": "in"}


def fill(place: Place, rows: int = ROWS) -> None:
    with place.open() as store:
        store.enable_journal()
        store.put_batch("in", [json.dumps({"n": n}) for n in range(rows)], None)


def acked(place: Place) -> Counter[str]:
    """How often each message was acked."""
    with place.open() as store:
        return Counter(entry.message_id for entry in store.events() if entry.type == "acked")


def numbers(place: Place, queue: str = "in") -> list[int]:
    """What is in the queue, in order."""
    with place.open() as store:
        return sorted(json.loads(message.payload)["n"] for message in store.scan(queue, limit=10 * ROWS))


def handled(folder: Path) -> list[int]:
    return sorted(map(int, (folder / "handled").read_text().split()))


def test_a_machine_of_the_cluster_has_nothing_of_ours() -> None:
    asked = subprocess.run(["python3", "-c", "import localqueue"], env={"PATH": NODE_PATH}, capture_output=True)
    assert b"ModuleNotFoundError" in asked.stderr


def test_a_queue_is_read_by_tasks_on_both_machines_with_what_was_shipped(cluster: RunningCluster, place: Place) -> None:
    fill(place)
    found = cluster.asked["application"]("read", source=source(place), parts=4)
    assert found["numbers"] == [*range(ROWS)]
    assert {Path(one).parents[2] for one in found["places"]} == {worker.folder for worker in cluster.workers}
    assert found["packages"] == [f"{one}/env/{PACKAGE}" for one in found["places"]]


def test_a_client_of_the_connect_server_writes_reads_consumes_and_handles(
    cluster: RunningCluster, place: Place, tmp_path: Path
) -> None:
    asked = cluster.asked["connect"]
    there = {"source": source(place), "folder": str(tmp_path)}
    asked("write", **there, rows=ROWS)
    assert asked("read", source=source(place), parts=2)["numbers"] == [*range(ROWS)]
    assert asked("consume", **there) == [*range(ROWS)]
    assert numbers(place) == []
    fill(place)
    assert asked("work", **there)["processed"] == ROWS
    assert handled(tmp_path) == [*range(ROWS)]
    assert numbers(place) == []


def test_the_doctor_finds_nothing_wrong(cluster: RunningCluster, place: Place) -> None:
    fill(place, 1)
    checks = cluster.asked["application"]("look", url=place.url, namespace=place.namespace)
    assert [(name, state) for name, state, _ in checks if state != "ok"] == [("deltalake", "warn")]  # was not shipped
    said = {name: found for name, _, found in checks}
    assert "/env/bin/python on" in said["tasks"]
    assert "answers here and to a task" in said["store"]


def test_an_executor_that_is_killed_in_a_write_loses_and_doubles_nothing(
    cluster: RunningCluster, place: Place, tmp_path: Path
) -> None:
    asked = cluster.asked["application"]
    asked.tell("write", source=source(place), folder=str(tmp_path), rows=ROWS, stops=(250,))
    cluster.kill_executor(held(tmp_path, 250, asked))
    let_go(tmp_path, 250)
    asked.answer()
    assert numbers(place) == [*range(ROWS)]


def test_an_executor_that_is_killed_in_a_consumed_batch_loses_and_doubles_nothing(
    cluster: RunningCluster, place: Place, tmp_path: Path
) -> None:
    fill(place)
    asked = cluster.asked["application"]
    asked.tell("consume", source=source(place), folder=str(tmp_path), stops=(250,))
    cluster.kill_executor(held(tmp_path, 250, asked))
    let_go(tmp_path, 250)
    assert asked.answer() == [*range(ROWS)]
    assert numbers(place) == []


def test_an_executor_that_is_killed_in_a_stream_between_queues_loses_and_doubles_nothing(
    cluster: RunningCluster, place: Place, tmp_path: Path
) -> None:
    fill(place)
    asked = cluster.asked["application"]
    asked.tell("forward", source=source(place), folder=str(tmp_path), stops=(250,))
    cluster.kill_executor(held(tmp_path, 250, asked))
    let_go(tmp_path, 250)
    asked.answer()
    assert (numbers(place), numbers(place, "out")) == ([], [*range(ROWS)])


def test_an_executor_that_is_killed_in_a_handler_leaves_its_message_to_another(
    cluster: RunningCluster, place: Place, tmp_path: Path
) -> None:
    fill(place)
    asked = cluster.asked["application"]
    asked.tell("work", source=source(place), folder=str(tmp_path), stops=(250,))
    cluster.kill_executor(held(tmp_path, 250, asked))
    let_go(tmp_path, 250)
    assert 1 in asked.answer()["attempts"]
    assert {*handled(tmp_path)} == {*range(ROWS)}
    assert numbers(place) == []
    assert Counter(acked(place).values()) == {1: ROWS}


def test_a_query_goes_on_without_the_master_which_knows_everything_when_it_is_back(
    cluster: RunningCluster, place: Place, tmp_path: Path
) -> None:
    """Meanwhile an executor dies, which only the master can replace."""
    fill(place)
    asked = cluster.asked["application"]
    asked.tell("consume", source=source(place), folder=str(tmp_path), stops=(50, 350))
    victim = held(tmp_path, 50, asked)
    cluster.master.kill()
    cluster.kill_executor(victim)
    let_go(tmp_path, 50)
    held(tmp_path, 350, asked)
    cluster.master.start()
    cluster.wait_until_whole()
    let_go(tmp_path, 350)
    assert asked.answer() == [*range(ROWS)]
    assert numbers(place) == []
