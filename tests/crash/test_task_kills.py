"""Workers of tasks are killed while results, limits and schedules are on: nothing is lost, doubled or exceeded."""

from __future__ import annotations

import random
import signal
import time
from collections import defaultdict
from pathlib import Path

import pytest

from localqueue.contracts.steps import PATIENCE
from tests.crash.children import DEADLINE, Child
from tests.crash.shop import AT_ONCE, IN_A_SECOND, Log, shop, spans, starts, work
from tests.limit_histories import exceeds, most_at_once
from tests.stores import SHARED, new_place

pytestmark = [pytest.mark.crash, pytest.mark.multiprocess, pytest.mark.slow]

JOBS = 24
WORKERS = 3
KILLS = 4


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", SHARED)
def test_killed_workers_lose_no_job_exceed_no_limit_and_double_no_tick(kind: str, tmp_path: Path) -> None:
    place, path, chance = new_place(kind, tmp_path), str(tmp_path / "log"), random.Random(kind)
    log, killed = Log(path), dict[int, float]()
    with place.open() as store, shop(store, log) as tasks:
        narrow = tasks.tasks["narrow"].many([(number,) for number in range(JOBS)])
        paced = tasks.tasks["paced"].many([(number,) for number in range(JOBS)])
        workers = [Child(work, place, path) for _ in range(WORKERS)]
        for nth in range(KILLS):
            _wait_for(lambda nth=nth: len(log.lines("end")) >= (nth + 1) * 3)
            victim = workers.pop(chance.randrange(len(workers)))
            victim.process.kill()
            assert victim.exit_code == -signal.SIGKILL and victim.process.pid is not None
            killed[victim.process.pid] = time.monotonic()
            workers.append(Child(work, place, path))

        for jobs in (narrow, paced):
            for number, job in enumerate(jobs):
                result, status = job.result(timeout=2 * PATIENCE), job.status()
                assert status is not None and result == [number, status.attempts], "of the worker that acked it"
        assert most_at_once(spans(log, killed)) <= AT_ONCE
        noted = {key: times for key, times in starts(log).items() if times}
        assert len(noted) == 2, "a rate for each key"
        assert not any(exceeds(times.elements(), IN_A_SECOND, 1.0) for times in noted.values())
        ids = defaultdict(set)
        for _, _, _, tick, message_id in log.lines("tick"):
            ids[tick].add(message_id)
        assert len(ids) >= KILLS and all(len(messages) == 1 for messages in ids.values())

        for worker in workers:
            assert worker.connection.poll(DEADLINE) and worker.connection.recv() == "here"
            worker.process.terminate()
        assert [worker.exit_code for worker in workers] == [0] * WORKERS


def _wait_for(condition: object) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "the workers do not go on"
        time.sleep(0.005)
