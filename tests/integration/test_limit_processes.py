"""Limits among processes, some of which are killed: by what handlers and commits wrote down, none was ever exceeded."""

from __future__ import annotations

import json
import os
import time
from collections import Counter, defaultdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from localqueue import PersistentQueue, Worker
from localqueue.limits import Limits
from localqueue.limits.book import Book
from localqueue.limits.page import KIND
from localqueue.stores.port import Changes, Committed
from tests.crash.children import Child
from tests.limit_histories import Span, by_key, exceeds, most_at_once
from tests.processes import context
from tests.stores import SHARED, Place, new_place
from tests.unit.worker_steps import eventually

pytestmark = [pytest.mark.multiprocess, pytest.mark.slow]

LEASE = 4.0  # of those who are killed
LONG_LEASE = 300.0
RUNS_FOR = 0.02


class Scene(NamedTuple):
    """Plain values, so that it can be told to another process."""

    place: Place
    notes: str
    rate: tuple[int, float] | None
    concurrency: int | None
    keyed: bool
    lease: float

    @property
    def limits(self) -> Limits:
        return Limits(rate=self.rate, concurrency=self.concurrency, key=_user if self.keyed else None)

    def note(self, **what: Any) -> None:
        with open(self.notes, "a") as file:
            file.write(json.dumps(what) + "\n")

    def noted(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in Path(self.notes).read_text().splitlines()]


def _user(value: dict[str, Any]) -> str:
    return str(value["user"])


def play(connection: Connection, scene: Scene, executor: Any) -> None:
    """A worker that writes down what its handlers do, and every start that is committed."""

    def handle(value: dict[str, Any]) -> None:
        run = f"{os.getpid()}-{time.monotonic_ns()}-{value['n']}"
        scene.note(run=run, pid=os.getpid(), user=_user(value), begin=time.monotonic())
        time.sleep(RUNS_FOR)
        scene.note(run=run, end=time.monotonic())

    with scene.place.open() as store:
        commit = store.commit

        def watched(changes: Changes) -> Committed:
            committed: Committed = commit(changes)
            for write in changes.records:
                if write.kind == KIND and write.value is not None:
                    scene.note(limit=write.key, starts=[one.at for one in Book.decode(write.value).starts])
            return committed

        store.commit = watched
        queue = PersistentQueue[Any]("jobs", store=store, lease_timeout=scene.lease)
        worker = Worker(queue, handle, concurrency=2, executor=executor, limits=scene.limits, worker_id=None)
        worker.run_until_empty(wait_for_delayed=True)
        connection.send("done")


def check(scene: Scene, killed: dict[int, float]) -> int:
    """Hold what was written down against the limits; how many handlers ran to their end."""
    begun, ended = {}, {}
    starts: dict[str, Counter[float]] = defaultdict(Counter)
    for one in scene.noted():
        if "begin" in one:
            begun[one["run"]] = one
        elif "end" in one:
            ended[one["run"]] = one["end"]
        else:
            starts[one["limit"]] |= Counter(one["starts"])
    spans = [
        Span(one["user"] if scene.keyed else "", one["begin"], ended.get(run) or killed[one["pid"]])
        for run, one in begun.items()
    ]
    if scene.concurrency is not None:
        assert all(most_at_once(of_key) <= scene.concurrency for of_key in by_key(spans).values())
    if scene.rate is not None:
        assert not any(exceeds(of_key.elements(), *scene.rate) for of_key in starts.values())
        assert sum(of_key.total() for of_key in starts.values()) >= len(begun) - len(killed)
    return len(ended)


SCENES = {
    "shared": {"rate": None, "concurrency": 2, "keyed": False},
    "keyed": {"rate": None, "concurrency": 1, "keyed": True},
    "rate": {"rate": (10, 0.5), "concurrency": None, "keyed": False},
    "both": {"rate": (5, 0.5), "concurrency": 1, "keyed": True},
}


def scenes(everywhere: str, *on_sqlite: str) -> Any:
    """The scene with every kind of limit on every store, the others on SQLite: limits are kept above the store."""
    pairs = [*((kind, everywhere) for kind in SHARED), *(("sqlite", name) for name in on_sqlite)]
    return pytest.mark.parametrize(("place", "name"), pairs, indirect=["place"])


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return new_place(request.param, tmp_path)


def new_scene(place: Place, tmp_path: Path, name: str, count: int, lease: float = LONG_LEASE) -> Scene:
    notes = tmp_path / "notes"
    notes.touch()
    with place.open() as store:
        PersistentQueue[Any]("jobs", store=store).put_many([{"user": n % 3, "n": n} for n in range(count)])
    return Scene(place, str(notes), **SCENES[name], lease=lease)


@scenes("both", "shared", "keyed", "rate")
def test_processes_that_are_not_killed_keep_the_limits(place: Place, tmp_path: Path, name: str) -> None:
    scene = new_scene(place, tmp_path, name, 40)
    children = [Child(play, scene, "threads") for _ in range(3)]
    assert [child.reports() for child in children] == [["done"]] * 3
    assert check(scene, {}) == 40


def test_the_processes_of_a_worker_keep_its_limits(tmp_path: Path) -> None:
    scene = new_scene(new_place("sqlite", tmp_path), tmp_path, "both", 24)
    reports, theirs = context.Pipe(duplex=False)
    worker = context.Process(target=play, args=(theirs, scene, "processes"))  # one that may have children
    worker.start()
    theirs.close()
    assert reports.recv() == "done"
    worker.join()
    assert check(scene, {}) == 24


def pid_of(child: Child) -> int:
    assert child.process.pid is not None
    return child.process.pid


def one_that_runs(scene: Scene, children: list[Child]) -> Child:
    """The next of the processes that calls a handler."""
    known, alive = len(scene.noted()), {pid_of(child): child for child in children}
    begun = eventually(lambda: [one["pid"] for one in scene.noted()[known:] if one.get("pid") in alive])
    return alive[begun[0]]


@pytest.mark.crash
@scenes("both", "shared", "keyed")
def test_processes_that_are_killed_leave_no_place_taken(place: Place, tmp_path: Path, name: str) -> None:
    scene = new_scene(place, tmp_path, name, 40, LEASE)
    killed: dict[int, float] = {}
    children = [Child(play, scene, "threads") for _ in range(3)]
    for _ in range(2):
        child = one_that_runs(scene, children)
        child.process.kill()
        child.process.join()
        killed[pid_of(child)] = time.monotonic()
        children = [*(one for one in children if one is not child), Child(play, scene, "threads")]
    assert [child.reports() for child in children] == [["done"]] * 3
    with place.open() as store:
        queue = PersistentQueue[Any]("jobs", store=store, lease_timeout=LEASE)
        if queue.stats().total:  # what a killed one held comes back when its lease has run out
            eventually(lambda: queue.stats().inflight == 0)
            assert Child(play, scene, "threads").reports() == ["done"]
        assert queue.stats().total == 0
    assert check(scene, killed) >= 40
