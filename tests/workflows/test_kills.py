"""Workers are killed while they run workflows: every run ends, each step has one result, and no join is too early."""

from __future__ import annotations

import random
import signal
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from localqueue.contracts.steps import PATIENCE
from tests.crash.children import Child
from tests.crash.shop import Log
from tests.stores import SHARED, new_place
from tests.workflows.killed import ITEMS, STEPS, plant, run_plant, run_stuck, stuck
from tests.workflows.workplace import until

pytestmark = [pytest.mark.crash, pytest.mark.multiprocess, pytest.mark.slow]

RUNS = {"sqlite": 20, "lmdb": 20, "redis": 20, "postgres": 8, "mongodb": 8}
WORKERS = 3
BETWEEN = 20  # effects from one kill to the next


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", SHARED)
def test_runs_whose_workers_are_killed_at_random_end_as_if_nobody_had_been(kind: str, tmp_path: Path) -> None:
    place, path, chance = new_place(kind, tmp_path), str(tmp_path / "log"), random.Random(kind)
    log = Log(path)
    flow = plant(log)
    with place.open() as store:
        runs = [flow.start(store, n) for n in range(RUNS[kind])]
        effects = len(runs) * (len(STEPS) - 1 + ITEMS)
        workers = [Child(run_plant, place, path) for _ in range(WORKERS)]
        for count in range(BETWEEN, effects, BETWEEN):
            until(lambda count=count: len(log.lines("effect")) >= count)
            time.sleep(chance.random() * 0.01)  # anywhere in a step or its commit
            victim = workers.pop(chance.randrange(len(workers)))
            victim.process.kill()
            assert victim.exit_code == -signal.SIGKILL
            workers.append(Child(run_plant, place, path))
        ends = [run.wait(2 * PATIENCE) for run in runs]
        results = {run.id: dict(end.results) for run, end in zip(runs, ends, strict=True)}
        for worker in workers:
            worker.process.kill()
            assert worker.exit_code == -signal.SIGKILL
        assert all(not stats.active and not stats.waiting for run in runs if (stats := store.run(run.id)) is not None)
    assert {end.state for end in ends} == {"succeeded"}
    _check(log, results)


def _check(log: Log, results: dict[str, dict[str, Any]]) -> None:
    tokens: dict[tuple[str, str, int | None], set[str]] = defaultdict(set)
    for _, _, _, run, step, index, token, given in log.lines("effect"):
        tokens[run, step, index].add(token)
        assert given == {name: results[run][name] for name in STEPS[step]}, "the one result of all that is above"
    for run, result in results.items():
        assert result.keys() == STEPS.keys() and len(result["each"]) == ITEMS
        for step, kept in result.items():
            each = enumerate(kept) if step == "each" else [(None, kept)]
            assert all(one in tokens[run, step, index] for index, one in each), "of a try that had its effect"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", SHARED)
def test_a_step_whose_worker_dies_is_begun_again_as_soon_as_its_lease_has_run_out(kind: str, tmp_path: Path) -> None:
    place, path, lease = new_place(kind, tmp_path), str(tmp_path / "log"), 1.0
    log = Log(path)
    with place.open() as store:
        run = stuck(log).start(store)
        first = Child(run_stuck, place, path, lease)
        until(lambda: log.lines("begin"))
        second = Child(run_stuck, place, path, lease)
        until(lambda: len(log.lines("up")) == 2)
        first.process.kill()
        assert first.exit_code == -signal.SIGKILL
        until(lambda: len(log.lines("begin")) >= 2)  # in less than the time that leases have unless something is said
        assert run.wait(PATIENCE).results == {"work": 2}
        second.process.terminate()
        assert second.exit_code == 0
